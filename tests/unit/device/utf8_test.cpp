// UTF-8 validation, compared with the definition for all sequences of up to four bytes that are nearly valid.
#include "saeta/device/utf8.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace saeta {
namespace {

/// The definition of one character: its code point is in range, and encoded with the fewest bytes.
bool one_character(const std::uint8_t* text, int bytes) {
  static constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  std::uint32_t number = bytes == 1 ? text[0] : text[0] & (0x7FU >> bytes);
  const std::uint32_t mark = bytes == 1 ? 0 : 0xFFU << (8 - bytes) & 0xFFU;
  const std::uint32_t marks = bytes == 1 ? 0x80 : 0xFFU << (7 - bytes) & 0xFFU;
  const bool marked = (text[0] & marks) == mark;
  for (int i = 1; i < bytes; ++i) {
    if ((text[i] & 0xC0) != 0x80) {
      return false;
    }
    number = number << 6 | (text[i] & 0x3FU);
  }
  return marked && number >= least[static_cast<std::size_t>(bytes)] && number <= 0x10FFFF &&
         (number < 0xD800 || number > 0xDFFF);
}

/// The definition of a text: a sequence of characters.
bool defined(const std::uint8_t* text, int bytes) {
  if (bytes == 0) {
    return true;
  }
  for (int first = 1; first <= std::min(bytes, 4); ++first) {
    if (one_character(text, first)) {
      return defined(text + first, bytes - first);
    }
  }
  return false;
}

TEST(utf8, of_three_bytes_follows_the_definition) {
  std::array<std::uint8_t, 8> text{}; // as many bytes as are loaded at once
  for (std::uint32_t i = 0; i < 1U << 24; ++i) {
    text = std::array<std::uint8_t, 8>{static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8),
                                       static_cast<std::uint8_t>(i >> 16)};
    for (int bytes = 1; bytes <= 3; ++bytes) {
      ASSERT_EQ(is_utf8(text.data(), bytes), defined(text.data(), bytes)) << std::hex << i;
    }
    if (text[0] < 0xC0 && text[1] < 0xC0) {
      i |= 0xFC0000; // not all values of the third byte
    }
  }
}

TEST(utf8, of_four_bytes_follows_the_definition) {
  for (std::uint32_t first = 0xE0; first < 0x100; ++first) {
    for (std::uint32_t second = 0x70; second < 0xD0; ++second) {
      for (const std::uint32_t third : {0x00U, 0x7FU, 0x80U, 0xA0U, 0xBFU, 0xC0U, 0xFFU}) {
        for (const std::uint32_t fourth : {0x00U, 0x7FU, 0x80U, 0xBFU, 0xC0U, 0xFFU}) {
          const std::array<std::uint8_t, 8> text{
              static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(second),
              static_cast<std::uint8_t>(third), static_cast<std::uint8_t>(fourth)};
          ASSERT_EQ(is_utf8(text.data(), 4), defined(text.data(), 4))
              << first << ' ' << second << ' ' << third;
        }
      }
    }
  }
}

TEST(utf8, of_any_length_and_alignment_has_the_first_invalid_position) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 8, 'x');
    const std::size_t begin = text.size();
    while (text.size() < begin + 30) {
      text += std::array<std::string, 4>{"a", "\xC2\xA2", "\xE2\x82\xAC", "\xF0\x90\x8D\x88"}[random() % 4];
    }
    const auto* const at = reinterpret_cast<const std::uint8_t*>(text.data() + begin);
    const auto bytes = static_cast<std::int64_t>(text.size() - begin);
    ASSERT_EQ(first_not_utf8(at, bytes), bytes);
    const std::size_t place = begin + random() % 20;
    text[place] = '\xFF';
    const std::int64_t bad = first_not_utf8(at, bytes);
    ASSERT_LE(bad, static_cast<std::int64_t>(place - begin));
    ASSERT_GE(bad, static_cast<std::int64_t>(place - begin) - 3);
    ASSERT_TRUE(is_utf8(at, bad));
  }
}

} // namespace
} // namespace saeta
