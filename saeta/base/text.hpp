// Text for messages: joining values, writing and reading byte counts, and checking UTF-8.

#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace SAETA_EXPORT saeta {

namespace detail {

/// Integer types that streams would print as characters.
template <class Part>
constexpr bool one_byte = std::is_same_v<Part, signed char> || std::is_same_v<Part, unsigned char>;

/// Appends text and integers directly, because making a stream takes as long as making a column.
template <class Part>
void append_to(std::string& text, const Part& part) {
  static_assert(!std::is_function_v<Part>, "a stream's manipulators say nothing about other parts");
  if constexpr (std::is_same_v<Part, char>) {
    text.push_back(part);
  } else if constexpr (std::is_same_v<Part, bool>) {
    text.push_back(part ? '1' : '0');
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    text.append(std::string_view(part));
  } else if constexpr (std::is_integral_v<Part> && !one_byte<Part>) {
    std::array<char, std::numeric_limits<Part>::digits10 + 3> digits;
    text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), part).ptr);
  } else {
    std::ostringstream out;
    out << part;
    text.append(std::move(out).str());
  }
}

} // namespace detail

/// Joins the arguments as a stream prints them. g++ 12 has no std::format.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::string text;
  (detail::append_to(text, parts), ...);
  return text;
}

/// At most 16 hexadecimal digits, without a prefix: "2a".
[[nodiscard]] std::string hexadecimal(std::uint64_t value);

/// Writes a 128-bit integer in decimal, which the standard streams can't.
[[nodiscard]] std::string decimal(uint128 value);

/// Bytes with a binary unit and at most two decimals: "512 B", "1.5 KiB", "8 GiB".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

/// Reads "4096", "8GiB", "1.5 MiB", "10MB" (decimal units are powers of 1000) or "50%" of `whole` bytes.
/// @throws error invalid_argument naming the text and what was expected; overflow past 2^64-1.
std::uint64_t parse_bytes(std::string_view text, std::uint64_t whole = 0);

/// The name of a type with its article: "an int8", "a uint8".
[[nodiscard]] std::string with_article(std::string_view name);

/// The length in bytes of the UTF-8 character at the front of `text`, which must not be empty. 0 if it is not
/// valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) noexcept;

/// True if all of `text` is UTF-8.
bool is_utf8(std::string_view text) noexcept;

/// Makes text from other sources safe for terminals and logs.
/// Escapes ("\x1b") all characters that a terminal acts on or that a reader can't see: control characters
/// (C0, DEL, C1), line ends, marks that change the writing direction, and bytes that are not UTF-8. Other
/// text is returned unchanged.
[[nodiscard]] std::string printable(std::string text);

} // namespace saeta
