#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"

namespace saeta::cuda {
namespace {

/// Elements that one thread writes at once: 16 bytes.
constexpr std::int64_t width = 16;

/// Byte i of the result is 0 or 1: bit i of `bits`, for the low four bits.
__device__ unsigned spread_bits(unsigned bits) { return ((bits & 0xf) * 0x00204081u) & 0x01010101u; }

/// Loads sixteen bits from any bit position. Reads only the bytes that hold them.
__device__ unsigned load_bits(const std::uint8_t* source, std::int64_t position) {
  const std::uint8_t* const from = source + position / 8;
  const std::uint8_t* const last = source + (position + width - 1) / 8;
  const unsigned bytes =
      __ldg(from) | static_cast<unsigned>(__ldg(from + 1)) << 8 | static_cast<unsigned>(__ldg(last)) << 16;
  return bytes >> (position % 8);
}

/// Writes elements [head, head + 16 * groups) in aligned groups and the others one by one.
__global__ void __launch_bounds__(block_threads)
    unpack_groups(const std::uint8_t* __restrict__ source, std::int64_t bit_offset, std::int64_t length,
                  std::int64_t head, std::int64_t groups, std::uint8_t* __restrict__ target) {
  const std::int64_t thread = grid_thread();
  const std::int64_t threads = grid_threads();
  auto* const aligned = reinterpret_cast<uint4*>(target + head);
  for (std::int64_t start = thread; start < groups; start += unroll * threads) {
    unsigned bits[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t group = start + i * threads;
      if (group < groups) {
        bits[i] = load_bits(source, bit_offset + head + group * width);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t group = start + i * threads;
      if (group < groups) {
        aligned[group] = make_uint4(spread_bits(bits[i]), spread_bits(bits[i] >> 4),
                                    spread_bits(bits[i] >> 8), spread_bits(bits[i] >> 12));
      }
    }
  }
  const std::int64_t edges = length - groups * width;
  for (std::int64_t i = thread; i < edges; i += threads) {
    const std::int64_t element = i < head ? i : i + groups * width;
    const std::int64_t position = bit_offset + element;
    target[element] = static_cast<std::uint8_t>(source[position / 8] >> (position % 8) & 1);
  }
}

const kernel_module kernels_here(unpack_groups);

} // namespace

void unpack_bool(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::uint8_t* target) {
  if (length == 0) {
    return;
  }
  const launch_site site(target, stream);
  const auto past_boundary = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % width);
  const std::int64_t to_boundary = (width - past_boundary) % width;
  const std::int64_t head = to_boundary < length ? to_boundary : length;
  const std::int64_t groups = (length - head) / width;
  site.launch("unpack_bool", unpack_groups, groups, source, bit_offset, length, head, groups, target);
}

} // namespace saeta::cuda
