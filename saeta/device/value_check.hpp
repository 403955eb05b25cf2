// Checks of values in Arrow arrays that refer to other values, and a kernel that runs them in one launch.
//
// What      Plain structs that are in device memory when the kernel reads them. Pointers are device pointers,
//           aligned to the values that they point to, at most 8 bytes. On the host they may have any
//           alignment.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace SAETA_EXPORT saeta {

enum class check_kind : std::uint32_t {
  offsets, ///< `count` + 1 signed offsets of `width` bytes never decrease
  indices, ///< `count` unsigned indices of `width` bytes are below `limit` where the row is valid
  /// `count` signed offsets of `width` bytes with their sizes (`second`) stay within `limit` rows
  list_views,
  /// `count` type ids are known to `table`; with `second`, offsets are below the child's number of rows
  unions,
  /// `count` views of 16 bytes point into their buffers and repeat the first 4 bytes, where the row is valid
  views,
  run_ends, ///< `count` signed run ends of `width` bytes are above 0 and increase
  /// `count` strings are UTF-8 where the row is valid; `values` has `count` + 1 offsets of `width` bytes into
  /// the `limit` bytes of `second`
  texts,
  text_views ///< the strings of `count` views are UTF-8 where the row is valid
};

struct value_check {
  check_kind kind = check_kind::offsets;
  std::int32_t width = 0;
  const void* values = nullptr;
  const void* second = nullptr;
  const std::uint8_t* validity = nullptr; ///< null: every row is valid
  std::int64_t bit_offset = 0;            ///< of row 0 in `validity`
  std::int64_t count = 0;                 ///< more than 0
  std::int64_t limit = 0;                 ///< for views, the number of buffers
  /// For unions, 256 entries: the number of rows of the child of each type id (as an unsigned byte), or -1.
  /// For views, the sizes of the buffers, then their addresses.
  const std::int64_t* table = nullptr;
  std::int64_t first_tile = 0; ///< number of tiles in the checks before this one
};

/// The result that the kernel stores if a check passes.
inline constexpr std::int64_t no_bad_row = std::numeric_limits<std::int64_t>::max();

/// Rows that a block of threads checks at a time.
inline constexpr std::int64_t check_tile_rows = 8192;

constexpr std::int64_t count_tiles(const value_check& of) noexcept {
  return (of.count + check_tile_rows - 1) / check_tile_rows;
}

/// The kernel as plain loops on the calling thread. Stores the first row that fails each check, or
/// no_bad_row.
void check_values_now(std::span<const value_check> checks, std::int64_t* bad_rows) noexcept;

} // namespace saeta
