// What the rows of columns refer to: windows of their buffers, of their children and of their dictionaries.
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
#include "saeta/transfer/host_window.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// A column whose rows are moved. `from` is the slice of it that its parent's rows refer to.
struct column_window {
  column from;
  row_window rows;
  child_rows pointed;                    ///< what the offsets point to
  bool cut = false;                      ///< `pointed` had to be read from the device
  bool rebase = false;                   ///< its offsets begin above 0
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
  used, ///< what the views refer to, if these are at most half of their column
};

[[nodiscard]] std::vector<column_window> find_windows(const std::shared_ptr<context>& ctx,
                                                      std::span<const column> columns, view_bytes moved);

/// The sizes of the buffers of bytes behind views.
[[nodiscard]] std::vector<std::size_t> sizes_behind_views(const column& from);

} // namespace saeta
