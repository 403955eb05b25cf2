#include "saeta/ipc/read/body_ranges.hpp"

#include "saeta/ipc/format/message_fields.hpp"

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

constexpr std::int64_t small_gap = 4096; // bytes; reading them costs less than another call

} // namespace

message_parts parts_of(const data_type& type, std::int16_t version) {
  // Before version 5 unions had a validity bitmap.
  const bool bitmap =
      version < version_5 && (type.id() == type_id::sparse_union || type.id() == type_id::dense_union);
  message_parts parts{1, type.buffer_count() + (bitmap ? 1 : 0), type.has_variadic_buffers() ? 1U : 0U};
  for (const field& child : type.children()) {
    const message_parts inner = parts_of(child.type, version);
    parts.nodes += inner.nodes;
    parts.buffers += inner.buffers;
    parts.variadic += inner.variadic;
  }
  return parts;
}

std::vector<buffer_place> body_ranges(const schema& described, const batch_layout& batch,
                                      std::span<const int> columns) {
  std::vector<buffer_place> taken;
  std::size_t buffer = 0;
  std::size_t variadic = 0;
  for (std::size_t i = 0; i < described.fields.size(); ++i) {
    const message_parts parts = parts_of(described.fields[i].type, batch.version);
    const bool chosen = columns.empty() || std::ranges::binary_search(columns, static_cast<int>(i));
    std::size_t count = parts.buffers;
    for (std::size_t v = 0; v < parts.variadic && variadic < batch.variadic_counts.size(); ++v) {
      count += static_cast<std::size_t>(batch.variadic_counts[variadic++]);
    }
    for (; count != 0 && buffer < batch.buffers.size(); --count, ++buffer) {
      const buffer_place place = batch.buffers[buffer];
      if (chosen && place.length != 0) {
        taken.push_back(place);
      }
    }
  }
  std::ranges::sort(taken, {}, &buffer_place::offset);
  std::vector<buffer_place> joined;
  for (const buffer_place& place : taken) {
    if (!joined.empty() && place.offset - (joined.back().offset + joined.back().length) <= small_gap) {
      buffer_place& last = joined.back();
      last.length = std::max(last.length, place.offset + place.length - last.offset);
    } else {
      joined.push_back(place);
    }
  }
  return joined;
}

} // namespace saeta::ipc::detail
