// Rows and bytes of record batches, from the metadata of their messages alone.
//
// Failure   error format with the batch; io; unsupported if a plan can't take a message.
#pragma once

#include "saeta/ipc/data_set.hpp"
#include "saeta/ipc/read/planned_source.hpp"

#include <vector>

namespace saeta::ipc::detail {

/// Returns the sizes of all batches.
std::vector<batch_size> sizes_of(const planned_source& from);

} // namespace saeta::ipc::detail
