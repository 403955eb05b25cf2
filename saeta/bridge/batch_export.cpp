#include "saeta/bridge/detail/batch_export.hpp"

#include "saeta/interop/arrow_owned.hpp"
#include "saeta/ipc/arrow_status.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/chunked_array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace saeta {
namespace {

/// Types whose arrays are their buffers and nothing else.
bool is_flat(arrow::Type::type id) {
  return arrow::is_primitive(id) || arrow::is_fixed_size_binary(id) || arrow::is_base_binary_like(id);
}

/// Release of a struct that lies in a `struct_list`: its memory goes with the list.
template <class Struct>
void mark_released(Struct* of) noexcept {
  of->release = nullptr;
}

/// The structs of all columns, and the array of pointers to them that the standard wants.
template <class Struct>
class struct_list {
public:
  explicit struct_list(std::size_t count) : structs_(count), pointers_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      pointers_[i] = &structs_[i];
    }
  }
  struct_list(const struct_list&) = delete;
  struct_list& operator=(const struct_list&) = delete;
  /// Structs that libarrow filled give their own memory back.
  ~struct_list() {
    for (Struct& each : structs_) {
      if (each.release != nullptr) {
        each.release(&each);
      }
    }
  }

  [[nodiscard]] Struct& operator[](std::size_t index) noexcept { return structs_[index]; }
  [[nodiscard]] Struct** pointers() noexcept { return pointers_.data(); }

private:
  std::vector<Struct> structs_;
  std::vector<Struct*> pointers_;
};

/// Private data of an exported schema.
struct exported_fields {
  explicit exported_fields(std::shared_ptr<arrow::Schema> of)
      : source(std::move(of)), fields(static_cast<std::size_t>(source->num_fields())) {}

  /// Format of a type. Fields of one type mostly name the same object.
  const char* format_of(const arrow::DataType& type) {
    if (&type != last_type) {
      owned_schema& known = formats[&type];
      if (known.empty()) {
        ipc::check(arrow::ExportType(type, known.out()), "schema");
      }
      last_type = &type;
      last_format = known.get().format;
    }
    return last_format;
  }

  const std::shared_ptr<arrow::Schema> source; ///< has the names
  std::unordered_map<const arrow::DataType*, owned_schema> formats;
  const arrow::DataType* last_type = nullptr;
  const char* last_format = nullptr;
  owned_schema head; ///< the same schema without fields: its metadata
  struct_list<ArrowSchema> fields;
};

/// Private data of an exported batch.
struct exported_columns {
  exported_columns(std::shared_ptr<const void> of, std::size_t count)
      : source(std::move(of)), columns(count) {}

  const std::shared_ptr<const void> source; ///< has the bytes
  std::vector<const void*> buffers;         ///< of the flat columns, one after the other
  const void* no_validity = nullptr;
  struct_list<ArrowArray> columns;
};

template <class Exported, class Struct>
void release(Struct* of) noexcept {
  of->release = nullptr;
  delete static_cast<Exported*>(of->private_data);
}

void describe(const arrow::Field& source, exported_fields& of, ArrowSchema& target) {
  if (!is_flat(source.type()->id()) || source.HasMetadata()) {
    ipc::check(arrow::ExportField(source, &target), "schema");
    return;
  }
  target.format = of.format_of(*source.type());
  target.name = source.name().c_str();
  target.flags = source.nullable() ? ARROW_FLAG_NULLABLE : 0;
  target.release = mark_released<ArrowSchema>;
}

/// @param buffers  room for the addresses of its buffers. Returns the end of what it takes.
const void** show(const arrow::ArrayData& source, const void** buffers, ArrowArray& target) {
  target.length = source.length;
  target.null_count = source.GetNullCount();
  target.offset = source.offset;
  target.n_buffers = static_cast<std::int64_t>(source.buffers.size());
  target.buffers = buffers;
  for (const std::shared_ptr<arrow::Buffer>& each : source.buffers) {
    *buffers++ = each == nullptr ? nullptr : each->data();
  }
  target.release = mark_released<ArrowArray>;
  return buffers;
}

