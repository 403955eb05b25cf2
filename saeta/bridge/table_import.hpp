// Tables of libarrow in host memory as tables of ours, cheap for tables of many columns.
//
// What      The same table as an import of libarrow's own C stream (interop/arrow/c_data.hpp). libarrow's exporter makes about ten
//           objects a column. Here columns of fixed width, strings and binaries are read from libarrow's arrays; libarrow exports all
//           others one by one.
// Owner     Columns that are not copied keep the batch that they come from.
// Thread    Any.
// Failure   As imports of arrow_c.hpp, and libarrow's errors for types that it can't export.
#pragma once

#include "saeta/interop/arrow/c_data.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace saeta {

/// True if all memory of the source is the CPU's. Other sources can't be imported here.
bool on_cpu(const arrow::Table& of);
bool on_cpu(const arrow::RecordBatch& of);

/// The batches of a table, cut where a column begins a new chunk.
table import_table(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::Table>& source,
                   const import_options& options);

/// A table of one batch, also of a batch without rows.
table import_table(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::RecordBatch>& source,
                   const import_options& options);

} // namespace saeta
