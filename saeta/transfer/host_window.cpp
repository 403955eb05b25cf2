#include "saeta/transfer/host_window.hpp"

#include <cstring>

namespace saeta {

row_window window_of(std::int64_t offset, std::int64_t length) {
  row_window w;
  w.offset = offset % 8;
  w.first = offset - w.offset;
  w.rows = w.offset + length;
  return w;
}

byte_window bytes_of(const data_type& type, std::size_t index, const row_window& rows) {
  const auto first = static_cast<std::size_t>(rows.first);
  const auto count = static_cast<std::size_t>(rows.rows);
  if (index == 0 || type.layout() == layout_kind::bits) {
    return {first / 8, (count + 7) / 8};
  }
  if (const std::size_t width = offset_width(type); width != 0) {
    return {first * width, (count + 1) * width};
  }
  const auto width = static_cast<std::size_t>(type.byte_width());
  return {first * width, count * width};
}

std::size_t offset_width(const data_type& type) noexcept {
  switch (type.layout()) {
  case layout_kind::offsets32:
    return sizeof(std::int32_t);
  case layout_kind::offsets64:
    return sizeof(std::int64_t);
  default:
    return 0;
  }
}

std::int64_t read_offset(const std::byte* offsets, std::size_t width, std::int64_t index) noexcept {
  const std::byte* at = offsets + static_cast<std::size_t>(index) * width;
  if (width == sizeof(std::int32_t)) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

} // namespace saeta
