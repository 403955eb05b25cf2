#include "saeta/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iomanip>

namespace saeta {
namespace {

struct unit {
  std::string_view name;
  double bytes;
};

constexpr auto units = std::to_array<unit>({{"", 1},
                                            {"B", 1},
                                            {"K", 0x1p10},
                                            {"KIB", 0x1p10},
                                            {"KB", 1e3},
                                            {"M", 0x1p20},
                                            {"MIB", 0x1p20},
                                            {"MB", 1e6},
                                            {"G", 0x1p30},
                                            {"GIB", 0x1p30},
                                            {"GB", 1e9},
                                            {"T", 0x1p40},
                                            {"TIB", 0x1p40},
                                            {"TB", 1e12},
                                            {"PIB", 0x1p50},
                                            {"EIB", 0x1p60}});

[[noreturn]] void refuse(std::string_view text) {
  throw error(
      errc::invalid_argument,
      concat("'", text,
             "' is not a byte count: expected a number with an optional unit, as 4096, 8GiB, 10MB or 50%"));
}

} // namespace

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 16> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr};
}

std::string decimal(uint128 value) {
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string with_article(std::string_view name) {
  constexpr std::string_view vowels = "AEIOaeio"; // a name with u begins like "uint8"
  return concat(!name.empty() && vowels.find(name.front()) != std::string_view::npos ? "an " : "a ", name);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> names{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // A value that rounds to 1024 moves to the next unit. The loop ends by EiB, because 2^64 bytes are 16 EiB.
  while (std::round(value * 100) / 100 >= 1024) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << std::round(value * 100) / 100;
  std::string digits = std::move(out).str();
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) {
    digits.pop_back();
  }
  return concat(digits, ' ', names[unit]);
}

std::uint64_t parse_bytes(std::string_view text, std::uint64_t whole) {
  double value = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || !(value >= 0)) {
    refuse(text);
  }
  std::string suffix;
  for (const char* c = rest; c != text.data() + text.size(); ++c) {
    if (*c != ' ') {
      suffix.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(*c))));
    }
  }
  if (suffix == "%") {
    if (whole == 0 || value > 100) {
      refuse(text);
    }
    return static_cast<std::uint64_t>(static_cast<double>(whole) * (value / 100));
  }
  std::uint64_t exact = 0; // a plain count is read as an integer: a double loses bytes above 2^53
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (bad == std::errc{} && end == text.data() + text.size()) {
    return exact;
  }
  const auto* const match =
      std::find_if(units.begin(), units.end(), [&](const unit& u) { return u.name == suffix; });
  if (match == units.end()) {
    refuse(text);
  }
  const double bytes = value * match->bytes;
  if (bytes >= 0x1p64) {
    throw error(errc::overflow, concat("'", text, "' is more than 2^64-1 bytes"));
  }
  return static_cast<std::uint64_t>(bytes);
}

std::size_t utf8_length(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < least || at(1) > most) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

bool is_utf8(std::string_view text) noexcept {
  if (std::ranges::all_of(text, [](char each) { return static_cast<std::uint8_t>(each) < 0x80; })) {
    return true; // nearly all names are ASCII
  }
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

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
  for (const char byte : text.substr(1)) {
    character = character << 6U | (static_cast<std::uint8_t>(byte) & 0x3FU);
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
