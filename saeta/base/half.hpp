// IEEE 754 binary16 ("half") numbers as their 16 bits, for hosts whose compilers have no such type.
//
// Thread    Pure functions.
#pragma once

#include <cstdint>

namespace saeta {

inline constexpr double greatest_half = 65504.0;

/// Rounded to the nearest, ties to even; infinity past the range, the quiet NaN for a NaN.
std::uint16_t half_bits(double value) noexcept;

/// The number, which a float has exactly. A NaN stays one.
float half_value(std::uint16_t bits) noexcept;

} // namespace saeta
