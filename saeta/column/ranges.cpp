#include "saeta/column/detail/ranges.hpp"

namespace saeta {
namespace {

/// Bytes [first, last) of a buffer.
void append(const buffer& whole, std::size_t first, std::size_t last, std::vector<address_range>& ranges) {
  if (whole.present() && last > first) {
    ranges.push_back({whole.address() + first, last - first});
  }
}

} // namespace

void append_ranges(const column& of, std::vector<address_range>& ranges) {
  if (of.length() > 0) {
    const auto first = static_cast<std::size_t>(of.offset());
    const std::size_t last = first + static_cast<std::size_t>(of.length());
    append(of.validity(), first / 8, (last + 7) / 8, ranges);
    switch (of.type().layout()) {
    case layout_kind::bits:
      append(of.values(), first / 8, (last + 7) / 8, ranges);
      break;
    case layout_kind::fixed: {
      const auto width = static_cast<std::size_t>(of.type().byte_width());
      append(of.values(), first * width, last * width, ranges);
      break;
    }
    case layout_kind::offsets32:
    case layout_kind::offsets64: {
      const std::size_t width = of.type().layout() == layout_kind::offsets32 ? 4 : 8;
      append(of.offsets(), first * width, (last + 1) * width, ranges);
      append(of.bytes(), 0, of.bytes().size(), ranges);
      break;
    }
    case layout_kind::none:
      break;
    }
  }
  if (of.dictionary() != nullptr) {
    append_ranges(*of.dictionary(), ranges);
  }
}

} // namespace saeta
