// Loads, compares and searches single values, in the kernels of the host and of a GPU. Both compile these
// functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/unaligned.hpp"

#include <cstdint>

// Marks a function that a CUDA compiler also compiles for the device.
#ifdef __CUDACC__
#define SAETA_ANY_DEVICE __host__ __device__
#else
#define SAETA_ANY_DEVICE
#endif

namespace SAETA_EXPORT saeta {

/// The first index below `count` for which `holds` is true, else `count`. It must be true for all later ones.
template <class Predicate>
SAETA_ANY_DEVICE inline std::int64_t first_index(std::int64_t count, const Predicate& holds) noexcept {
  std::int64_t low = 0;
  std::int64_t high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

} // namespace saeta

namespace SAETA_EXPORT saeta {
namespace equal_rows {

/// Value `index` of an array. On the host it may have any alignment.
template <class T>
SAETA_ANY_DEVICE inline T load(const void* values, std::int64_t index) noexcept {
#ifdef __CUDA_ARCH__
  return static_cast<const T*>(values)[index];
#else
  return load_unaligned<T>(values, index);
#endif
}

SAETA_ANY_DEVICE inline bool bit(const std::uint8_t* bits, std::int64_t index) noexcept {
  return (bits[index / 8] >> (index % 8) & 1) != 0;
}

SAETA_ANY_DEVICE inline std::int64_t load_signed(const void* values, std::int32_t width,
                                                 std::int64_t index) noexcept {
  switch (width) {
  case 2:
    return load<std::int16_t>(values, index);
  case 4:
    return load<std::int32_t>(values, index);
  default:
    return load<std::int64_t>(values, index);
  }
}

SAETA_ANY_DEVICE inline std::uint64_t load_unsigned(const void* values, std::int32_t width,
                                                    std::int64_t index) noexcept {
  switch (width) {
  case 1:
    return load<std::uint8_t>(values, index);
  case 2:
    return load<std::uint16_t>(values, index);
  case 4:
    return load<std::uint32_t>(values, index);
  default:
    return load<std::uint64_t>(values, index);
  }
}

/// Compares the bits of two numbers. A NaN equals nothing; 0.0 equals -0.0. @param infinity  0: not floats.
template <class Bits>
SAETA_ANY_DEVICE inline bool same_number(Bits left, Bits right, std::uint64_t infinity) noexcept {
  if (infinity == 0) {
    return left == right;
  }
  constexpr auto magnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  return left == right ? static_cast<Bits>(left & magnitude) <= infinity
                       : static_cast<Bits>((left | right) & magnitude) == 0;
}

SAETA_ANY_DEVICE inline bool same_number(std::uint64_t left, std::uint64_t right, std::int32_t width,
                                         std::uint64_t infinity) noexcept {
  switch (width) {
  case 2:
    return same_number(static_cast<std::uint16_t>(left), static_cast<std::uint16_t>(right), infinity);
  case 4:
    return same_number(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right), infinity);
  default:
    return same_number(left, right, infinity);
  }
}

SAETA_ANY_DEVICE inline bool same_bytes(const std::uint8_t* left, const std::uint8_t* right,
                                        std::int64_t count) noexcept {
#ifdef __CUDA_ARCH__
  for (std::int64_t i = 0; i < count; ++i) {
    if (left[i] != right[i]) {
      return false;
    }
  }
  return true;
#else
  return count <= 0 || std::memcmp(left, right, static_cast<std::size_t>(count)) == 0;
#endif
}

} // namespace equal_rows
} // namespace saeta
