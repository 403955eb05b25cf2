// The text of log records: UTF-8 validation, escaping in JSON, quoting in CSV.
#include "saeta/observe/sinks/log_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace saeta {
namespace {

const std::string replaced = "\xEF\xBF\xBD";

std::string encode(std::uint32_t code) {
  const auto tail = [&](unsigned shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  if (code < 0x800) {
    return {static_cast<char>(0xC0 | code >> 6), tail(0)};
  }
  if (code < 0x10000) {
    return {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

TEST(log_text, json_keeps_every_character_beyond_ascii) {
  for (std::uint32_t code = 0x80; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) {
      continue; // surrogates are not characters
    }
    const std::string text = encode(code);
    ASSERT_EQ(json_string(text), '"' + text + '"') << code;
  }
}

TEST(log_text, json_escapes_quotes_backslashes_and_controls) {
  for (int code = 0; code < 0x80; ++code) {
    const char character = static_cast<char>(code);
    std::string expected(1, character);
    if (character == '"' || character == '\\') {
      expected = std::string("\\") + character;
    } else if (code < 0x20 || code == 0x7F) {
      expected = std::string("\\u00") + "0123456789abcdef"[code / 16] + "0123456789abcdef"[code % 16];
    }
    EXPECT_EQ(json_string(std::string(1, character)), '"' + expected + '"') << code;
  }
}

/// Tries all sequences of bytes at the limits of UTF-8's ranges. If it is a character that `encode` can
/// produce, it is unchanged; otherwise its first byte is replaced.
TEST(log_text, json_replaces_bytes_that_are_not_utf8) {
  constexpr std::array<std::uint8_t, 12> bounds{0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                                0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xFF};
  const auto is_character = [](const std::string& text) {
    const auto at = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[i]));
    };
    std::uint32_t code = text.size() == 2 ? at(0) & 0x1F : text.size() == 3 ? at(0) & 0x0F : at(0) & 0x07;
    for (std::size_t i = 1; i < text.size(); ++i) {
      code = code << 6 | (at(i) & 0x3F);
    }
    return code >= 0x80 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) && encode(code) == text;
  };
  for (std::uint32_t lead = 0x80; lead <= 0xFF; ++lead) {
    for (const std::uint8_t second : bounds) {
      for (const std::uint8_t third : bounds) {
        for (const std::uint8_t fourth : bounds) {
          const std::string text{static_cast<char>(lead), static_cast<char>(second), static_cast<char>(third),
                                 static_cast<char>(fourth)};
          std::size_t length = 0;
          for (const std::size_t tried : {2U, 3U, 4U}) {
            length = is_character(text.substr(0, tried)) ? tried : length;
          }
          const std::string expected = length == 0 ? replaced : text.substr(0, length);
          ASSERT_TRUE(json_string(text).starts_with('"' + expected))
              << std::hex << lead << ' ' << +second << ' ' << +third << ' ' << +fourth;
        }
      }
    }
  }
}

TEST(log_text, json_replaces_a_character_that_is_cut_off) {
  for (const std::uint32_t code : {0x80U, 0x7FFU, 0x800U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    const std::string whole = encode(code);
    for (std::size_t kept = 1; kept < whole.size(); ++kept) {
      std::string expected = "\"";
      for (std::size_t i = 0; i < kept; ++i) {
        expected += replaced;
      }
      const std::string cut = whole.substr(0, kept);
      EXPECT_EQ(json_string(std::string_view(whole).substr(0, kept)), expected + '"') << code << ' ' << kept;
      EXPECT_EQ(json_string(cut + "a"), expected + "a\"") << code << ' ' << kept;
    }
  }
}

TEST(log_text, csv_quotes_only_if_needed) {
  for (int code = 1; code < 256; ++code) {
    const std::string text = std::string("a") + static_cast<char>(code) + "b";
    switch (code) {
    case '"':
      EXPECT_EQ(csv_field(text), "\"a\"\"b\"");
      break;
    case ',':
    case '\r':
    case '\n':
      EXPECT_EQ(csv_field(text), '"' + text + '"');
      break;
    default:
      EXPECT_EQ(csv_field(text), text);
    }
  }
}

} // namespace
} // namespace saeta
