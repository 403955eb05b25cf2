// The steps of two kernels that move rows. `take` writes chosen rows of many arrays in one launch.
// `count_taken` finds out how much the rows of arrays with offsets need, before `take` writes them.
//
// What      Plain structs that are in device memory when a kernel reads them. Pointers are device pointers,
//           aligned to the values that they point to, at most 8 bytes. On the host they may have any
//           alignment.
// Rows      The source of a step is one or more pieces. A chosen row is one number: the piece in its upper
//           bits and the row of that piece in its lower ones, or `row_of_null`. `indices`, `mask`,
//           `filled` and `child_rows` make such rows. All other steps read them, so each row is looked up
//           once, however many columns there are.
// Counted   Steps of counted kinds need the sum of what earlier rows add before they can write.
//           `count_taken` stores these sums for each tile, and checks what it reads: no other kernel follows
//           an offset that it found bad. A host that finds a bad row must not run `take` on that step.
// Thread    A step belongs to the code that makes it; kernels only read it.
// Standard  Arrow columnar format, arrow.apache.org/docs/format/Columnar.html.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace SAETA_EXPORT saeta {

inline constexpr int row_bits = 40; ///< of a chosen row; the bits above are the number of the piece
inline constexpr std::int64_t most_piece_rows = std::int64_t{1} << row_bits;
inline constexpr std::int64_t most_pieces = std::int64_t{1} << (63 - row_bits);
inline constexpr std::int64_t row_of_null = -1;
/// Stored in place of a row number if no row is found.
inline constexpr std::int64_t no_row = -1;

enum class take_kind : std::uint32_t {
  indices,  ///< numbers of rows of the whole source become chosen rows; checked against `limit`
  mask,     ///< counted: the rows of `from` that are set become chosen rows
  filled,   ///< the rows of `from`, and row 0 of the last piece instead of those that are null
  values,   ///< `units` numbers of `width` 1, 2, 4, 8 or 16 bytes; bytes of `code` for a null row
  bits,     ///< one bit, 0 for a null row
  validity, ///< one bit: the row is not null and valid in its piece
  views,    ///< string views; the number of buffers before those of the piece (`limit`) is added
  /// counted: string views, as views of one buffer that has only what they refer to. `second` gets where the
  /// bytes of each row begin there, in numbers of 32 bits.
  own_views,
  offsets,    ///< counted: offsets of lists or bytes become offsets without gaps, and one more
  list_views, ///< counted: the same for list views; `second` gets the sizes
  /// counted: rows of a dense union with the type id `code` become their offset, where they are; `second`
  /// gets the rows of the child, side by side. Null rows belong to the child whose `units` is 1.
  union_rows,
  runs, ///< the run that contains each row, as a row of the run values
  /// The rows of `from`, a union, with the type id `code` become rows of their child, which is piece `limit`.
  /// Rows with other type ids stay as they are, so that a step for each child makes all rows.
  child_rows,
  /// counted: runs that follow each other become one. The target gets run ends, and `second` the rows of the
  /// run values. `rows` are those of `runs`.
  run_ends,
  bytes,      ///< after `offsets`: `count` bytes of strings
  view_bytes, ///< after `own_views`: `count` bytes of strings
  list_rows,  ///< after `offsets` or `list_views`: `count` rows of the child of a list
  fixed_rows  ///< `count` rows of the child of a fixed-size list of `units` values
};

/// One piece of a source. Row r of the piece is entry `first` + r of its buffers.
struct take_source {
  /// Values, bits, views, offsets, type ids, or the run ends that count from entry 0 on. Unused for the
  /// pieces of steps that make rows.
  const void* values = nullptr;
  /// Bytes of strings, sizes of list views, offsets of a dense union. Null for a sparse union, whose children
  /// have its rows. For `own_views` and `view_bytes`, the sizes of the buffers that views refer to, then the
  /// addresses of these buffers (64 bits).
  const void* second = nullptr;
  const std::uint8_t* validity = nullptr; ///< null: every row is valid
  std::int64_t first = 0;                 ///< for the pieces of steps that make rows, their row in the source
  std::int64_t count = 0;                 ///< rows of the piece
  /// Bytes, rows of the child, or runs. For `views`, the buffers before this piece; for `own_views` and
  /// `view_bytes`, the buffers of this piece.
  std::int64_t limit = 0;
};

