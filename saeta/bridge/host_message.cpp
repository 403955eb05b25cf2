#include "saeta/bridge/host_message.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bounded_pool.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/copies.hpp"
#include "saeta/interop/arrow/array.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/interop/arrow/owned.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/memory/context.hpp"
#include "saeta/memory/device_copy.hpp"

#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <cstring>
#include <utility>

namespace saeta {

void count_nulls(const arrow::ArrayData& of) {
  for (const auto& child : of.child_data) {
    count_nulls(*child);
  }
  if (of.dictionary != nullptr) {
    count_nulls(*of.dictionary);
  }
  const bool uncounted = of.null_count.load() == arrow::kUnknownNullCount && !of.buffers.empty() &&
                         of.buffers.front() != nullptr && !of.buffers.front()->is_cpu();
  const auto ctx = uncounted ? context_of(*of.buffers.front()->memory_manager()) : nullptr;
  if (ctx == nullptr) {
    return;
  }
  const buffer validity = bytes_of(ctx, of.buffers.front());
  const auto needed = static_cast<std::uint64_t>(of.offset) + static_cast<std::uint64_t>(of.length);
  if (of.offset < 0 || of.length < 0 || needed > validity.size() * 8) {
    throw error(errc::format, concat("an arrow array of ", of.length, " rows from row ", of.offset,
                                     " does not fit its validity buffer of ", validity.size(), " bytes"));
  }
  of.null_count = kernel_results(ctx, 1, validity, [&](const use_token& token, std::int64_t* counted) {
                    ctx->kernels().count_nulls(token.stream().native_handle(),
                                               token.span<const std::uint8_t>(validity).data(), of.offset,
                                               of.length, counted);
                  }).front();
}

} // namespace saeta

namespace saeta::bridge {
namespace {

bool is_union(const arrow::ArrayData& array) {
  const arrow::Type::type id = array.type->storage_id(); // for extension types too
  return id == arrow::Type::SPARSE_UNION || id == arrow::Type::DENSE_UNION;
}

bool has_union(const arrow::ArrayData& array) {
  if (is_union(array)) {
    return true;
  }
  for (const auto& child : array.child_data) {
    if (has_union(*child)) {
      return true;
    }
  }
  return array.dictionary != nullptr && has_union(*array.dictionary);
}

/// Adds as many zeros as there are bytes. An offset is never larger.
std::shared_ptr<arrow::Buffer> with_slack(const std::shared_ptr<arrow::Buffer>& bytes) {
  if (bytes == nullptr || bytes->size() == 0) {
    return bytes;
  }
  const std::int64_t size = bytes->size();
  std::shared_ptr<arrow::Buffer> copy = take(arrow::AllocateBuffer(2 * size), "room behind a union");
  std::memcpy(copy->mutable_data(), bytes->data(), static_cast<std::size_t>(size));
  std::memset(copy->mutable_data() + size, 0, static_cast<std::size_t>(size));
  return arrow::SliceBuffer(copy, 0, size);
}

/// @param sliced  the offset may come from a parent: the offset of a struct, or the first value of a list.
std::shared_ptr<arrow::ArrayData> with_slack(const std::shared_ptr<arrow::ArrayData>& array, bool sliced) {
  if (!has_union(*array)) {
    return array;
  }
  auto data = std::make_shared<arrow::ArrayData>(*array);
  if (is_union(*array) && (sliced || array->offset != 0)) {
    for (auto& buffer : data->buffers) {
      buffer = with_slack(buffer);
    }
  }
  for (auto& child : data->child_data) {
    child = with_slack(child, true);
  }
  if (data->dictionary != nullptr) {
    data->dictionary = with_slack(data->dictionary, false);
  }
  return data;
}

} // namespace

std::shared_ptr<arrow::RecordBatch> with_union_slack(const std::shared_ptr<arrow::RecordBatch>& source) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  columns.reserve(static_cast<std::size_t>(source->num_columns()));
  bool changed = false;
  for (const auto& column : source->column_data()) {
    columns.push_back(with_slack(column, false));
    changed = changed || columns.back() != column;
  }
  return changed ? arrow::RecordBatch::Make(source->schema(), source->num_rows(), std::move(columns))
                 : source;
}

