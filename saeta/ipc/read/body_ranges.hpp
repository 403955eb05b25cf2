// The byte ranges of a record batch's body that belong to some of its columns.
#pragma once

#include "saeta/column/schema.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace saeta::ipc::detail {

/// Numbers of field nodes, buffers and variadic buffer counts that a column has in a batch. The values of a
/// dictionary are in other messages and not counted.
struct message_parts {
  std::size_t nodes = 0;
  std::size_t buffers = 0; ///< without variadic buffers
  std::size_t variadic = 0;
};
/// @param version  of the message's metadata
message_parts parts_of(const data_type& type, std::int16_t version);

/// Returns the ranges of these columns, ascending. Adjacent ranges and ranges with small gaps are joined.
/// @param columns  indices, ascending; empty: all.
std::vector<buffer_place> body_ranges(const schema& described, const batch_layout& batch,
                                      std::span<const int> columns);

} // namespace saeta::ipc::detail
