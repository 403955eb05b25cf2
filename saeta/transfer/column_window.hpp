// Finds the windows of buffers, children and dictionaries that the rows of columns refer to.
//
// What      The search descends the columns level by level. For all columns of a level, one read from the
//           device gets the offsets that tell which children and bytes are needed, and one transfer gets the
//           views whose bytes are to be cut.
// Owner     A window keeps its column.
// Order     Reads on the context's work stream, after the last writes of the columns. The host waits, but not
//           for columns that are not slices.
// Thread    One.
// Failure   As for a use token, an allocation and the ring (staging/staging_ring.hpp).

#pragma once

#include "saeta/column/column.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/transfer/host_array.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// One view of a string or a binary as it is stored (Arrow columnar format, "Variable-size Binary View
/// Layout"). It holds up to `inlined` bytes itself, in place of prefix, buffer and offset.
struct byte_view {
  static constexpr std::int32_t inlined = 12;

  std::int32_t length = 0;
  std::int32_t prefix = 0;
  std::int32_t buffer = 0;
  std::int32_t offset = 0;

  /// Whether the view refers to bytes inside buffers of these sizes. The view of a null may hold any values.
  [[nodiscard]] bool names_bytes(std::span<const std::size_t> sizes) const noexcept;
};
static_assert(sizeof(byte_view) == 16);

/// For each buffer, the window from the first to the last byte that a view refers to.
std::vector<byte_window> windows_of_views(std::span<const byte_view> views,
                                          std::span<const std::size_t> sizes);

/// Changes views so that they refer to the same bytes in buffers that hold only these windows.
void move_into(std::span<byte_view> views, std::span<const byte_window> windows,
               std::span<const std::size_t> sizes);

/// Rows [first, first + rows) of a column with offsets, counted from the start of its buffers.
struct rows_with_offsets {
  const column* of = nullptr;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// The rows of a child, or the bytes, that the offsets of each window point to. Reads the first and last
/// offset of all windows at once and does not check them. Without windows the device is not accessed.
std::vector<child_rows> read_pointed_rows(const std::shared_ptr<context>& ctx,
                                          std::span<const rows_with_offsets> requested);

/// A column whose rows are moved. `from` is the slice of it that its parent's rows refer to.
struct column_window {
  column from;
  row_window rows;
  child_rows pointed;                    ///< child rows or bytes that the offsets point to
  bool cut = false;                      ///< `pointed` had to be read from the device
  bool rebase = false;                   ///< the offsets of the window begin above 0
  std::vector<byte_window> behind_views; ///< for each buffer of bytes; empty: all of them
  std::vector<column_window> children;
  std::vector<column_window> dictionary; ///< one or none

  /// The bytes of buffer `index` that the rows refer to; absent if there are none.
  [[nodiscard]] buffer bytes_of_rows(std::size_t index) const;
  /// True if these bytes change on the way: bitmaps that begin inside a byte, offsets that begin above 0, and
  /// views whose bytes are cut.
  [[nodiscard]] bool changes(std::size_t index) const;
};

/// Which bytes behind views are moved.
enum class view_bytes {
  all,
  used, ///< only bytes that views refer to, if these are at most half of the column
};

[[nodiscard]] std::vector<column_window> find_windows(const std::shared_ptr<context>& ctx,
                                                      std::span<const column> columns, view_bytes moved);

/// The sizes of the buffers of bytes behind views.
[[nodiscard]] std::vector<std::size_t> sizes_behind_views(const column& from);

} // namespace saeta