const auto& columns_of(const arrow::RecordBatch& rows) { return rows.column_data(); }
const auto& columns_of(const arrow::Table& rows) { return rows.columns(); }
const arrow::ArrayData* data_of(const arrow::ArrayData& column) { return &column; }
const arrow::ArrayData* data_of(const arrow::ChunkedArray& column) {
  return column.chunks().front()->data().get();
}
/// The data of all columns. A loop that does no more lets the processor follow the pointers of many columns at once.
template <class Columns>
std::vector<const arrow::ArrayData*> data_of_all(const Columns& columns) {
  std::vector<const arrow::ArrayData*> found;
  found.reserve(columns.size());
  for (const auto& each : columns) {
    found.push_back(data_of(*each));
  }
  return found;
}
std::shared_ptr<arrow::Array> array_of(const arrow::RecordBatch& rows, std::size_t column) {
  return rows.column(static_cast<int>(column));
}
std::shared_ptr<arrow::Array> array_of(const arrow::Table& rows, std::size_t column) {
  return rows.columns()[column]->chunks().front();
}

template <class Rows>
bool export_rows(const std::shared_ptr<Rows>& source, ArrowArray& target) {
  const std::vector<const arrow::ArrayData*> data = data_of_all(columns_of(*source));
  const std::size_t count = data.size();
  auto made = std::make_unique<exported_columns>(source, count);
  constexpr std::size_t most = 3; // buffers of a flat column
  made->buffers.resize(most * count);
  const void** buffers = made->buffers.data();
  for (std::size_t i = 0; i < count; ++i) {
    const arrow::ArrayData& column = *data[i];
    if (!on_cpu(column)) { // here, where its buffers are looked at anyway
      return false;
    }
    if (is_flat(column.type->id()) && column.buffers.size() <= most) {
      buffers = show(column, buffers, made->columns[i]);
    } else {
      ipc::check(arrow::ExportArray(*array_of(*source, i), &made->columns[i]), "column");
    }
  }
  target = {};
  target.length = source->num_rows();
  target.n_buffers = 1;
  target.buffers = &made->no_validity;
  target.n_children = source->num_columns();
  target.children = made->columns.pointers();
  target.release = release<exported_columns, ArrowArray>;
  target.private_data = made.release();
  return true;
}

} // namespace

void export_fields(std::shared_ptr<arrow::Schema> source, ArrowSchema& target) {
  auto made = std::make_unique<exported_fields>(std::move(source));
  const arrow::Schema& from = *made->source;
  ipc::check(arrow::ExportSchema(*arrow::schema({}, from.metadata()), made->head.out()), "schema");
  const arrow::FieldVector& fields = from.fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    describe(*fields[i], *made, made->fields[i]);
  }
  const ArrowSchema& head = made->head.get();
  target = {};
  target.format = head.format;
  target.name = head.name;
  target.metadata = head.metadata;
  target.flags = head.flags;
  target.n_children = from.num_fields();
  target.children = made->fields.pointers();
  target.release = release<exported_fields, ArrowSchema>;
  target.private_data = made.release();
}

bool on_cpu(const arrow::ArrayData& of) {
  const auto there = [](const std::shared_ptr<arrow::Buffer>& each) {
    return each == nullptr || each->device_type() == arrow::DeviceAllocationType::kCPU;
  };
  return std::ranges::all_of(of.buffers, there) &&
         std::ranges::all_of(of.child_data, [](const auto& child) { return on_cpu(*child); }) &&
         (of.dictionary == nullptr || on_cpu(*of.dictionary));
}

bool export_columns(const std::shared_ptr<arrow::RecordBatch>& source, ArrowArray& target) {
  return export_rows(source, target);
}

bool export_columns(const std::shared_ptr<arrow::Table>& source, ArrowArray& target) {
  return export_rows(source, target);
}

} // namespace saeta
