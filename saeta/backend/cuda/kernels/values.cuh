// Values of 1, 2, 4 or 8 bytes that a kernel moves as raw bits, one by one or in aligned groups.
#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace saeta::cuda {

/// Bytes that one thread loads or stores at once.
inline constexpr std::int64_t group_bytes = 16;

template <class Value, int Width>
struct alignas(Width * sizeof(Value)) value_group {
  Value at[Width];
};

/// How many of `length` values precede the first one whose address is a multiple of `group_bytes`.
template <class Value>
std::int64_t values_before_group(const Value* first, std::int64_t length) {
  const auto past_boundary = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first) % group_bytes);
  const auto to_boundary =
      (group_bytes - past_boundary) % group_bytes / static_cast<std::int64_t>(sizeof(Value));
  return std::min(to_boundary, length);
}

/// Calls `run` with an unsigned integer of `width` bytes, which can carry the bits of any value of that
/// width.
template <class Run>
void with_width(std::int32_t width, Run run) {
  switch (width) {
  case 1:
    return run(std::uint8_t{});
  case 2:
    return run(std::uint16_t{});
  case 4:
    return run(std::uint32_t{});
  case 8:
    return run(std::uint64_t{});
  default:
    throw error(errc::invalid_argument, concat("values of ", width, " bytes, expected 1, 2, 4 or 8"));
  }
}

} // namespace saeta::cuda
