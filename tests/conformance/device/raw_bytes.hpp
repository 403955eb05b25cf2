// Conversion of values to the bytes that kernels read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace saeta::conformance {

/// Fills memory that a kernel must not write.
inline constexpr std::uint8_t poison = 0xa5;

template <class T>
std::span<const std::uint8_t> raw(const std::vector<T>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

} // namespace saeta::conformance
