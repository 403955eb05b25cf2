#include "saeta/base/text.hpp"
#include "saeta/ipc/read/host_columns.hpp"

#include <algorithm>
#include <initializer_list>

namespace saeta::ipc::detail {
namespace {

/// Swaps numbers of these widths, which follow each other again and again. A rest is left alone.
void swap_numbers(std::span<std::byte> bytes, std::initializer_list<std::size_t> widths) {
  std::size_t all = 0;
  for (const std::size_t width : widths) {
    all += width;
  }
  for (; bytes.size() >= all; bytes = bytes.subspan(all)) {
    std::size_t at = 0;
    for (const std::size_t width : widths) {
      std::ranges::reverse(bytes.subspan(at, width));
      at += width;
    }
  }
}

} // namespace

void swap_order(const data_type& type, std::size_t index, std::span<std::byte> bytes) {
  if (index >= type.buffer_count()) {
    return; // the bytes of views
  }
  const buffer_spec spec = type.buffer(index);
  switch (spec.role) {
  case buffer_role::validity:
  case buffer_role::bits:
  case buffer_role::bytes:
  case buffer_role::type_ids:
    return;
  case buffer_role::views:
    throw error(errc::unsupported, "its views are in big-endian byte order");
  default:
    break;
  }
  const bool values = spec.role == buffer_role::values;
  if (values && type.id() == type_id::fixed_size_binary) {
    return;
  }
  if (values && type.id() == type_id::interval_day_time) {
    swap_numbers(bytes, {4, 4});
  } else if (values && type.id() == type_id::interval_month_day_nano) {
    swap_numbers(bytes, {4, 4, 8});
  } else {
    swap_numbers(bytes, {static_cast<std::size_t>(spec.width)});
  }
}

} // namespace saeta::ipc::detail
