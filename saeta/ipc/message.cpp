#include "saeta/ipc/message.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/codec/bounded_pool.hpp"
#include "saeta/ipc/codec/decoded_bound.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/format/message_layout.hpp"
#include "saeta/ipc/write/union_slack.hpp"

#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>
#include <vector>

namespace saeta::ipc {
namespace {

constexpr const char* label = "record batch message";

/// Swaps the values of a batch to this machine's byte order. libarrow does this for files and streams, but
/// not for a single message. Dictionaries come from the caller in this machine's byte order.
std::shared_ptr<arrow::RecordBatch> in_native_order(const arrow::RecordBatch& batch,
                                                    arrow::MemoryPool* pool) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (const auto& each : batch.column_data()) {
    columns.push_back(take(arrow::internal::SwapEndianArrayData(each, pool), label));
  }
  return arrow::RecordBatch::Make(batch.schema()->WithEndianness(arrow::Endianness::Native), batch.num_rows(),
                                  std::move(columns));
}

} // namespace

std::shared_ptr<arrow::Buffer> encode_batch(const std::shared_ptr<arrow::RecordBatch>& batch) {
  require_argument(batch, "batch");
  return take(arrow::ipc::SerializeRecordBatch(*detail::with_union_slack(batch),
                                               arrow::ipc::IpcWriteOptions::Defaults()),
              label);
}

bool check_body(std::span<const std::byte> metadata, std::int64_t body_bytes) {
  try {
    const detail::batch_layout batch = detail::read_layout(metadata);
    if (batch.body_bytes > body_bytes) {
      throw error(errc::format, concat("its body has ", batch.body_bytes, " bytes, found ", body_bytes));
    }
    return batch.codec != detail::body_codec::none;
  } catch (const error& failure) {
    rethrow(failure, label);
  }
}

std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries) {
  require_argument(ctx, "ctx");
  require_argument(described, "described");
  const auto bytes = [](const arrow::Buffer& of) {
    return std::span(reinterpret_cast<const std::byte*>(of.data()), static_cast<std::size_t>(of.size()));
  };
  try {
    detail::require_honest_sizes(detail::read_layout(bytes(*message.metadata())), bytes(*message.body()));
  } catch (const error& failure) {
    rethrow(failure, label);
  }
  const auto pool = detail::bounded_pool::make();
  pool->allocate_for(ctx);
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = pool.get();
  auto batch = take(arrow::ipc::ReadRecordBatch(message, described, &dictionaries, options), label);
  if (!batch->schema()->is_native_endian()) {
    batch = in_native_order(*batch, pool.get());
  }
  check(batch->Validate(), label);
  for (const auto& column : batch->column_data()) {
    detail::forget_null_counts(*column, true);
  }
  pool->charge_to(nullptr);
  return batch;
}

} // namespace saeta::ipc
