#include "saeta/ipc/format/arrow_bridge.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/array.h>
#include <arrow/c/bridge.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

namespace saeta::ipc::detail {

std::shared_ptr<arrow::Schema> arrow_schema(const schema& described) {
  owned_schema exported;
  export_schema(described, exported.get());
  return take(arrow::ImportSchema(&exported.get()), "schema");
}

const arrow::DataType& storage_of(const arrow::DataType& type) {
  const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type);
  return extension == nullptr ? type : *extension->storage_type();
}

void forget_null_counts(arrow::ArrayData& data, bool count) {
  if (!data.buffers.empty() && data.buffers[0] != nullptr && data.null_count > 0) {
    data.null_count = arrow::kUnknownNullCount;
    if (count) {
      static_cast<void>(data.GetNullCount());
    }
  }
  for (const auto& child : data.child_data) {
    forget_null_counts(*child, count);
  }
  if (data.dictionary != nullptr) {
    forget_null_counts(*data.dictionary, count);
  }
}

batch import_record_batch(const std::shared_ptr<context>& ctx, const schema& fields,
                          const arrow::RecordBatch& source, dictionary_cache& dictionaries,
                          const import_options& options) {
  owned_array exported;
  check(arrow::ExportRecordBatch(source, exported.out()), "contents");
  return import_batch(ctx, fields, exported.get(), dictionaries, options);
}

std::vector<std::shared_ptr<arrow::RecordBatch>>
export_record_batches(const table& source, std::size_t first, std::size_t count,
                      const std::shared_ptr<arrow::Schema>& described) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> made;
  for (owned_array& each : export_batches(source, first, count)) {
    made.push_back(
        take(arrow::ImportRecordBatch(&each.get(), described), concat("batch ", first + made.size())));
  }
  return made;
}

std::shared_ptr<arrow::Array> export_array(const column& source) {
  owned_schema described;
  export_field({"", source.type(), true, {}}, described.get());
  owned_array exported;
  export_column(source, exported.get());
  return take(arrow::ImportArray(&exported.get(), &described.get()), source.type().name());
}

} // namespace saeta::ipc::detail
