// Columns on their way to host memory.
#pragma once

#include "saeta/transfer/host_array.hpp"

namespace saeta {

/// Rows of a batch in host memory: one planned transfer into one allocation, only the windows that the rows refer to; on a
/// host context views without a copy.
host_batch download(const std::shared_ptr<context>& home, const batch& source);

} // namespace saeta
