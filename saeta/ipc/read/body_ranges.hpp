// The byte ranges of a record batch's body that belong to some of its columns.
#pragma once

#include "saeta/ipc/format/column_tree.hpp"
#include "saeta/ipc/format/message_layout.hpp"

#include <vector>

namespace saeta::ipc::detail {

/// Returns the ranges of the columns, ascending. Adjacent ranges and ranges with small gaps are joined.
/// @param batch  has the entries that the tree needs.
std::vector<buffer_place> body_ranges(const batch_layout& batch, const column_tree& tree);

} // namespace saeta::ipc::detail
