#include "saeta/column/ranges.hpp"

namespace saeta {
namespace {

void append(const buffer& whole, const byte_window& used, std::vector<address_range>& ranges) {
  if (whole.present() && used.bytes != 0) {
    ranges.push_back({whole.address() + used.offset, used.bytes});
  }
}

/// Bytes of buffer `index` that rows [first, first + rows) refer to.
void append_buffer(const column& of, std::size_t index, std::size_t first, std::size_t rows,
                   std::vector<address_range>& ranges) {
  const buffer& whole = of.buffers()[index];
  const buffer_spec spec = of.type().buffer(index);
  if (spec.role == buffer_role::bytes) {
    return append(whole, {0, whole.size()}, ranges);
  }
  append(whole, bytes_of_rows(spec, first, rows), ranges);
}

} // namespace

void append_ranges(const column& of, std::vector<address_range>& ranges) {
  if (of.length() > 0) {
    const auto first = static_cast<std::size_t>(of.offset());
    const auto rows = static_cast<std::size_t>(of.length());
    for (std::size_t i = 0; i < of.buffers().size(); ++i) {
      append_buffer(of, i, first, rows, ranges);
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
