// Text for messages: joining values, byte counts for people and reading them back, and what is UTF-8.
#pragma once

#include "saeta/base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace saeta {

/// Streams every argument into one string; g++ 12 has no std::format.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// 128-bit integer in decimal; the standard streams have none.
std::string decimal(uint128 value);

/// Bytes with a binary unit and at most two decimals: "512 B", "1.5 KiB", "8 GiB".
std::string human_bytes(std::uint64_t bytes);

/// Reads "4096", "8GiB", "1.5 MiB", "10MB" (decimal units are powers of 1000) or "50%" of `whole` bytes.
/// @throws error invalid_argument naming the text and what was expected; overflow past 2^64-1.
std::uint64_t parse_bytes(std::string_view text, std::uint64_t whole = 0);

/// Length in bytes of the UTF-8 character at the front of `text`, which is not empty; 0 when there is none (RFC 3629: no
/// overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) noexcept;

/// True where all of `text` is UTF-8.
bool is_utf8(std::string_view text) noexcept;

} // namespace saeta
