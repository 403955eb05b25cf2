// Passes schemas and batches to libarrow, and batches from it, through the Arrow C Data Interface.
//
// Failure   As in interop/arrow/c_data.hpp, and libarrow's own (arrow_status.hpp).
#pragma once

#include "saeta/interop/arrow/c_data.hpp"

#include <arrow/type_fwd.h>

#include <memory>
#include <vector>

namespace saeta::ipc::detail {

std::shared_ptr<arrow::Schema> arrow_schema(const schema& described);
/// The storage type of an extension type; any other type itself.
const arrow::DataType& storage_of(const arrow::DataType& type);

/// Discards null counts other than 0, which a source may state wrongly. A count of 0 is kept: the validity
/// bitmap is then never read.
/// @param count  they are counted now; otherwise when first needed
void forget_null_counts(arrow::ArrayData& data, bool count);

/// @param source  structurally valid (`Validate`).
batch import_record_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                          const arrow::RecordBatch& source, dictionary_cache& dictionaries,
                          const import_options& options);
/// Exports batches [first, first + count) of a table. From a device context this is one download.
std::vector<std::shared_ptr<arrow::RecordBatch>>
export_record_batches(const table& source, std::size_t first, std::size_t count,
                      const std::shared_ptr<arrow::Schema>& described);
std::shared_ptr<arrow::Array> export_array(const column& source);

} // namespace saeta::ipc::detail
