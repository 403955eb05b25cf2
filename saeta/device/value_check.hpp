// What values of Arrow arrays that point somewhere must fulfil, and a kernel that looks at all of them in one launch.
//
// What      Plain structs that lie in device memory when the kernel reads them. Pointers are device pointers. On the host they
//           may have any alignment, elsewhere that of their values, at most 8 bytes.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace saeta {

enum class check_kind : std::uint32_t {
  offsets,    ///< `count` + 1 signed offsets of `width` bytes never fall
  indices,    ///< `count` unsigned indices of `width` bytes are below `limit` where the row is valid
  list_views, ///< `count` signed offsets of `width` bytes with their sizes (`second`) stay within `limit` rows
  unions, ///< `count` type ids are known to `table`; with `second`, offsets are below the rows that it has for them
  views, ///< `count` views of 16 bytes point into their buffers and repeat the first 4 bytes, where the row is valid
  run_ends, ///< `count` signed run ends of `width` bytes rise, from above 0
  texts, ///< `count` strings, with `count` + 1 offsets of `width` bytes into `second`, `limit` bytes, are UTF-8 where the row is valid
  text_views ///< what `count` views show is UTF-8 where the row is valid
};

struct value_check {
  check_kind kind = check_kind::offsets;
  std::int32_t width = 0;
  const void* values = nullptr;
  const void* second = nullptr;
  const std::uint8_t* validity = nullptr; ///< null: every row is valid
  std::int64_t bit_offset = 0;            ///< of the validity
  std::int64_t count = 0;                 ///< more than 0
  std::int64_t limit = 0;                 ///< of views the number of buffers
  /// Of unions 256 entries, for each type id (as an unsigned byte) the rows of its child, or -1. Of views the sizes of the buffers,
  /// then their addresses.
  const std::int64_t* table = nullptr;
  std::int64_t first_tile = 0; ///< number of tiles in the checks before
};

/// What the kernel stores for a check that holds.
inline constexpr std::int64_t no_bad_row = std::numeric_limits<std::int64_t>::max();

/// Rows that one block of threads looks at before it goes on.
inline constexpr std::int64_t check_tile_rows = 8192;

constexpr std::int64_t check_tiles(const value_check& of) noexcept {
  return (of.count + check_tile_rows - 1) / check_tile_rows;
}

/// Sets `first_tile` of every check, before they are uploaded.
void number_tiles(std::span<value_check> checks) noexcept;

/// The kernel as plain loops, on the calling thread: the first row that breaks each check, or no_bad_row.
void check_values_now(std::span<const value_check> checks, std::int64_t* bad_rows) noexcept;

} // namespace saeta
