#include "saeta/bridge/table_import.hpp"

#include "saeta/base/interrupt.hpp"
#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/interop/arrow/rows.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/chunked_array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace saeta {
namespace {

/// True for types whose arrays have buffers only.
bool is_flat(arrow::Type::type id) {
  return arrow::is_primitive(id) || arrow::is_fixed_size_binary(id) || arrow::is_base_binary_like(id);
}

/// True for a field that its name, its type and its nullability describe completely. All other fields, and
/// those that the import refuses, are read from a C struct.
bool is_plain(const arrow::Field& of) {
  return is_flat(of.type()->id()) && !of.HasMetadata() && is_utf8(of.name()) &&
         of.name().find('\0') == std::string::npos;
}

class field_reader {
public:
  field one(const arrow::Field& source) {
    if (!is_plain(source)) {
      return to_field(source);
    }
    if (source.type().get() != last_) { // fields of one type mostly share the object
      const auto known = types_.find(source.type().get());
      type_ = known != types_.end()
                  ? known->second
                  : types_.emplace(source.type().get(), to_field(source).type).first->second;
      last_ = source.type().get();
    }
    return {source.name(), type_, source.nullable(), {}};
  }

private:
  static field to_field(const arrow::Field& source) {
    arrow_schema schema;
    bridge::check(arrow::ExportField(source, schema.out()), "schema");
    return import_field(schema.get());
  }

  std::unordered_map<const arrow::DataType*, data_type> types_; ///< of plain fields
  const arrow::DataType* last_ = nullptr;
  data_type type_; ///< of `last_`
};

schema fields_of(const arrow::Schema& source) {
  arrow_schema without_fields;
  bridge::check(arrow::ExportSchema(*arrow::schema({}, source.metadata()), without_fields.out()), "schema");
  schema schema = import_schema(without_fields.get());
  schema.fields.reserve(source.fields().size());
  field_reader reader;
  for (const std::shared_ptr<arrow::Field>& field : source.fields()) {
    schema.fields.push_back(reader.one(*field));
  }
  return schema;
}

const auto& columns_of(const arrow::RecordBatch& rows) { return rows.column_data(); }
const auto& columns_of(const arrow::Table& rows) { return rows.columns(); }
const arrow::ArrayData* data_of(const arrow::ArrayData& column) { return &column; }
const arrow::ArrayData* data_of(const arrow::ChunkedArray& column) {
  return column.chunks().front()->data().get();
}
/// The data of all columns. The loop does nothing else, so the CPU can load the pointers of many columns at
/// once.
template <class Columns>
std::vector<const arrow::ArrayData*> data_of_all(const Columns& columns) {
  std::vector<const arrow::ArrayData*> arrays;
  arrays.reserve(columns.size());
  for (const auto& column : columns) {
    arrays.push_back(data_of(*column));
  }
  return arrays;
}
std::shared_ptr<arrow::Array> array_of(const arrow::RecordBatch& rows, std::size_t column) {
  return rows.column(static_cast<int>(column));
}
std::shared_ptr<arrow::Array> array_of(const arrow::Table& rows, std::size_t column) {
  return rows.columns()[column]->chunks().front();
}

/// Keeps the memory of a batch.
struct kept_rows {
  std::shared_ptr<const void> source;
  std::vector<arrow_array> exported; ///< the columns that libarrow exported
};

constexpr std::size_t most_buffers = 3; ///< of a flat column

/// A flat column as a struct that points to `addresses`.
ArrowArray borrow_array(const arrow::ArrayData& source, std::array<const void*, most_buffers>& addresses) {
  const auto address = [](const std::shared_ptr<arrow::Buffer>& of) -> const void* {
    return of == nullptr ? nullptr : of->data();
  };
  std::ranges::transform(source.buffers, addresses.begin(), address);
  ArrowArray array{};
  array.length = source.length;
  array.null_count = source.GetNullCount();
  array.offset = source.offset;
  array.n_buffers = static_cast<std::int64_t>(source.buffers.size());
  array.buffers = addresses.data();
  array.release = [](ArrowArray*) {}; // a null `release` means that the struct is released
  return array;
}

constexpr std::size_t fixed_view_buffers = 2; ///< validity and views; the buffers of bytes follow

std::span<const std::shared_ptr<arrow::Buffer>> bytes_of_views(const arrow::ArrayData& of) {
  const arrow::Type::type id = of.type->storage_id();
  const bool views = id == arrow::Type::STRING_VIEW || id == arrow::Type::BINARY_VIEW;
  return std::span(of.buffers).subspan(views ? fixed_view_buffers : of.buffers.size());
}

/// Whether an array is one of those that libarrow before 25 makes of short texts, and that it ends the process
/// to export: a buffer of the bytes of its views is null.
bool lacks_bytes(const arrow::ArrayData& of) {
  return std::ranges::any_of(bytes_of_views(of), [](const auto& bytes) { return bytes == nullptr; }) ||
         std::ranges::any_of(of.child_data, [](const auto& child) { return lacks_bytes(*child); }) ||
         (of.dictionary != nullptr && lacks_bytes(*of.dictionary));
}

/// The same array with empty buffers in place of these.
std::shared_ptr<arrow::ArrayData> with_bytes(const arrow::ArrayData& of) {
  std::shared_ptr<arrow::ArrayData> result = of.Copy();
  const std::size_t first = of.buffers.size() - bytes_of_views(of).size();
  std::replace(result->buffers.begin() + static_cast<std::ptrdiff_t>(first), result->buffers.end(),
               std::shared_ptr<arrow::Buffer>(), std::make_shared<arrow::Buffer>(nullptr, 0));
  for (std::shared_ptr<arrow::ArrayData>& child : result->child_data) {
    child = with_bytes(*child);
  }
  result->dictionary = of.dictionary == nullptr ? nullptr : with_bytes(*of.dictionary);
  return result;
}

template <class Rows>
void add_batch(const std::shared_ptr<Rows>& source, arrow_rows& to) {
  const std::vector<const arrow::ArrayData*> data = data_of_all(columns_of(*source));
  const auto kept = std::make_shared<kept_rows>(kept_rows{source, {}});
  to.begin(source->num_rows());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const arrow::ArrayData& column = *data[i];
    if (is_flat(column.type->id()) && column.buffers.size() <= most_buffers) {
      std::array<const void*, most_buffers> addresses{};
      to.add(borrow_array(column, addresses));
    } else {
      arrow_array& array = kept->exported.emplace_back();
      const auto exported = lacks_bytes(column) ? arrow::MakeArray(with_bytes(column)) : array_of(*source, i);
      bridge::check(arrow::ExportArray(*exported, array.out()), "column");
      to.add(array.get());
    }
  }
  to.end(kept);
}

} // namespace

