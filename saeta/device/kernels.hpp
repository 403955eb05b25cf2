// The device kernels, as a small function table with one entry per kernel.
//
// Every entry queues its work on the stream and returns. Pointers are device pointers of the backend that
// provides the table, and stay valid until the work is done (the caller holds a use token). Lengths count
// elements, offsets count bits or elements as named. Bitmaps are Arrow's: least significant bit first. A
// bitmap that a kernel writes starts at bit 0 of `target`, which is aligned to at least 16 bytes. It fills
// whole 64-byte blocks: `bitmap_bytes(length)` bytes, with zero bits past `length`. Sources may have any
// address. No byte is read that has none of their bits.
//
// `reference_kernels()` are plain loops that run at once on the calling thread. `host` uses them as they are,
// a deferring backend queues them, and `cuda` is tested against them.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal.hpp"
#include "saeta/device/gather.hpp"
#include "saeta/device/handles.hpp"
#include "saeta/device/join.hpp"
#include "saeta/device/value_check.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace SAETA_EXPORT saeta {

struct take_work;     // device/take.hpp
struct taken_count;   // device/take.hpp
struct cast_work;     // device/cast.hpp
struct permute_work;  // device/permutation.hpp
struct compress_work; // device/compression.hpp
struct decompress_work;

struct kernel_table {
  /// bytes -> bits: a bit is set where the byte is not 0. No-op for length 0.
  void (*pack_bool)(stream_handle stream, const std::uint8_t* source, std::int64_t length,
                    std::uint8_t* target);

  /// bits -> bytes of 0 or 1.
  void (*unpack_bool)(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                      std::int64_t length, std::uint8_t* target);

  /// Copies `length` bits from any bit offset to bit 0 of `target`. The same pass stores the number of zero
  /// bits in `*null_count` (device memory, may be null; need not be initialised).
  void (*copy_bitmap)(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                      std::int64_t length, std::uint8_t* target, std::int64_t* null_count);

  /// Stores the number of zero bits of `length` bits in `*null_count` (device memory, need not be
  /// initialised).
  void (*count_nulls)(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                      std::int64_t length, std::int64_t* null_count);

  /// target[i] = source[i] - source[0] for `count` offsets; `target` may be `source`.
  void (*rebase_offsets32)(stream_handle stream, const std::int32_t* source, std::int64_t count,
                           std::int32_t* target);
  void (*rebase_offsets64)(stream_handle stream, const std::int64_t* source, std::int64_t count,
                           std::int64_t* target);

  /// target[i] = source[i] where bit `bit_offset + i` of `validity` is set, else `fill`, for `length` values
  /// of `width` bytes (1, 2, 4 or 8). `fill` holds a value in its low `width` bytes. `source` and `target`
  /// are aligned to `width`, and may be the same.
  void (*fill_nulls)(stream_handle stream, const std::uint8_t* validity, std::int64_t bit_offset,
                     const void* source, std::int32_t width, std::int64_t length, std::uint64_t fill,
                     void* target);

  /// Copies values of `width` bytes (1, 2, 4 or 8) from anywhere to `target`, side by side. Their addresses
  /// and strides are multiples of `width`. `target` is aligned to `width` and does not overlap them.
  void (*gather_strided)(stream_handle stream, const strided_values& source, std::int32_t width,
                         void* target);

  /// Writes the rows of the columns into a matrix, converted to its kind of numbers. Rows whose validity bit
  /// is not set get the fill. `columns` is read before the call returns. `target` is aligned to its kind and
  /// overlaps no source. Values between those that are written stay as they are.
  void (*gather_columns)(stream_handle stream, std::span<const gathered_column> columns,
                         const gather_target& shape, void* target);

  /// Does the steps in any order. `uploaded` are the same steps in device memory, after `number_tiles`. No-op
  /// without steps.
  void (*join)(stream_handle stream, std::span<const join_step> steps, const join_step* uploaded);

  /// Stores the result of each request. `uploaded` are the same requests in device memory. `values` is device
  /// memory. No-op without requests.
  void (*read_values)(stream_handle stream, std::span<const value_request> requests,
                      const value_request* uploaded, std::int64_t* values);

  /// Stores for each check the first row that fails it, or no_bad_row. `uploaded` are the same checks in
  /// device memory, after `number_tiles`. `bad_rows` is device memory. No-op without checks.
  void (*check_values)(stream_handle stream, std::span<const value_check> checks, const value_check* uploaded,
                       std::int64_t* bad_rows);

  /// Compares the rows of each task. `uploaded` are the same tasks in device memory, after `number_tiles`.
  /// The results are in device memory. No-op without tasks.
  void (*compare)(stream_handle stream, std::span<const equal_task> tasks, const equal_task* uploaded,
                  const equal_results& results);

  /// Stores the starts and shifts of each expansion. `uploaded` are the same expansions in device memory.
  /// No-op without expansions.
  void (*expand)(stream_handle stream, std::span<const list_expansion> expansions,
                 const list_expansion* uploaded);

  /// Counts the values that the rows of each step add to its result; all steps are of counted kinds.
  /// Stores the sum of all tiles before each tile of a step in `sums`, and the total of each step in `count`;
  /// both are device memory. No-op without steps.
  void (*count_taken)(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* count);

  /// Performs the steps in any order. No-op without steps.
  void (*take)(stream_handle stream, const take_work& work);

  /// Converts numbers to another kind and stores the first row whose number that kind can't represent.
  void (*cast_numbers)(stream_handle stream, const cast_work& work);

  /// Stores the places of numbers in a permutation. No-op without numbers.
  void (*permute_rows)(stream_handle stream, const permute_work& work);

  /// Compresses the blocks of a window. Their order in the payload is not defined.
  void (*compress)(stream_handle stream, const compress_work& work);

  /// Decompresses the blocks of a window. Those that are damaged are counted; their words are undefined.
  void (*decompress)(stream_handle stream, const decompress_work& work);
};

/// Bytes of a bitmap of `length` bits, padded to 64 bytes as the Arrow format recommends.
constexpr std::size_t bitmap_bytes(std::int64_t length) noexcept {
  return (static_cast<std::size_t>(length) + 511) / 512 * 64;
}

const kernel_table& reference_kernels() noexcept;

} // namespace saeta
