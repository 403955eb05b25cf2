#include "saeta/transfer/byte_view.hpp"

#include <algorithm>

namespace saeta {

bool byte_view::names_bytes(std::span<const std::size_t> sizes) const noexcept {
  if (length <= inlined || offset < 0 || buffer < 0 || static_cast<std::size_t>(buffer) >= sizes.size()) {
    return false;
  }
  return static_cast<std::size_t>(offset) + static_cast<std::size_t>(length) <=
         sizes[static_cast<std::size_t>(buffer)];
}

std::vector<byte_window> windows_of_views(std::span<const byte_view> views,
                                          std::span<const std::size_t> sizes) {
  std::vector<byte_window> windows(sizes.size());
  for (const byte_view& view : views) {
    if (view.names_bytes(sizes)) {
      byte_window& window = windows[static_cast<std::size_t>(view.buffer)];
      const auto first = static_cast<std::size_t>(view.offset);
      const std::size_t end = first + static_cast<std::size_t>(view.length);
      const std::size_t known_end = window.offset + window.bytes;
      window.offset = window.bytes == 0 ? first : std::min(window.offset, first);
      window.bytes = std::max(known_end, end) - window.offset;
    }
  }
  return windows;
}

void move_into(std::span<byte_view> views, std::span<const byte_window> windows,
               std::span<const std::size_t> sizes) {
  for (byte_view& view : views) {
    if (view.names_bytes(sizes)) {
      view.offset -= static_cast<std::int32_t>(windows[static_cast<std::size_t>(view.buffer)].offset);
    }
  }
}

} // namespace saeta
