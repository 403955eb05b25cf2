#include "saeta/interop/arrow/offsets.hpp"

#include "saeta/interop/arrow/export.hpp"
#include "saeta/transfer/host_window.hpp"

#include <algorithm>

namespace saeta {
namespace {

using range = std::span<const std::byte>;

/// True if the offset of such an array applies to its children.
bool shares_offset(const data_type& type) noexcept {
  return type.mapping() == row_mapping::same || type.mapping() == row_mapping::fixed_size;
}

bool needs_row_0(const host_array& of, bool below) {
  if (of.offset == 0 || of.length == 0 || !shares_offset(of.type)) {
    return false;
  }
  const auto child_shares = [](const field& child) { return shares_offset(child.type); };
  return of.type.id() != type_id::struct_ || below || std::ranges::any_of(of.type.children(), child_shares);
}

/// The first buffer from row `of.offset` on; nullopt if it must be shifted and can't be.
std::optional<range> find_front_from_row_0(const host_array& of, shifted_bitmaps* shifted) {
  const range front = of.buffers[0];
  if (!of.type.has_validity()) {                               // a sparse union
    return front.subspan(static_cast<std::size_t>(of.offset)); // type ids, a byte each
  }
  if (null_count_of(of) == 0) {
    return range();
  }
  const row_window rows{of.offset, of.length, 0};
  const byte_window window = bytes_of(of.type, 0, rows);
  const range bits = front.subspan(window.offset, window.bytes);
  const int shift = bit_shift(of.type, 0, rows);
  if (shift == 0) {
    return bits;
  }
  if (shifted == nullptr) {
    return std::nullopt;
  }
  return std::as_bytes(std::span(shifted->emplace_back(shifted_bits(bits, shift, of.length))));
}

void push_down(host_array& of, range front) {
  of.buffers[0] = front;
  const child_rows rows = *rows_of_children(of.type, of.offset, of.length);
  for (host_array& child : of.children) {
    child.null_count = nulls_of_part(child.null_count, child.length, rows.count);
    child.offset += rows.first;
    child.length = rows.count;
  }
  of.offset = 0;
}

void push_offsets_down(host_array& of, bool below, shifted_bitmaps* shifted) {
  if (needs_row_0(of, below)) {
    if (const auto front = find_front_from_row_0(of, shifted)) {
      push_down(of, *front);
    }
  }
  for (host_array& child : of.children) {
    push_offsets_down(child, true, shifted);
  }
  if (of.dictionary != nullptr && !of.dictionary->children.empty()) {
    auto own = std::make_shared<host_array>(*of.dictionary);
    push_offsets_down(*own, true, shifted);
    of.dictionary = std::move(own);
  }
}

} // namespace

void push_offsets_down(host_array& of, shifted_bitmaps* shifted) { push_offsets_down(of, false, shifted); }

} // namespace saeta