namespace {

constexpr const char* label = "record batch message";

/// Swaps the values of a batch to this machine's byte order. libarrow does this for files and streams, but
/// not for a single message. Dictionaries come from the caller in this machine's byte order.
std::shared_ptr<arrow::RecordBatch> in_native_order(const arrow::RecordBatch& batch,
                                                    arrow::MemoryPool* pool) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (const auto& column : batch.column_data()) {
    columns.push_back(take(arrow::internal::SwapEndianArrayData(column, pool), label));
  }
  return arrow::RecordBatch::Make(batch.schema()->WithEndianness(arrow::Endianness::Native), batch.num_rows(),
                                  std::move(columns));
}

/// Drops values that libarrow would check although nobody reads them: null counts that follow from a type,
/// and buffers of arrays without rows, whose only offset has no meaning.
void drop_unread(arrow::ArrayData& data) {
  set_nulls_of_type(data);
  for (auto& buffer : data.buffers) {
    if (buffer != nullptr && data.length == 0) {
      buffer = arrow::SliceBuffer(buffer, 0, 0);
    }
  }
  for (const auto& child : data.child_data) {
    drop_unread(*child);
  }
}

/// Counts nulls anew where a source may state them wrongly. A count of 0 is kept: the validity is then never
/// read.
void count_nulls(arrow::ArrayData& data) {
  if (!data.buffers.empty() && data.buffers[0] != nullptr && data.null_count > 0) {
    data.null_count = arrow::kUnknownNullCount;
    static_cast<void>(data.GetNullCount());
  }
  for (const auto& child : data.child_data) {
    count_nulls(*child);
  }
  if (data.dictionary != nullptr) {
    count_nulls(*data.dictionary);
  }
}

/// Checks each value that refers to other data, as those of a file. Types that a column can't have are not
/// checked.
void require_sound_values(const arrow::RecordBatch& batch) {
  arrow_array array;
  arrow_schema described;
  check(arrow::ExportRecordBatch(batch, array.out(), described.out()), label);
  constexpr auto scope = check_scope::every_row;
  try {
    const schema fields = import_schema(described.get());
    check_values(view_batch(fields, array.get(), in_host_memory(), scope).arrays, fields.fields, {},
                 in_host_memory(), scope);
  } catch (const error& failure) {
    if (failure.code() != errc::unsupported) {
      throw;
    }
  }
}

} // namespace

std::vector<std::byte> encode_schema(const arrow::Schema& described) {
  const auto message = take(arrow::ipc::SerializeSchema(described), label);
  constexpr std::size_t prefix_bytes = 2 * sizeof(std::int32_t);
  const std::span<const std::byte> bytes = host_bytes(*message).subspan(prefix_bytes);
  return {bytes.begin(), bytes.end()};
}

std::shared_ptr<arrow::Buffer> encode_batch(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return take(
      arrow::ipc::SerializeRecordBatch(*with_union_slack(batch), arrow::ipc::IpcWriteOptions::Defaults()),
      label);
}

std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries) {
  require_argument(ctx, "ctx");
  require_argument(described, "described");
  try {
    ipc::check_body(encode_schema(*described), host_bytes(*message.metadata()), host_bytes(*message.body()));
  } catch (const error& failure) {
    ipc::rethrow(failure, label);
  }
  const auto pool = bounded_pool::make();
  pool->allocate_for(ctx);
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = pool.get();
  auto batch = take(arrow::ipc::ReadRecordBatch(message, described, &dictionaries, options), label);
  if (!batch->schema()->is_native_endian()) {
    batch = in_native_order(*batch, pool.get());
  }
  for (const auto& column : batch->column_data()) {
    drop_unread(*column);
  }
  check(batch->Validate(), label);
  for (const auto& column : batch->column_data()) {
    count_nulls(*column);
  }
  require_sound_values(*batch);
  pool->charge_to(nullptr);
  return batch;
}

} // namespace saeta::bridge
