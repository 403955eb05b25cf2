// Converts one decimal to another number, in the kernels of the host and of a GPU. Both compile these
// functions.
//
// A decimal is an integer of up to 256 bits, divided by a power of ten or multiplied with one. The result is
// rounded once, to the nearest number with ties to even, as IEEE 754 requires of a conversion.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/cast.hpp"
#include "saeta/device/equal_values.hpp"
#include "saeta/device/wide_integers.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace SAETA_EXPORT saeta {
namespace decimal_values {

using namespace wide_integers;

/// `digits` times two to the power of `exponent`. The highest bit of the digits is set.
struct binary {
  std::uint64_t digits = 0;
  int exponent = 0;
  bool is_exact = true; ///< false: the number is larger, by less than one unit of `digits`
};

/// The quotient of two numbers above 0.
SAETA_ANY_DEVICE inline binary ratio(const magnitude& of, const magnitude& divisor) noexcept {
  const int shift = bit_length(of) - bit_length(divisor);
  remainder rest = shifted(of, shift < 0 ? -shift : 0);
  const remainder by = shifted(divisor, shift > 0 ? shift : 0);
  binary binary;
  for (binary.exponent = shift + 1; binary.digits >> 63 == 0; --binary.exponent) {
    binary.digits = binary.digits << 1 | next_digit(rest, by);
  }
  binary.is_exact = compare(rest, remainder{}) == 0;
  return binary;
}

/// The highest 64 bits of a number above 0.
SAETA_ANY_DEVICE inline binary highest_bits(const wide<2 * decimal_words>& of) noexcept {
  binary binary;
  binary.exponent = bit_length(of) - 64;
  for (int bit = binary.exponent + 63; bit >= 0; --bit) {
    const bool set = (of.words[bit / wide_word_bits] >> (bit % wide_word_bits) & 1) != 0;
    if (bit >= binary.exponent) {
      binary.digits = binary.digits << 1 | (set ? 1 : 0);
    } else if (set) {
      binary.is_exact = false;
    }
  }
  binary.digits <<= binary.exponent < 0 ? -binary.exponent : 0;
  return binary;
}

struct number {
  magnitude value;
  bool negative = false;
};

SAETA_ANY_DEVICE inline number load_number(const void* source, std::int32_t bytes,
                                           std::int64_t row) noexcept {
  const int words = bytes / 4;
  number number;
  for (int i = 0; i < words; ++i) {
    number.value.words[i] = equal_rows::load<std::uint32_t>(source, row * words + i);
  }
  number.negative = number.value.words[words - 1] >> (wide_word_bits - 1) != 0;
  if (number.negative) {
    std::uint64_t carry = 1;
    for (int i = 0; i < words; ++i) {
      carry += static_cast<std::uint32_t>(~number.value.words[i]);
      number.value.words[i] = static_cast<std::uint32_t>(carry);
      carry >>= wide_word_bits;
    }
  }
  return number;
}

SAETA_ANY_DEVICE inline magnitude power_of(const decimal_source& of) noexcept {
  magnitude magnitude;
  for (int i = 0; i < decimal_words; ++i) {
    magnitude.words[i] = of.power[i];
  }
  return magnitude;
}

/// An unsigned double, and whether it equals the number.
struct found_double {
  double value = 0;
  bool is_exact = true;
};

/// A double that is not exact has an odd last digit if `odd` is set: then it can be rounded again to a
/// narrower float.
SAETA_ANY_DEVICE inline found_double as_double(const magnitude& of, const decimal_source& how,
                                               bool odd) noexcept {
  constexpr int dropped_bits = 64 - std::numeric_limits<double>::digits;
  constexpr std::uint64_t dropped = (std::uint64_t{1} << dropped_bits) - 1;
  const int bits = bit_length(of);
  if (bits == 0) {
    return {};
  }
  if (bits <= std::numeric_limits<double>::digits && how.exact_divisor != 0) { // one rounded operation
    const auto whole = static_cast<double>(low_bits(of));
    const double value = whole / how.exact_divisor;
    const double above = std::fma(value, how.exact_divisor, -whole);
    if (above == 0 || !odd) {
      return {value, above == 0};
    }
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, &value, sizeof value);
    pattern = (above > 0 ? pattern - 1 : pattern) | 1;
    found_double result{0, false};
    std::memcpy(&result.value, &pattern, sizeof pattern);
    return result;
  }
  const magnitude power = power_of(how);
  const binary binary = how.scale > 0 ? ratio(of, power) : highest_bits(product(of, power));
  const bool is_exact = binary.is_exact && (binary.digits & dropped) == 0;
  const std::uint64_t digits = odd ? (binary.digits & ~dropped) | (is_exact ? 0 : dropped + 1)
                                   : binary.digits | (binary.is_exact ? 0 : 1);
  return {std::ldexp(static_cast<double>(digits), binary.exponent), is_exact};
}