bool on_cpu(const arrow::ArrayData& of) {
  const auto there = [](const std::shared_ptr<arrow::Buffer>& each) {
    return each == nullptr || each->device_type() == arrow::DeviceAllocationType::kCPU;
  };
  return std::ranges::all_of(of.buffers, there) &&
         std::ranges::all_of(of.child_data, [](const auto& child) { return on_cpu(*child); }) &&
         (of.dictionary == nullptr || on_cpu(*of.dictionary));
}

bool on_cpu(const arrow::Table& of) {
  return std::ranges::all_of(of.columns(), [](const auto& column) {
    return std::ranges::all_of(column->chunks(), [](const auto& chunk) { return on_cpu(*chunk->data()); });
  });
}

bool on_cpu(const arrow::RecordBatch& of) {
  return std::ranges::all_of(of.column_data(), [](const auto& column) { return on_cpu(*column); });
}

table import_table(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::Table>& source,
                   const import_options& options) {
  require_argument(ctx, "ctx");
  require_argument(source, "source");
  arrow_rows rows(ctx, fields_of(*source->schema()), options);
  const auto one_chunk = [](const auto& column) { return column->num_chunks() == 1; };
  if (source->num_rows() != 0 && std::ranges::all_of(source->columns(), one_chunk)) {
    add_batch(source, rows);
    return rows.finish();
  }
  arrow::TableBatchReader batches(source);
  for (;;) {
    std::shared_ptr<arrow::RecordBatch> next;
    bridge::check(batches.ReadNext(&next), "table");
    if (next == nullptr) {
      return rows.finish();
    }
    check_interrupt();
    add_batch(next, rows);
  }
}

table import_table(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::RecordBatch>& source,
                   const import_options& options) {
  require_argument(ctx, "ctx");
  require_argument(source, "source");
  arrow_rows rows(ctx, fields_of(*source->schema()), options);
  add_batch(source, rows);
  return rows.finish();
}

} // namespace saeta
