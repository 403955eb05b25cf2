// Columns on their way to host memory.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// Rows of batches in host memory: one planned transfer into one allocation, which lives as long as one of the batches, only the
/// windows that the rows refer to; on a host context views without a copy. Where slices begin and end in their bytes or children
/// is read before, for all of them at once. Of columns of views that are cut to less than half, the views take a transfer before, which
/// says what the bytes are; dictionaries, and the children of unions, list views and run-end encoded columns, come as a whole.
std::vector<host_batch> download(const std::shared_ptr<context>& ctx, std::span<const batch> sources);
host_batch download(const std::shared_ptr<context>& ctx, const batch& source);

/// Where a window of batches ends that begins with batch `first` and has about `bytes` (`column::byte_size`): all of them that fit, at
/// least one.
[[nodiscard]] std::size_t end_of_window(std::span<const batch> batches, std::size_t first,
                                        std::uint64_t bytes);

/// True where the CPU can read every buffer of the columns: on the host, and where all of them are page-locked or managed.
[[nodiscard]] bool host_accessible(const batch& source);
/// The memory of such a batch itself. Whoever follows the pointers waits for the work on it first.
[[nodiscard]] host_batch view_in_place(const batch& source);

} // namespace saeta
