#include "saeta/base/checked.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/host_message.hpp"
#include "saeta/interop/arrow/device.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/memory/device_copy.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/device.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>

#include <vector>

namespace saeta {
namespace {

using data_ptr = std::shared_ptr<arrow::ArrayData>;

/// An array whose first and last offset are read, and the largest valid offset.
struct offset_check {
  const arrow::ArrayData* array;
  std::int64_t limit;
};

bool has_offsets(arrow::Type::type id) {
  return arrow::is_base_binary_like(id) || id == arrow::Type::LIST || id == arrow::Type::LARGE_LIST ||
         id == arrow::Type::MAP;
}

class repair {
public:
  repair(std::shared_ptr<context> ctx, const std::shared_ptr<arrow::Buffer>& body)
      : ctx_(std::move(ctx)), body_(body), empty_(arrow::SliceBuffer(body, 0, 0)) {}

  [[nodiscard]] data_ptr placed(const arrow::ArrayData& read) {
    auto data = std::make_shared<arrow::ArrayData>(read);
    for (auto& buffer : data->buffers) { // without rows the only offset has no meaning and is not checked
      if (buffer != nullptr && (buffer->size() == 0 || data->length == 0)) {
        buffer = empty_;
      }
    }
    const arrow::DataType& type = storage_of(*data->type);
    require_sizes(*data, type);
    for (data_ptr& child : data->child_data) {
      child = placed(*child);
    }
    require_children(*data, type);
    if (data->dictionary != nullptr) {
      data->dictionary = on_device(data->dictionary);
    }
    bridge::set_nulls_of_type(*data);
    if (data->null_count == arrow::kUnknownNullCount || states_nulls(*data, type)) {
      data->null_count = count_nulls(*data);
    }
    if (has_offsets(type.id()) && data->length != 0) {
      const bool nested = !data->child_data.empty();
      offsets_.push_back({data.get(), nested ? data->child_data.front()->length : data->buffers[2]->size()});
    }
    return data;
  }

  /// Checks the first and the last offset of every array with offsets, with one read.
  void check_offsets() {
    std::vector<value_request> requests;
    for (const offset_check& offset : offsets_) {
      const int width = offset_width(*offset.array);
      const std::uintptr_t first = offset.array->buffers[1]->address();
      const auto last =
          first + static_cast<std::uintptr_t>(offset.array->length) * static_cast<unsigned>(width);
      requests.push_back({.at = reinterpret_cast<const void*>(first), .width = width});
      requests.push_back({.at = reinterpret_cast<const void*>(last), .width = width});
    }
    const buffer bytes = bytes_of(ctx_, body_);
    use_token in_order(ctx_->work_stream(), {reads(bytes)});
    const std::vector<std::int64_t> values = read_values(ctx_, requests);
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (values[2 * i] < 0 || values[2 * i] > values[2 * i + 1] || values[2 * i + 1] > offsets_[i].limit) {
        throw error(errc::format,
                    concat("record batch message: offsets of ", offsets_[i].array->type->ToString(),
                           " run from ", values[2 * i], " to ", values[2 * i + 1],
                           ", expected to rise from 0 to at most ", offsets_[i].limit));
      }
    }
  }

private:
  static const arrow::DataType& storage_of(const arrow::DataType& type) {
    return type.id() == arrow::Type::EXTENSION
               ? *static_cast<const arrow::ExtensionType&>(type).storage_type()
               : type;
  }
  static int offset_width(const arrow::ArrayData& of) {
    return static_cast<int>(storage_of(*of.type).layout().buffers[1].byte_width);
  }

  /// Whether the message states a null count above 0 for an array with a bitmap. The count may be wrong, so
  /// it is computed again. A stated 0 is trusted, as in a file.
  static bool states_nulls(const arrow::ArrayData& of, const arrow::DataType& type) {
    const arrow::DataTypeLayout layout = type.layout();
    const bool may_have =
        !layout.buffers.empty() && layout.buffers.front().kind == arrow::DataTypeLayout::BITMAP;
    return may_have && of.null_count > 0;
  }

  static void require(std::int64_t there, std::int64_t needed, const arrow::ArrayData& of,
                      std::string_view what) {
    if (there < needed) {
      throw error(errc::format, concat("record batch message: ", of.type->ToString(), " of ", of.length,
                                       " rows needs ", needed, ' ', what, ", found ", there));
    }
  }

