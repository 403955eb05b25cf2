// Checks for UTF-8, in the kernels of the host and of a GPU.
//
// Standard  RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/equal_values.hpp"
#include "saeta/device/value_check.hpp"

#include <cstdint>

namespace SAETA_EXPORT saeta {

/// The index of the first byte that does not start a valid character, or `bytes` if there is none.
SAETA_ANY_DEVICE inline std::int64_t first_not_utf8(const std::uint8_t* text, std::int64_t bytes) noexcept {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::int64_t at = 0;
  while (at < bytes) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(text + at) % sizeof(std::uint64_t) == 0;
    if (aligned && bytes - at >= 8 && (equal_rows::load<std::uint64_t>(text + at, 0) & high_bits) == 0) {
      at += 8;
      continue;
    }
    const std::uint8_t first = text[at];
    if (first < 0x80) {
      ++at;
      continue;
    }
    // The number of continuation bytes, and the range of the first one.
    const int more = first < 0xC2 || first > 0xF4 ? -1 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    if (more < 0 || bytes - at <= more) {
      return at;
    }
    const std::uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    bool good = text[at + 1] >= least && text[at + 1] <= most;
    for (int i = 2; i <= more; ++i) {
      good = good && (text[at + i] & 0xC0) == 0x80;
    }
    if (!good) {
      return at;
    }
    at += more + 1;
  }
  return bytes;
}

SAETA_ANY_DEVICE inline bool is_utf8(const std::uint8_t* text, std::int64_t bytes) noexcept {
  return first_not_utf8(text, bytes) == bytes;
}

/// Checks one row of a check of kind `texts`. Offsets out of range pass, because another check finds them.
SAETA_ANY_DEVICE inline bool is_valid_text(const value_check& check, std::int64_t row) noexcept {
  const bool wide = check.width == 8;
  const std::int64_t first = wide ? equal_rows::load<std::int64_t>(check.values, row)
                                  : equal_rows::load<std::int32_t>(check.values, row);
  const std::int64_t end = wide ? equal_rows::load<std::int64_t>(check.values, row + 1)
                                : equal_rows::load<std::int32_t>(check.values, row + 1);
  return first < 0 || end < first || end > check.limit ||
         is_utf8(static_cast<const std::uint8_t*>(check.second) + first, end - first);
}

/// Checks one row of a check of kind `text_views`. Views out of range pass, because another check finds them.
SAETA_ANY_DEVICE inline bool is_valid_text_view(const value_check& check, std::int64_t row) noexcept {
  constexpr std::int32_t inline_bytes = 12;
  const auto size = equal_rows::load<std::int32_t>(check.values, 4 * row);
  if (size >= 0 && size <= inline_bytes) {
    return is_utf8(static_cast<const std::uint8_t*>(check.values) + 16 * row + 4, size);
  }
  const auto index = equal_rows::load<std::int32_t>(check.values, 4 * row + 2);
  const auto offset = equal_rows::load<std::int32_t>(check.values, 4 * row + 3);
  if (size < 0 || index < 0 || index >= check.limit || offset < 0 ||
      std::int64_t{offset} + size > check.table[index]) {
    return true;
  }
  const auto address = static_cast<std::uintptr_t>(check.table[check.limit + index]);
  return is_utf8(reinterpret_cast<const std::uint8_t*>(address) + offset, size);
}

} // namespace saeta
