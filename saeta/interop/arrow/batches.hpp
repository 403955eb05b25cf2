// Exports several batches of a table as Arrow C arrays in one call.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

class symbol_names; // symbols/symbol_arrays.hpp

/// Exports batches [first, first + count), each as `export_batch` (c_data.hpp) does. From a device this is
/// one planned transfer into one allocation, which lives until the last array is released.
/// @throws error out_of_range.
[[nodiscard]] std::vector<arrow_array> export_batches(const table& source, std::size_t first,
                                                      std::size_t count);
/// The same. Exports that follow each other share `names`.
[[nodiscard]] std::vector<arrow_array> export_batches(const table& source, std::size_t first,
                                                      std::size_t count, symbol_names& names);
/// Exports columns of one context, each as an array of its own.
[[nodiscard]] std::vector<arrow_array> export_columns(std::span<const column> sources, symbol_names& names);

/// The batches as arrays in host memory, with symbols as numbers. From a device this is one planned transfer
/// into one allocation, which lives until the last `keepalive` is dropped. Memory that the CPU can read is
/// viewed, and later writers wait until it is dropped.
[[nodiscard]] std::vector<host_batch> host_batches(const std::shared_ptr<context>& ctx,
                                                   std::span<const batch> sources);

/// Rows whose bytes are not on the host yet. The buffers of the arrays are addresses of `bytes`, which
/// `rows.keepalive` keeps.
struct streamed_rows {
  host_batch rows;
  std::shared_ptr<const column_stream> bytes;
};

/// Describes columns of a device as streamed rows. `column_stream::supports` must be true for each column.
[[nodiscard]] streamed_rows stream_rows(const std::shared_ptr<context>& ctx, const batch& source,
                                        std::size_t window_bytes);

} // namespace saeta