/// An integer without a sign, and how far the number is above it.
struct found_integer {
  std::uint64_t value = 0;
  int against_half = -1; ///< -1, 0 or 1: the rest is less than a half, a half, or more
  bool is_exact = true;
  bool fits = true; ///< into 64 bits
};

SAETA_ANY_DEVICE inline found_integer divided(std::uint64_t of, std::uint64_t divisor) noexcept {
  const std::uint64_t rest = of % divisor;
  const std::uint64_t missing = divisor - rest;
  return {of / divisor, rest < missing ? -1 : rest > missing ? 1 : 0, rest == 0, true};
}

SAETA_ANY_DEVICE inline found_integer divided(const magnitude& of, const magnitude& divisor) noexcept {
  found_integer integer;
  const int shift = bit_length(of) - bit_length(divisor);
  remainder rest = shifted(of, 0);
  const remainder by = shifted(divisor, shift > 0 ? shift : 0);
  int digits = shift + 1;
  if (digits <= 0) {
    double_it(rest);
  }
  for (; digits > 0; --digits) {
    integer.fits = integer.fits && integer.value >> 63 == 0;
    integer.value = integer.value << 1 | next_digit(rest, by);
  }
  integer.against_half = compare(rest, by); // `rest` is twice the rest
  integer.is_exact = compare(rest, remainder{}) == 0;
  return integer;
}

SAETA_ANY_DEVICE inline found_integer as_integer(const magnitude& of, const decimal_source& how) noexcept {
  const magnitude power = power_of(how);
  if (how.scale <= 0) {
    const wide<2 * decimal_words> whole = product(of, power);
    return {low_bits(whole), -1, true, bit_length(whole) <= 64};
  }
  return bit_length(of) <= 64 && bit_length(power) <= 64 ? divided(low_bits(of), low_bits(power))
                                                         : divided(of, power);
}

/// Rounds to nearest, ties to even, and gives the number its sign.
template <class Integer>
SAETA_ANY_DEVICE inline bool finish(const found_integer& integer, bool negative, bool rounds,
                                    Integer& to) noexcept {
  constexpr std::uint64_t most = ~std::uint64_t{0} >> (64 - std::numeric_limits<Integer>::digits);
  const std::uint64_t limit = !negative ? most : std::is_signed_v<Integer> ? most + 1 : 0;
  const bool up = integer.against_half > 0 || (integer.against_half == 0 && (integer.value & 1) != 0);
  const std::uint64_t value = integer.value + (up ? 1 : 0);
  if (!integer.fits || !(rounds || integer.is_exact) || value < integer.value || value > limit) {
    return false;
  }
  to = static_cast<Integer>(negative ? 0 - value : value);
  return true;
}

/// Converts a row. Returns false if there is no such number.
/// @param narrow  converts a double as `narrow(value, rounds, to)`
template <class Target, class Narrow>
SAETA_ANY_DEVICE inline bool convert_row(const cast_work& work, std::int64_t row, Target& to,
                                         Narrow narrow) noexcept {
  const number given = load_number(work.source, work.decimal.bytes, row);
  if constexpr (std::is_integral_v<Target>) {
    return finish(as_integer(given.value, work.decimal), given.negative, work.rounds, to);
  } else {
    const found_double found_double = as_double(given.value, work.decimal, !std::is_same_v<Target, double>);
    return narrow(given.negative ? -found_double.value : found_double.value, work.rounds, to) &&
           (work.rounds || found_double.is_exact);
  }
}

} // namespace decimal_values
} // namespace saeta
