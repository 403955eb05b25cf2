// Which bytes of a record batch's body some of its columns take.
#pragma once

#include "saeta/ipc/format/message_metadata.hpp"

#include <arrow/ipc/type_fwd.h>
#include <arrow/type_fwd.h>

#include <cstddef>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// Field nodes, buffers and lists of buffers behind views that a column takes in a batch; a dictionary's values lie in messages
/// of their own.
struct message_parts {
  std::size_t nodes = 0;
  std::size_t buffers = 0; ///< without those behind views
  std::size_t variadic = 0;
};
message_parts parts_of(const arrow::DataType& type, arrow::ipc::MetadataVersion version);

/// The ranges of these columns, ascending, neighbours and small gaps joined. Those that lie outside the body are left out: libarrow
/// refuses them.
/// @param columns  numbers, ascending; empty: all.
std::vector<buffer_place> body_ranges(const arrow::Schema& described, arrow::ipc::MetadataVersion version,
                                      const batch_metadata& batch, std::span<const int> columns,
                                      std::int64_t body_bytes);

} // namespace saeta::ipc::detail
