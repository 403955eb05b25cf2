// Views of strings and binaries: one view as it is stored, and the bytes that many views refer to.
//
// Standard  Arrow columnar format, "Variable-size Binary View Layout".
#pragma once

#include "saeta/transfer/host_window.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// One view as it is stored. It holds up to `inlined` bytes itself, in place of prefix, buffer and offset.
struct byte_view {
  static constexpr std::int32_t inlined = 12;

  std::int32_t length = 0;
  std::int32_t prefix = 0;
  std::int32_t buffer = 0;
  std::int32_t offset = 0;

  /// Whether the view refers to bytes inside buffers of these sizes. The view of a null may hold any values.
  [[nodiscard]] bool names_bytes(std::span<const std::size_t> sizes) const noexcept;
};
static_assert(sizeof(byte_view) == 16);

/// For each buffer, the window from the first to the last byte that a view refers to.
std::vector<byte_window> windows_of_views(std::span<const byte_view> views,
                                          std::span<const std::size_t> sizes);

/// Changes views so that they refer to the same bytes in buffers that hold only these windows.
void move_into(std::span<byte_view> views, std::span<const byte_window> windows,
               std::span<const std::size_t> sizes);

} // namespace saeta