  static void require_sizes(const arrow::ArrayData& of, const arrow::DataType& type) {
    const arrow::DataTypeLayout layout = type.layout();
    require(static_cast<std::int64_t>(of.buffers.size()), static_cast<std::int64_t>(layout.buffers.size()),
            of, "buffers");
    for (std::size_t i = 0; i < layout.buffers.size() && of.length != 0; ++i) {
      const auto& spec = layout.buffers[i];
      std::int64_t needed = 0;
      if (spec.kind == arrow::DataTypeLayout::BITMAP) {
        needed = of.length / 8 + (of.length % 8 != 0 ? 1 : 0);
      } else if (spec.kind == arrow::DataTypeLayout::FIXED_WIDTH) {
        const std::int64_t values = checked_add<std::int64_t>(
            of.length, has_offsets(type.id()) && i == 1 ? 1 : 0, "offsets of a message");
        needed = checked_mul(values, spec.byte_width, "bytes of a message's buffer");
      }
      const bool absent = of.buffers[i] == nullptr;
      const bool validity = i == 0 && spec.kind == arrow::DataTypeLayout::BITMAP;
      if (spec.kind != arrow::DataTypeLayout::ALWAYS_NULL && !(validity && absent)) {
        require(absent ? 0 : of.buffers[i]->size(), needed, of, concat("bytes in buffer ", i));
      }
    }
  }

  static void require_children(const arrow::ArrayData& of, const arrow::DataType& type) {
    std::int64_t rows = 0;
    if (type.id() == arrow::Type::STRUCT || type.id() == arrow::Type::SPARSE_UNION) {
      rows = of.length;
    } else if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
      rows =
          checked_mul<std::int64_t>(of.length, static_cast<const arrow::FixedSizeListType&>(type).list_size(),
                                    "values of a message's lists");
    }
    for (const data_ptr& child : of.child_data) {
      require(child->length, rows, of, "rows in a child");
    }
  }

  /// A dictionary of the memo, copied to the device if it is in host memory.
  [[nodiscard]] data_ptr on_device(const data_ptr& dictionary) const {
    const auto& to = body_->memory_manager(); // a batch is in memory of one kind
    return bridge::take(arrow::MakeArray(dictionary)->ViewOrCopyTo(to), "dictionary of a message")->data();
  }

  [[nodiscard]] std::int64_t count_nulls(const arrow::ArrayData& of) const {
    if (of.buffers.empty() || of.buffers.front() == nullptr || of.length == 0) {
      return 0;
    }
    const buffer validity = bytes_of(ctx_, of.buffers.front());
    return kernel_results(ctx_, 1, validity,
                          [&](const use_token& token, std::int64_t* counted) {
                            ctx_->kernels().count_nulls(token.stream().native_handle(),
                                                        token.span<const std::uint8_t>(validity).data(), 0,
                                                        of.length, counted);
                          })
        .front();
  }

  const std::shared_ptr<context> ctx_;
  const std::shared_ptr<arrow::Buffer> body_;
  const std::shared_ptr<arrow::Buffer> empty_;
  std::vector<offset_check> offsets_;
};

/// Checks each value that refers to other data, by an import of the batch. Types that a column can't have are
/// not checked.
void check_values(const std::shared_ptr<context>& ctx, const arrow::RecordBatch& batch) {
  arrow_device_array array;
  arrow_schema described;
  bridge::check(arrow::ExportDeviceRecordBatch(batch, nullptr, array.out(), described.out()),
                "record batch message");
  dictionary_cache dictionaries;
  try {
    const schema fields = import_schema(described.get());
    import_options every_row;
    every_row.scope = check_scope::every_row;
    static_cast<void>(import_device_batch(ctx, fields, array.get(), dictionaries, every_row));
  } catch (const error& failure) {
    if (failure.code() != errc::unsupported) {
      throw;
    }
  }
}

} // namespace

std::shared_ptr<arrow::RecordBatch> device_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::RecordBatch& read,
                                                 const std::shared_ptr<arrow::Buffer>& body) {
  repair on_device(ctx, body);
  std::vector<data_ptr> columns;
  for (const data_ptr& column : read.column_data()) {
    if (column->length != read.num_rows()) {
      throw error(errc::format, concat("record batch message: a column has ", column->length,
                                       " rows, the batch has ", read.num_rows()));
    }
    columns.push_back(on_device.placed(*column));
  }
  on_device.check_offsets();
  auto result =
      arrow::RecordBatch::Make(read.schema(), read.num_rows(), std::move(columns), body->device_type());
  check_values(ctx, *result);
  return result;
}

} // namespace saeta
