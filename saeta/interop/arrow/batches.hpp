// Several batches of a table as Arrow C arrays at once.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// Batches [first, first + count), each as `export_batch` makes it (arrow_c.hpp): from a device one planned transfer into one
/// allocation, which lives until the last of them is released. @throws error out_of_range.
std::vector<owned_array> export_batches(const table& source, std::size_t first, std::size_t count);

/// Rows whose bytes have not been brought to the host: the buffers are addresses of `bytes`, which the array keeps.
struct streamed_rows {
  owned_array array;
  std::shared_ptr<const column_stream> bytes;
};

/// A struct array of columns of a device that `column_stream` takes, as `export_batch` has them in other respects.
streamed_rows export_streamed(const std::shared_ptr<context>& ctx, const batch& source,
                              std::size_t window_bytes);

} // namespace saeta
