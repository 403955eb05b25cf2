// The tasks of two kernels. `compare` compares the rows of many arrays in one launch. `expand` finds the
// values of lists that are not contiguous.
//
// What      Plain structs that are in device memory when a kernel reads them. Pointers are device pointers,
//           aligned to the values that they point to, at most 8 bytes. On the host they may have any
//           alignment.
// Rows      Task row j stands for a row of each side: `first` + j, or, if the rows come from lists, `first` +
//           j + the entry of `shifts` for the list of j. Steps lead from there to rows of children. A row is
//           null if its own validity or that of a step says so, or if it belongs to another child of a union.
//           Two rows are equal if both are null, or if both are valid and their values are equal.
// Thread    A task belongs to the code that makes it; kernels only read it.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace SAETA_EXPORT saeta {

/// How a step finds the row of a child, or of a dictionary.
enum class equal_step_kind : std::uint32_t {
  add,     ///< the same row, plus `first`
  offsets, ///< `values[row]` of a dense union, plus `first`
  indices, ///< `values[row]`, unsigned, `width` bytes, plus `first`; null if it is not below `count`
  /// index of the first of `count` run ends (`width` bytes) above the row, plus `first`; null without one
  runs
};

struct equal_step {
  equal_step_kind kind = equal_step_kind::add;
  std::int32_t width = 0;
  std::int8_t code = 0;
  const std::uint8_t* validity = nullptr; ///< of the rows that the step starts from; null: all are valid
  const std::int8_t* ids = nullptr;       ///< for a union: rows with a type id other than `code` are null
  const void* values = nullptr;
  std::int64_t count = 0;
  std::int64_t first = 0;
};

/// What a task compares at each row.
enum class equal_kind : std::uint32_t {
  flat_bits,   ///< bits of valid rows, without steps; a missing bitmap is all ones
  flat_values, ///< like `values`, without steps; nulls are not compared
  nulls,       ///< only which rows are null
  bits,        ///< one bit per row
  values,      ///< `units` numbers per row, of `width` 1, 2, 4 or 8 bytes
  bytes,       ///< bytes between offsets of `width` 4 or 8 bytes
  views,       ///< string views of 16 bytes
  offsets,     ///< lengths of lists, from offsets of `width` 4 or 8 bytes
  list_views,  ///< lengths of list views, from sizes (`second`)
  fixed_lists  ///< only which lists of `units` values are null
};

struct equal_side {
  const void* values = nullptr;
  const void* second = nullptr;        ///< bytes of strings, or sizes of list views
  const std::int64_t* table = nullptr; ///< addresses of the buffers of views
  const std::uint8_t* validity = nullptr;
  std::int64_t first = 0;
  const std::int64_t* shifts = nullptr; ///< one entry for each list that the rows come from
  const equal_step* steps = nullptr;
  std::int64_t step_count = 0;
};

struct equal_task {
  equal_kind kind = equal_kind::nulls;
  std::int32_t width = 0;
  std::int32_t units = 1;
  std::int32_t extent = 0;    ///< index of the result for the place of the lists' values; 0: not requested
  std::uint64_t infinity = 0; ///< for floats the bits of infinity, otherwise 0
  std::int64_t count = 0;     ///< rows, more than 0
  equal_side left;
  equal_side right;
  /// If the rows come from lists: the first task row of each list, and `count` after the last.
  const std::int64_t* starts = nullptr;
  std::int64_t lists = 0;
  std::int64_t first_tile = 0; ///< number of tiles in the tasks before this one
};

/// Where the values of the lists of a task without steps are. All 0 before the kernel runs.
struct equal_extent {
  std::int64_t scattered = 0; ///< not 0: the values are not contiguous in the same way on both sides
  std::int64_t left_first = 0;
  std::int64_t left_end = 0; ///< end of the last
  std::int64_t right_first = 0;
};

/// The results of `compare`. `extents[0].scattered` is not 0 if a row differs. The other extents belong to
/// the tasks that name them. A kernel that finds a difference may leave them unchanged.
struct equal_results {
  equal_extent* extents = nullptr;
  std::size_t count = 0;
};

/// The lists of a task as rows of their values. All lists have the same lengths on both sides.
struct list_expansion {
  equal_task lists;                     ///< of kind `offsets`, `list_views` or `fixed_lists`
  std::int64_t* starts = nullptr;       ///< count + 1 entries, see equal_task
  std::int64_t* left_shifts = nullptr;  ///< count entries
  std::int64_t* right_shifts = nullptr; ///< count entries
};

/// Units of a task: words of 32 bits, bytes, or rows. A block of threads does one tile at a time.
constexpr std::int64_t equal_units(const equal_task& of) noexcept {
  switch (of.kind) {
  case equal_kind::flat_bits:
    return (of.count + 31) / 32;
  case equal_kind::flat_values:
    return of.count * of.units * of.width;
  default:
    return of.count;
  }
}
inline constexpr std::int64_t equal_tile_words = 4096;
inline constexpr std::int64_t equal_tile_bytes = 32'768;
inline constexpr std::int64_t equal_tile_rows = 2048;
constexpr std::int64_t equal_tile_units(equal_kind kind) noexcept {
  switch (kind) {
  case equal_kind::flat_bits:
    return equal_tile_words;
  case equal_kind::flat_values:
    return equal_tile_bytes;
  default:
    return equal_tile_rows;
  }
}
constexpr std::int64_t count_tiles(const equal_task& of) noexcept {
  return (equal_units(of) + equal_tile_units(of.kind) - 1) / equal_tile_units(of.kind);
}

/// The kernels as plain loops on the calling thread.
void compare_now(std::span<const equal_task> tasks, const equal_results& results) noexcept;
void expand_now(std::span<const list_expansion> expansions) noexcept;

} // namespace saeta
