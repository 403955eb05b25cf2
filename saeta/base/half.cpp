#include "saeta/base/half.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saeta {
namespace {

constexpr unsigned infinity = 0x7c00;
constexpr unsigned quiet_nan = 0x7e00;
constexpr unsigned sign_bit = 0x8000;
// the exponent of the smallest normal number, with a significand in [0.5, 1)
constexpr int least_exponent = -13;

} // namespace

std::uint16_t half_bits(double value) noexcept {
  // Halfway between the greatest half and the next number: a tie, which rounds to infinity.
  constexpr double first_infinite = 65520.0;
  const double magnitude = std::fabs(value);
  unsigned bits = 0;
  if (std::isnan(value)) {
    bits = quiet_nan;
  } else if (magnitude >= first_infinite) {
    bits = infinity;
  } else {
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int scale = magnitude == 0 ? least_exponent : std::max(exponent, least_exponent);
    // The 11 bits include the leading one, which adds 1 to the exponent field. A carry adds 1 more.
    const auto significand = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 11 - scale)));
    bits = (static_cast<unsigned>(scale - least_exponent) << 10) + significand;
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? sign_bit : 0U));
}

float half_value(std::uint16_t bits) noexcept {
  const unsigned significand = bits & 0x3ffU;
  const auto exponent = static_cast<int>((bits & infinity) >> 10);
  float magnitude = 0;
  if (exponent == 31) {
    magnitude =
        significand == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(significand), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(significand | 0x400U), exponent - 25);
  }
  return (bits & sign_bit) != 0 ? -magnitude : magnitude;
}

} // namespace saeta
