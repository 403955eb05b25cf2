// Values of 1, 2, 4 or 8 bytes that a kernel moves as raw bits, one by one or in aligned groups.
#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"

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

} // namespace saeta::cuda
