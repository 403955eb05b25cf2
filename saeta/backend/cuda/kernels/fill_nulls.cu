#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/values.cuh"
#include "saeta/device/with_width.hpp"

namespace saeta::cuda {
namespace {

/// Bits [position, position + count) as the low bits of the result; `count` is at most 16. The higher bits
/// are undefined. Reads only the bytes that hold the bits.
__device__ unsigned load_bits(const std::uint8_t* source, std::int64_t position, int count) {
  const std::uint8_t* const first = source + position / 8;
  const std::uint8_t* const last = source + (position + count - 1) / 8;
  const std::uint8_t* const second = first == last ? first : first + 1;
  const unsigned bytes =
      __ldg(first) | static_cast<unsigned>(__ldg(second)) << 8 | static_cast<unsigned>(__ldg(last)) << 16;
  return bytes >> (position % 8);
}

/// Handles values [head, head + Width * groups) in aligned groups and the others one by one. The target may
/// be the source.
template <class Value, int Width>
__global__ void __launch_bounds__(block_threads)
    fill_groups(const std::uint8_t* __restrict__ validity, std::int64_t bit_offset, const Value* source,
                std::int64_t length, Value fill, std::int64_t head, std::int64_t groups, Value* target) {
  using group = value_group<Value, Width>;
  const std::int64_t thread = grid_thread();
  const std::int64_t threads = grid_threads();
  const auto* const from = reinterpret_cast<const group*>(source + head);
  auto* const to = reinterpret_cast<group*>(target + head);
  for (std::int64_t start = thread; start < groups; start += unroll * threads) {
    group loaded[unroll];
    unsigned bits[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * threads;
      if (at < groups) {
        loaded[i] = from[at];
        bits[i] = load_bits(validity, bit_offset + head + at * Width, Width);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * threads;
      if (at < groups) {
#pragma unroll
        for (int j = 0; j < Width; ++j) {
          loaded[i].at[j] = (bits[i] >> j & 1) != 0 ? loaded[i].at[j] : fill;
        }
        to[at] = loaded[i];
      }
    }
  }
  const std::int64_t edges = length - groups * Width;
  for (std::int64_t i = thread; i < edges; i += threads) {
    const std::int64_t element = i < head ? i : i + groups * Width;
    const std::int64_t position = bit_offset + element;
    target[element] = (validity[position / 8] >> (position % 8) & 1) != 0 ? source[element] : fill;
  }
}

const kernel_module kernels_here(fill_groups<std::uint8_t, 1>);

} // namespace

void fill_nulls(stream_handle stream, const std::uint8_t* validity, std::int64_t bit_offset,
                const void* source, std::int32_t width, std::int64_t length, std::uint64_t fill,
                void* target) {
  if (length == 0) {
    return;
  }
  with_width(width, [&]<class Value>(Value) {
    const launch_site site(target, stream);
    const auto* const from = static_cast<const Value*>(source);
    auto* const to = static_cast<Value*>(target);
    const auto value = static_cast<Value>(fill);
    const bool same_alignment = reinterpret_cast<std::uintptr_t>(source) % group_bytes ==
                                reinterpret_cast<std::uintptr_t>(target) % group_bytes;
    if (same_alignment) {
      constexpr int values = static_cast<int>(group_bytes / sizeof(Value));
      const std::int64_t head = values_before_group(to, length);
      const std::int64_t groups = (length - head) / values;
      site.launch("fill_nulls", fill_groups<Value, values>, groups, validity, bit_offset, from, length, value,
                  head, groups, to);
    } else {
      site.launch("fill_nulls", fill_groups<Value, 1>, length, validity, bit_offset, from, length, value,
                  std::int64_t{0}, length, to);
    }
  });
}

} // namespace saeta::cuda
