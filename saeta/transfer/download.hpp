// Columns on their way to host memory.
#pragma once

#include "saeta/transfer/host_array.hpp"

namespace saeta {

/// Rows of a batch in host memory: one planned transfer into one allocation, only the windows that the rows refer to; on a
/// host context views without a copy. Of columns of views that are cut to less than half, the views take a transfer before, which
/// says what the bytes are; dictionaries, and the children of unions, list views and run-end encoded columns, come as a whole.
host_batch download(const std::shared_ptr<context>& home, const batch& source);

/// True where the CPU can read every buffer of the columns: on the host, and where all of them are page-locked or managed.
[[nodiscard]] bool host_accessible(const batch& source);
/// The memory of such a batch itself. Whoever follows the pointers waits for the work on it first.
[[nodiscard]] host_batch view_in_place(const batch& source);

} // namespace saeta
