// Views of strings and binaries: what one says, and which bytes many of them name.
//
// Standard  Arrow columnar format, "Variable-size Binary View Layout".
#pragma once

#include "saeta/transfer/host_window.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// One view as it lies in memory. Up to `inlined` bytes are in it, in place of prefix, buffer and offset.
struct byte_view {
  static constexpr std::int32_t inlined = 12;

  std::int32_t length = 0;
  std::int32_t prefix = 0;
  std::int32_t buffer = 0;
  std::int32_t offset = 0;

  /// Whether it names bytes inside of a buffer of these sizes. Under a null it may say anything.
  [[nodiscard]] bool names_bytes(std::span<const std::size_t> sizes) const noexcept;
};
static_assert(sizeof(byte_view) == 16);

/// For each buffer the bytes from the first to the last that a view names.
std::vector<byte_window> windows_behind(std::span<const byte_view> views, std::span<const std::size_t> sizes);

/// Makes views name the same bytes in buffers that hold these windows alone.
void move_into(std::span<byte_view> views, std::span<const byte_window> windows,
               std::span<const std::size_t> sizes);

} // namespace saeta
