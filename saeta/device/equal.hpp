// The tasks of two kernels: `compare`, which compares the rows of many arrays in one launch, and `expand`, which finds where the
// values of lists lie that are not next to each other.
//
// What      Plain structs that lie in device memory when a kernel reads them. Pointers are device pointers, aligned to the
//           values that they point to, at most 8 bytes; on the host they may have any alignment.
// Rows      Task row j stands for a row of each side: `first` + j, or where the rows come from lists, `first` + j + the
//           `shifts` of the list that j belongs to. Steps lead on to rows of children. A row is null where its own validity
//           or that of a step says so, or where it is a row of another child of a union. Rows are equal where both are null,
//           or where both are valid and their values are equal.
// Thread    A task belongs to whoever makes it; kernels only read it.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace saeta {

/// How a step finds the row of a child, or of a dictionary.
enum class equal_step_kind : std::uint32_t {
  add,     ///< the same row, plus `first`
  offsets, ///< `values[row]` of a dense union, plus `first`
  indices, ///< `values[row]`, unsigned and of `width` bytes, plus `first`; null from `count` on
  runs ///< the first of `count` run ends of `width` bytes that is above the row, plus `first`; null where there is none
};

struct equal_step {
  equal_step_kind kind = equal_step_kind::add;
  std::int32_t width = 0;
  std::int8_t code = 0;
  const std::uint8_t* validity = nullptr; ///< of the rows that the step leads from; null: all are valid
  const std::int8_t* ids = nullptr;       ///< of a union: rows of other type ids than `code` are null
  const void* values = nullptr;
  std::int64_t count = 0;
  std::int64_t first = 0;
};

/// What is compared at a row.
enum class equal_kind : std::uint32_t {
  flat_bits,   ///< bits where `validity` is set, without steps; an absent bitmap has ones
  flat_values, ///< as `values`, without steps; nulls are not compared
  nulls,       ///< nulls alone
  bits,        ///< a bit a row
  values,      ///< `units` numbers of `width` 1, 2, 4 or 8 bytes a row
  bytes,       ///< bytes between offsets of `width` 4 or 8 bytes
  views,       ///< string views of 16 bytes
  offsets,     ///< lengths of lists with offsets of `width` 4 or 8 bytes
  list_views,  ///< the same for list views, with sizes (`second`)
  fixed_lists  ///< nulls of lists of `units` values
};

struct equal_side {
  const void* values = nullptr;
  const void* second = nullptr;        ///< bytes, or sizes of list views
  const std::int64_t* table = nullptr; ///< addresses of the buffers of views
  const std::uint8_t* validity = nullptr;
  std::int64_t first = 0;
  const std::int64_t* shifts = nullptr; ///< one for each list that the rows come from
  const equal_step* steps = nullptr;
  std::int64_t step_count = 0;
};

struct equal_task {
  equal_kind kind = equal_kind::nulls;
  std::int32_t width = 0;
  std::int32_t units = 1;
  std::int32_t extent = 0; ///< number of the result that says where the values of lists lie; 0: nobody asks
  std::uint64_t infinity = 0; ///< of numbers: the bits of infinity for floats, else 0
  std::int64_t count = 0;     ///< rows, more than 0
  equal_side left;
  equal_side right;
  /// Where the rows come from lists: the task row that each begins with, and `count` behind the last.
  const std::int64_t* starts = nullptr;
  std::int64_t lists = 0;
  std::int64_t first_tile = 0; ///< number of tiles in the tasks before
};

/// Where the values of the lists of a task without steps lie. All 0 before the kernel runs.
struct equal_extent {
  std::int64_t scattered = 0; ///< not 0: the values of both sides don't follow each other in the same way
  std::int64_t left_first = 0;
  std::int64_t left_end = 0; ///< past the last
  std::int64_t right_first = 0;
};

/// What `compare` stores: `extents[0].scattered` is not 0 where a row differs, the others belong to the tasks that name them. A
/// kernel that found a difference may leave the others as they are.
struct equal_results {
  equal_extent* extents = nullptr;
  std::size_t count = 0;
};

/// The lists of a task, all of which have the same lengths on both sides, as rows of their values.
struct list_expansion {
  equal_task lists;                     ///< of kind `offsets`, `list_views` or `fixed_lists`
  std::int64_t* starts = nullptr;       ///< count + 1: see equal_task
  std::int64_t* left_shifts = nullptr;  ///< count
  std::int64_t* right_shifts = nullptr; ///< count
};

/// Units of a task: words of 32 bits, bytes, or rows. A block of threads does a tile of them before it goes on.
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
constexpr std::int64_t equal_tiles(const equal_task& of) noexcept {
  return (equal_units(of) + equal_tile_units(of.kind) - 1) / equal_tile_units(of.kind);
}

/// Sets `first_tile` of every task, before they are uploaded.
void number_tiles(std::span<equal_task> tasks) noexcept;

/// The kernels as plain loops, on the calling thread.
void compare_now(std::span<const equal_task> tasks, const equal_results& results) noexcept;
void expand_now(std::span<const list_expansion> expansions) noexcept;

} // namespace saeta
