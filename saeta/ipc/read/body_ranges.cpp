#include "saeta/ipc/read/body_ranges.hpp"

#include <arrow/extension_type.h>
#include <arrow/ipc/type_fwd.h>
#include <arrow/type.h>

#include <algorithm>

namespace saeta::ipc::detail {
namespace {

constexpr std::int64_t small_gap = 4096; // bytes; reading them costs less than another call

/// Number of buffers of the type itself, without children.
std::size_t own_buffers(arrow::Type::type id, bool before_v5) {
  switch (id) {
  case arrow::Type::NA:
  case arrow::Type::RUN_END_ENCODED:
    return 0;
  case arrow::Type::STRUCT:
  case arrow::Type::FIXED_SIZE_LIST:
    return 1;
  case arrow::Type::SPARSE_UNION:
    return before_v5 ? 2 : 1; // before V5 unions had a validity bitmap
  case arrow::Type::DENSE_UNION:
    return before_v5 ? 3 : 2;
  case arrow::Type::STRING:
  case arrow::Type::BINARY:
  case arrow::Type::LARGE_STRING:
  case arrow::Type::LARGE_BINARY:
  case arrow::Type::LIST_VIEW:
  case arrow::Type::LARGE_LIST_VIEW:
    return 3;
  default:
    return 2;
  }
}

} // namespace

message_parts parts_of(const arrow::DataType& type, arrow::ipc::MetadataVersion version) {
  if (const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type)) {
    return parts_of(*extension->storage_type(), version);
  }
  const bool view = type.id() == arrow::Type::STRING_VIEW || type.id() == arrow::Type::BINARY_VIEW;
  message_parts parts{1, own_buffers(type.id(), version < arrow::ipc::MetadataVersion::V5), view ? 1U : 0U};
  for (const auto& child : type.fields()) {
    const message_parts inner = parts_of(*child->type(), version);
    parts.nodes += inner.nodes;
    parts.buffers += inner.buffers;
    parts.variadic += inner.variadic;
  }
  return parts;
}

std::vector<buffer_place> body_ranges(const arrow::Schema& described, arrow::ipc::MetadataVersion version,
                                      const batch_metadata& batch, std::span<const int> columns,
                                      std::int64_t body_bytes) {
  std::vector<buffer_place> taken;
  std::size_t buffer = 0;
  std::size_t variadic = 0;
  for (int i = 0; i < described.num_fields(); ++i) {
    const message_parts parts = parts_of(*described.field(i)->type(), version);
    const bool chosen = columns.empty() || std::ranges::binary_search(columns, i);
    std::size_t count = parts.buffers;
    for (std::size_t v = 0; v < parts.variadic && variadic < batch.variadic_counts.size(); ++v) {
      count += static_cast<std::size_t>(std::max<std::int64_t>(batch.variadic_counts[variadic++], 0));
    }
    for (; count != 0 && buffer < batch.buffers.size(); --count, ++buffer) {
      const buffer_place& place = batch.buffers[buffer];
      const bool inside = place.offset >= 0 && place.length > 0 && place.offset <= body_bytes &&
                          place.length <= body_bytes - place.offset;
      if (chosen && inside) {
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
