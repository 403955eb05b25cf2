// The CUDA kernels behind the function table (saeta/device/kernels.hpp), one file each.
//
// Order     Each entry queues its kernel on the stream, with a memset if it needs one, and returns.
// Thread    Any. A kernel runs on the device of its target, whichever device is current, because the handles
//           of the two default streams do not name a device.
// Failure   error invalid_argument for a bitmap target that is not aligned to 16 bytes and for a width of
//           values other than 1, 2, 4 or 8 bytes; error device from a launch.
#pragma once

#include "saeta/device/kernels.hpp"

namespace saeta::cuda {

void pack_bool(stream_handle stream, const std::uint8_t* source, std::int64_t length, std::uint8_t* target);
void unpack_bool(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::uint8_t* target);
void copy_bitmap(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::uint8_t* target, std::int64_t* null_count);
void count_nulls(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::int64_t* null_count);
void rebase_offsets32(stream_handle stream, const std::int32_t* source, std::int64_t count,
                      std::int32_t* target);
void rebase_offsets64(stream_handle stream, const std::int64_t* source, std::int64_t count,
                      std::int64_t* target);
void fill_nulls(stream_handle stream, const std::uint8_t* validity, std::int64_t bit_offset,
                const void* source, std::int32_t width, std::int64_t length, std::uint64_t fill,
                void* target);
void gather_strided(stream_handle stream, const strided_values& source, std::int32_t width, void* target);
void gather_columns(stream_handle stream, std::span<const gathered_column> columns,
                    const gather_target& shape, void* target);
void join(stream_handle stream, std::span<const join_step> steps, const join_step* uploaded);
void read_values(stream_handle stream, std::span<const value_request> requests, const value_request* uploaded,
                 std::int64_t* values);
void check_values(stream_handle stream, std::span<const value_check> checks, const value_check* uploaded,
                  std::int64_t* bad_rows);
void compare(stream_handle stream, std::span<const equal_task> tasks, const equal_task* uploaded,
             const equal_results& results);
void expand(stream_handle stream, std::span<const list_expansion> expansions, const list_expansion* uploaded);
void count_taken(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* count);
void take(stream_handle stream, const take_work& work);
void cast_numbers(stream_handle stream, const cast_work& work);
void permute_rows(stream_handle stream, const permute_work& work);
void compress(stream_handle stream, const compress_work& work);
void decompress(stream_handle stream, const decompress_work& work);

const kernel_table& cuda_kernels() noexcept;

} // namespace saeta::cuda
