#include "saeta/ipc/detail/arrow_bridge.hpp"

#include "saeta/base/text.hpp"
#include "saeta/ipc/detail/arrow_status.hpp"

#include <arrow/array.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

namespace saeta::ipc::detail {
namespace {

/// @throws error unsupported where a context can't hold the field.
void require_carried(const arrow::Field& described) {
  if (described.name().find('\0') != std::string::npos) {
    throw error(errc::unsupported,
                concat("column '", described.name().c_str(),
                       "...': a name with a zero byte can't pass the Arrow C Data Interface"));
  }
  c_struct<ArrowSchema> exported;
  check(arrow::ExportField(described, exported.get()), described.name());
  import_field(*exported);
}

} // namespace

bool carried(const arrow::Field& described) {
  try {
    require_carried(described);
    return true;
  } catch (const error& failure) {
    if (failure.code() != errc::unsupported) {
      throw;
    }
    return false;
  }
}

schema schema_of(const arrow::Schema& described, std::string_view where) {
  for (const auto& column : described.fields()) {
    if (!carried(*column)) {
      throw error(errc::unsupported, concat(where, ": column '", column->name().c_str(), "' of type ",
                                            column->type()->ToString(), " is not carried (yet)"));
    }
  }
  try {
    c_struct<ArrowSchema> exported;
    check(arrow::ExportSchema(described, exported.get()), "schema");
    return import_schema(*exported);
  } catch (const error& failure) {
    rethrow(failure, where);
  }
}

std::shared_ptr<arrow::Schema> arrow_schema(const schema& described) {
  c_struct<ArrowSchema> exported;
  export_schema(described, *exported);
  return take(arrow::ImportSchema(exported.get()), "schema");
}

batch import_record_batch(const std::shared_ptr<context>& where, const schema& fields,
                          const arrow::RecordBatch& source, dictionary_cache& dictionaries,
                          const import_options& options) {
  c_struct<ArrowArray> exported;
  check(arrow::ExportRecordBatch(source, exported.get()), "contents");
  return import_batch(where, fields, *exported, dictionaries, options);
}

std::shared_ptr<arrow::RecordBatch> export_record_batch(const table& source, std::size_t index,
                                                        const std::shared_ptr<arrow::Schema>& described) {
  c_struct<ArrowArray> exported;
  export_batch(source, index, *exported);
  return take(arrow::ImportRecordBatch(exported.get(), described), concat("batch ", index));
}

std::shared_ptr<arrow::Array> export_array(const column& source) {
  c_struct<ArrowSchema> described;
  export_field({"", source.type(), true, {}}, *described);
  c_struct<ArrowArray> exported;
  export_column(source, *exported);
  return take(arrow::ImportArray(exported.get(), described.get()), source.type().name());
}

} // namespace saeta::ipc::detail
