// Imports tables of libarrow in host memory, at a low cost per column.
//
// What      Gives the same table as an import of libarrow's own C stream (interop/arrow/c_data.hpp).
//           libarrow's exporter makes about ten objects per column. Here columns of fixed width, strings and
//           binaries are read directly from libarrow's arrays. libarrow exports all other columns one by one.
// Owner     Columns that are not copied keep the batch that they come from.
// Thread    Any.
// Failure   As for the imports of c_data.hpp, and libarrow's errors for types that it can't export.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/interop/arrow/c_data.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace SAETA_EXPORT saeta {

/// True if all memory of the source is the CPU's. Other sources can't be imported here.
bool on_cpu(const arrow::ArrayData& of);
bool on_cpu(const arrow::Table& of);
bool on_cpu(const arrow::RecordBatch& of);

/// Imports a table. A new batch begins wherever a column begins a new chunk.
[[nodiscard]] table import_table(const std::shared_ptr<context>& ctx,
                                 const std::shared_ptr<arrow::Table>& source, const import_options& options);

/// Imports a batch as a table of one batch, also if it has no rows.
[[nodiscard]] table import_table(const std::shared_ptr<context>& ctx,
                                 const std::shared_ptr<arrow::RecordBatch>& source,
                                 const import_options& options);

} // namespace saeta