/// One piece of work of `take`. Targets of different steps don't overlap, and no target is a source. Bitmaps
/// start at a multiple of 4 bytes, and their words are written as a whole.
struct take_step {
  take_kind kind = take_kind::values;
  std::int32_t width = 0; ///< bytes of a number, offset, index or run end; of a mask, 0 for bits
  std::int32_t units = 1; ///< of `offsets`, on the host: 0 for a part of a step with another part after it
  std::int8_t code = 0;
  bool is_signed = false; ///< for `indices`
  /// Steps of kind `values` that read the same rows can form a group, which reads each row once. The first
  /// step of a group has the number of its steps here, and the others have 0. Steps without a group have 1.
  std::int32_t columns = 1;
  std::int64_t count = 0; ///< chosen rows, or the number that `kind` names; more than 0
  const std::int64_t* rows =
      nullptr; ///< unused by steps that make rows; null for `count_taken`: all rows of `from`
  void* target = nullptr;
  void* second = nullptr;
  /// The only piece. For steps that make rows, their own values and validity, whatever the pieces are.
  take_source from{};
  std::int64_t first_source = 0; ///< if there are several pieces, where they begin in the list of sources
  std::int64_t pieces = 1;
  const void* starts = nullptr; ///< for `bytes`, `view_bytes` and `list_rows`: the new offsets of the rows
  std::int64_t lists = 0;       ///< number of those rows
  /// For `indices`, the number of rows of the source. For `mask` and `filled`, the row of the source where
  /// they begin. For `child_rows`, the number of the piece.
  std::int64_t limit = 0;
  /// For counted kinds: for each tile, the sum of all tiles before it in this step. On the host, null is a step
  /// of one tile, and the first sum of a part of a step counts what other parts write before it.
  const std::int64_t* sums = nullptr;
  /// For `indices`, two numbers, `no_row` before the kernel runs: the first index that is out of range, and a
  /// number other than `no_row` if an index is null. Indices that are out of range become null rows.
  std::int64_t* found = nullptr;
  std::int64_t first_tile = 0; ///< number of tiles in the steps before this one
};

/// Steps that `take` gets as arguments of its kernel. More of them are uploaded.
inline constexpr std::size_t most_passed_steps = 20;

/// Steps and the pieces that they name, on the host and in device memory.
struct take_work {
  std::span<const take_step> steps;
  /// Null for at most `most_passed_steps` steps of `take`, which are read before the call returns.
  const take_step* uploaded_steps = nullptr;
  std::span<const take_source> sources;
  const take_source* uploaded_sources = nullptr;
};

/// The result of `count_taken` for a step.
struct taken_count {
  std::int64_t total = 0;
  std::int64_t bad_row = no_row; ///< the first row whose offsets lie outside of the bytes or child rows
};

// Rows, child rows and bytes that a block of threads makes per tile.
inline constexpr std::int64_t take_tile_rows = 1024;
inline constexpr std::int64_t take_tile_child_rows = 4096; ///< of `list_rows` and `fixed_rows`
inline constexpr std::int64_t take_tile_bytes = 16'384;    ///< of `bytes` and `view_bytes`

constexpr std::int64_t take_tile_units(take_kind kind) noexcept {
  switch (kind) {
  case take_kind::bytes:
  case take_kind::view_bytes:
    return take_tile_bytes;
  case take_kind::list_rows:
  case take_kind::fixed_rows:
    return take_tile_child_rows;
  default:
    return take_tile_rows;
  }
}
constexpr std::int64_t count_tiles(const take_step& of) noexcept {
  const std::int64_t units = take_tile_units(of.kind);
  return of.columns == 0 ? 0 : (of.count + units - 1) / units;
}

/// The kernels as plain loops on the calling thread.
void take_now(std::span<const take_step> steps, const take_source* sources) noexcept;
/// @param sums  one for each tile; @param count  one for each step
void count_taken_now(std::span<const take_step> steps, const take_source* sources, std::int64_t* sums,
                     taken_count* count) noexcept;

} // namespace saeta
