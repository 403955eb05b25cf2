#include "saeta/base/printable.hpp"

#include "saeta/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace saeta {
namespace {

struct span_of_characters {
  char32_t first;
  char32_t last;
};

/// Control characters, the marks of Unicode's bidirectional algorithm, and line and paragraph separators.
constexpr std::array hidden{
    span_of_characters{0x00, 0x1F},     span_of_characters{0x7F, 0x9F},
    span_of_characters{0x61C, 0x61C},   span_of_characters{0x200E, 0x200F},
    span_of_characters{0x2028, 0x202E}, span_of_characters{0x2066, 0x2069},
};

bool is_hidden(char32_t character) {
  return std::ranges::any_of(
      hidden, [&](const span_of_characters& of) { return of.first <= character && character <= of.last; });
}

/// The character of a UTF-8 sequence of `text.size()` bytes.
char32_t decode_character(std::string_view text) {
  constexpr std::array<unsigned, 5> bits_of_first{0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t character = static_cast<std::uint8_t>(text.front()) & bits_of_first[text.size()];
  for (const char each : text.substr(1)) {
    character = character << 6U | (static_cast<std::uint8_t>(each) & 0x3FU);
  }
  return character;
}

/// Writes the escape sequence that Python would write.
void append_escape(std::string& out, char32_t character) {
  constexpr std::string_view with_a_letter = "\t\n\r";
  const std::size_t letter =
      character < 0x80 ? with_a_letter.find(static_cast<char>(character)) : std::string_view::npos;
  if (letter != std::string_view::npos) {
    out += '\\';
    out += "tnr"[letter];
    return;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  const bool wide = character > 0xFF;
  out += wide ? "\\u" : "\\x";
  for (int shift = wide ? 12 : 4; shift >= 0; shift -= 4) {
    out += digits[(character >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

bool is_plain(char byte) { return byte >= 0x20 && byte < 0x7F; }

} // namespace

std::string printable(std::string text) {
  if (std::ranges::all_of(text, is_plain)) {
    return text;
  }
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = utf8_length(rest);
    const std::string_view one = rest.substr(0, std::max<std::size_t>(length, 1));
    const char32_t character = length == 0 ? static_cast<std::uint8_t>(one.front()) : decode_character(one);
    if (length == 0 || is_hidden(character)) {
      append_escape(out, character);
    } else {
      out += one;
    }
    rest.remove_prefix(one.size());
  }
  return out;
}

} // namespace saeta
