#include "saeta/column/ranges.hpp"

namespace saeta {
namespace {

/// Bytes [first, last) of a buffer.
void append(const buffer& whole, std::size_t first, std::size_t last, std::vector<address_range>& ranges) {
  if (whole.present() && last > first) {
    ranges.push_back({whole.address() + first, last - first});
  }
}

/// Bytes of buffer `index` that rows [first, last) refer to.
void append_buffer(const column& of, std::size_t index, std::size_t first, std::size_t last,
                   std::vector<address_range>& ranges) {
  const buffer& whole = of.buffers()[index];
  const buffer_spec spec = of.type().buffer(index);
  const auto width = static_cast<std::size_t>(spec.width);
  switch (spec.role) {
  case buffer_role::validity:
  case buffer_role::bits:
    return append(whole, first / 8, (last + 7) / 8, ranges);
  case buffer_role::values:
    return append(whole, first * width, last * width, ranges);
  case buffer_role::offsets:
    return append(whole, first * width, (last + 1) * width, ranges);
  case buffer_role::bytes:
    return append(whole, 0, whole.size(), ranges);
  }
}

} // namespace

void append_ranges(const column& of, std::vector<address_range>& ranges) {
  if (of.length() > 0) {
    const auto first = static_cast<std::size_t>(of.offset());
    const std::size_t last = first + static_cast<std::size_t>(of.length());
    for (std::size_t i = 0; i < of.buffers().size(); ++i) {
      append_buffer(of, i, first, last, ranges);
    }
    for (std::size_t i = 0; i < of.children().size(); ++i) {
      append_ranges(of.child(i), ranges);
    }
  }
  if (of.dictionary() != nullptr) {
    append_ranges(*of.dictionary(), ranges);
  }
}

} // namespace saeta
