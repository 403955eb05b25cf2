// IEEE 754 binary16 ("half") numbers as 16-bit integers, for hosts whose compilers have no such type.
//
// Thread    Pure functions.
#pragma once

#include "saeta/base/export.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

inline constexpr double greatest_half = 65504.0;

/// Rounds to nearest, ties to even. Returns infinity beyond the range and the quiet NaN for a NaN.
std::uint16_t half_bits(double value) noexcept;

/// The value as a float, which is exact. A NaN stays a NaN.
float half_value(std::uint16_t bits) noexcept;

} // namespace saeta
