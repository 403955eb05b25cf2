#include "saeta/base/half.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saeta {
namespace {

constexpr unsigned infinity = 0x7c00;
constexpr unsigned quiet_nan = 0x7e00;
constexpr unsigned sign_bit = 0x8000;
constexpr int least_exponent = -13; // of a normal number, whose significand is in [0.5, 1)

} // namespace

std::uint16_t half_bits(double value) noexcept {
  // Half way to the number that would be next: a tie, which goes to infinity.
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
    // 11 bits of significand, the leading one included; it adds 1 to the exponent's field, and a carry 1 more.
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
