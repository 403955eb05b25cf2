#include "saeta/ipc/format/arrow_bridge.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/array.h>
#include <arrow/c/bridge.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <optional>
#include <string>

namespace saeta::ipc::detail {
namespace {

/// Returns why a context can't hold columns of this field; nullopt if it can.
std::optional<std::string> obstacle(const arrow::Field& described) {
  if (described.name().find('\0') != std::string::npos) {
    return "has a zero byte in its name, which can't pass the Arrow C Data Interface";
  }
  if (described.type()->ToString().find('\0') != std::string::npos) {
    return "has a zero byte in its type, which can't pass the Arrow C Data Interface";
  }
  try {
    owned_schema exported;
    check(arrow::ExportField(described, exported.out()), described.name());
    import_field(exported.get());
    return std::nullopt;
  } catch (const error& failure) {
    if (failure.code() != errc::unsupported) {
      throw;
    }
    return concat("has type ", described.type()->ToString(), ", which is not supported");
  }
}

} // namespace

bool is_supported(const arrow::Field& described) { return !obstacle(described); }

schema schema_of(const arrow::Schema& described, std::string_view where) {
  try {
    for (const auto& column : described.fields()) {
      if (const auto why = obstacle(*column)) {
        throw error(errc::unsupported, concat("column '", column->name().c_str(), "' ", *why));
      }
    }
    owned_schema exported;
    check(arrow::ExportSchema(described, exported.out()), "schema");
    return import_schema(exported.get());
  } catch (const error& failure) {
    rethrow(failure, where);
  }
}

std::shared_ptr<arrow::Schema> arrow_schema(const schema& described) {
  owned_schema exported;
  export_schema(described, exported.get());
  return take(arrow::ImportSchema(&exported.get()), "schema");
}

const arrow::DataType& storage_of(const arrow::DataType& type) {
  const auto* const extension = dynamic_cast<const arrow::ExtensionType*>(&type);
  return extension == nullptr ? type : *extension->storage_type();
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
