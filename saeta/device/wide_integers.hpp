// Integers of more than 64 bits, for decimals in the kernels of the host and of a GPU. Both compile these
// functions.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/cast.hpp"
#include "saeta/device/equal_values.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {
namespace wide_integers {

inline constexpr int wide_word_bits = 32;

/// An integer without a sign, the lowest word first.
template <int Words>
struct wide {
  std::uint32_t words[static_cast<unsigned>(Words)] = {};
};

using magnitude = wide<decimal_words>;
using remainder = wide<decimal_words + 1>; ///< the remainder of a division, which takes one more bit

template <int Words>
SAETA_ANY_DEVICE inline int bit_length(const wide<Words>& of) noexcept {
  int word = Words - 1;
  while (word > 0 && of.words[word] == 0) {
    --word;
  }
  int bits = word * wide_word_bits;
  std::uint32_t rest = of.words[word];
  for (int step = wide_word_bits / 2; step > 0; step /= 2) {
    if (rest >> step != 0) {
      bits += step;
      rest >>= step;
    }
  }
  return bits + static_cast<int>(rest);
}

template <int Words>
SAETA_ANY_DEVICE inline std::uint64_t low_bits(const wide<Words>& of) noexcept {
  return static_cast<std::uint64_t>(of.words[1]) << wide_word_bits | of.words[0];
}

/// @param bits  0 or more; no bit is lost
SAETA_ANY_DEVICE inline remainder shifted(const magnitude& of, int bits) noexcept {
  remainder result;
  const int whole = bits / wide_word_bits;
  const int part = bits % wide_word_bits;
  for (int i = 0; i < decimal_words; ++i) {
    const std::uint64_t moved = static_cast<std::uint64_t>(of.words[i]) << part;
    if (i + whole <= decimal_words) {
      result.words[i + whole] |= static_cast<std::uint32_t>(moved);
    }
    if (i + whole + 1 <= decimal_words) {
      result.words[i + whole + 1] = static_cast<std::uint32_t>(moved >> wide_word_bits);
    }
  }
  return result;
}

SAETA_ANY_DEVICE inline void double_it(remainder& of) noexcept {
  std::uint32_t carry = 0;
  for (std::uint32_t& word : of.words) {
    const std::uint32_t next = word >> (wide_word_bits - 1);
    word = word << 1 | carry;
    carry = next;
  }
}

/// -1, 0 or 1
SAETA_ANY_DEVICE inline int compare(const remainder& a, const remainder& b) noexcept {
  for (int i = decimal_words; i >= 0; --i) {
    if (a.words[i] != b.words[i]) {
      return a.words[i] < b.words[i] ? -1 : 1;
    }
  }
  return 0;
}

/// One step of a long division: returns the next binary digit.
SAETA_ANY_DEVICE inline std::uint64_t next_digit(remainder& rest, const remainder& by) noexcept {
  const bool fits = compare(rest, by) >= 0;
  if (fits) {
    std::uint64_t borrow = 0;
    for (int i = 0; i <= decimal_words; ++i) {
      const std::uint64_t left = static_cast<std::uint64_t>(rest.words[i]) - by.words[i] - borrow;
      rest.words[i] = static_cast<std::uint32_t>(left);
      borrow = left >> 63;
    }
  }
  double_it(rest);
  return fits ? 1 : 0;
}

SAETA_ANY_DEVICE inline wide<2 * decimal_words> product(const magnitude& a, const magnitude& b) noexcept {
  wide<2 * decimal_words> wide;
  for (int i = 0; i < decimal_words; ++i) {
    std::uint64_t carry = 0;
    for (int j = 0; j < decimal_words; ++j) {
      carry += static_cast<std::uint64_t>(a.words[i]) * b.words[j] + wide.words[i + j];
      wide.words[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= wide_word_bits;
    }
    wide.words[i + decimal_words] = static_cast<std::uint32_t>(carry);
  }
  return wide;
}

} // namespace wide_integers
} // namespace saeta
