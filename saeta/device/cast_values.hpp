// Converts one number to another kind, in the kernels of the host and of a GPU. Both compile these functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace SAETA_EXPORT saeta {
namespace cast_values {

/// 2 to the power of the number of bits that hold the integer's magnitude: above all integers of the type.
template <class Integer>
SAETA_ANY_DEVICE constexpr double end_of_range() noexcept {
  double end = 1;
  for (int i = 0; i < std::numeric_limits<Integer>::digits; ++i) {
    end *= 2;
  }
  return end;
}

template <class Integer>
SAETA_ANY_DEVICE constexpr bool is_negative(Integer value) noexcept {
  if constexpr (std::is_signed_v<Integer>) {
    return value < 0;
  } else {
    return false;
  }
}

template <class Target, class Source>
SAETA_ANY_DEVICE inline bool between_integers(Source value, Target& to) noexcept {
  to = static_cast<Target>(value); // NOLINT(bugprone-signed-char-misuse): numbers, not letters
  return static_cast<Source>(to) == value && is_negative(to) == is_negative(value);
}

template <class Target>
SAETA_ANY_DEVICE inline bool float_to_integer(double value, bool rounds, Target& to) noexcept {
  const double nearest = std::rint(value);
  const double least = std::is_signed_v<Target> ? -end_of_range<Target>() : 0.0;
  if (!(nearest >= least && nearest < end_of_range<Target>()) || (!rounds && nearest != value)) {
    to = 0;
    return false;
  }
  to = static_cast<Target>(nearest);
  return true;
}

/// True if an integer equals a float that it was rounded to.
template <class Source>
SAETA_ANY_DEVICE inline bool equals_float(Source value, double rounded) noexcept {
  return rounded < end_of_range<Source>() && static_cast<Source>(rounded) == value;
}

/// Converts numbers that are not halves. Returns false if there is no such number.
template <class Target, class Source>
SAETA_ANY_DEVICE inline bool convert(Source value, bool rounds, Target& to) noexcept {
  if constexpr (std::is_integral_v<Target> && std::is_integral_v<Source>) {
    return between_integers(value, to);
  } else if constexpr (std::is_integral_v<Target>) {
    return float_to_integer(static_cast<double>(value), rounds, to);
  } else if constexpr (std::is_integral_v<Source>) {
    to = static_cast<Target>(value);
    return rounds || equals_float(value, static_cast<double>(to));
  } else {
    to = static_cast<Target>(value);
    return rounds || static_cast<Source>(to) == value || std::isnan(value);
  }
}

} // namespace cast_values
} // namespace saeta
