// Downloads columns to host memory.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/transfer/host_array.hpp"

#include <memory>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Downloads the rows of batches: one planned transfer into one allocation, which lives as long as one of the
/// batches. Only the windows that the rows refer to are transferred. On a host context the result views the
/// columns without a copy. The positions where slices begin and end in their bytes or children are read
/// first, for all slices at once. If a column of views is cut to at most half, its views are transferred
/// first, to find the bytes they refer to. Dictionaries, and the children of unions, list views and run-end
/// encoded columns, come as a whole.
[[nodiscard]] std::vector<host_batch> download(const std::shared_ptr<context>& ctx,
                                               std::span<const batch> sources);
[[nodiscard]] host_batch download(const std::shared_ptr<context>& ctx, const batch& source);

/// Returns the end of a window of batches that begins with batch `first`. The window takes all batches that
/// fit into about `bytes` (`column::byte_size`), and at least one.
[[nodiscard]] std::size_t end_of_window(std::span<const batch> batches, std::size_t first,
                                        std::uint64_t bytes);

/// True if the CPU can read every buffer of the columns: on the host, or if all are page-locked or managed.
[[nodiscard]] bool host_accessible(const batch& source);
/// Views the memory of such a batch. A reader must first wait for the work on it.
[[nodiscard]] host_batch view_in_place(const batch& source);

} // namespace saeta
