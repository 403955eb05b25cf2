// Schemas and batches of libarrow as C structs that lie together, as table_stream.hpp gives them.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

extern "C" {
struct ArrowSchema;
struct ArrowArray;
}

namespace saeta {

/// @throws error of libarrow's, for a type that it can't export.
void export_fields(std::shared_ptr<arrow::Schema> source, ArrowSchema& target);
/// Whether all of its memory is the CPU's.
bool on_cpu(const arrow::ArrayData& of);
/// False where some memory is not the CPU's: the target stays as it is.
bool export_columns(const std::shared_ptr<arrow::RecordBatch>& source, ArrowArray& target);
/// The same of a table whose columns have one chunk each.
bool export_columns(const std::shared_ptr<arrow::Table>& source, ArrowArray& target);

} // namespace saeta
