#include "saeta/bridge/message.hpp"

#include "saeta/base/required.hpp"
#include "saeta/base/text.hpp"
#include "saeta/bridge/arrow_status.hpp"
#include "saeta/bridge/bridge.hpp"
#include "saeta/bridge/copies.hpp"
#include "saeta/bridge/host_message.hpp"
#include "saeta/bridge/table_import.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/memory/context.hpp"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>

namespace saeta {
namespace {

constexpr const char* message_name = "IPC message";
constexpr std::int32_t continuation = -1;

/// Part of a buffer, in host memory. The part must be inside the buffer.
std::shared_ptr<arrow::Buffer> to_host(const std::shared_ptr<arrow::Buffer>& from, std::int64_t offset,
                                       std::int64_t bytes, arrow::MemoryPool* pool) {
  std::shared_ptr<arrow::Buffer> part = arrow::SliceBuffer(from, offset, bytes);
  if (from->is_cpu()) {
    return part;
  }
  const std::shared_ptr<context> ctx = context_of(*from->memory_manager());
  if (ctx == nullptr) {
    throw error(errc::exchange, concat("an IPC message on ", from->device()->ToString(),
                                       " is not in memory of a Saeta context"));
  }
  std::shared_ptr<arrow::Buffer> copy = bridge::take(arrow::AllocateBuffer(bytes, pool), message_name);
  download(bytes_of(ctx, part),
           {reinterpret_cast<std::byte*>(copy->mutable_data()), static_cast<std::size_t>(copy->size())});
  return copy;
}

std::int32_t number_at(const arrow::Buffer& of, std::size_t offset) {
  std::int32_t value = 0;
  std::memcpy(&value, of.data() + offset, sizeof(value));
  return value;
}

/// The size of the prefix and that of the metadata after it. Before Arrow 0.15 a prefix had no continuation
/// mark.
struct prefix {
  std::int64_t bytes = 0;
  std::int64_t metadata = 0;
};

prefix read_prefix(const std::shared_ptr<arrow::Buffer>& bytes, arrow::MemoryPool* pool) {
  constexpr std::int64_t word = sizeof(std::int32_t);
  const auto first = to_host(bytes, 0, std::min(bytes->size(), 2 * word), pool);
  if (first->size() < word || (number_at(*first, 0) == continuation && first->size() < 2 * word)) {
    throw error(errc::format,
                concat(message_name, ": truncated in its prefix, after ", bytes->size(), " bytes"));
  }
  const bool marked = number_at(*first, 0) == continuation;
  const prefix seen{marked ? 2 * word : word, number_at(*first, marked ? word : 0)};
  if (seen.metadata < 0 || seen.metadata > bytes->size() - seen.bytes) {
    throw error(errc::format, concat(message_name, ": a prefix of ", seen.bytes, " bytes and metadata of ",
                                     seen.metadata, " bytes exceed its ", bytes->size(), " bytes"));
  }
  return seen;
}

std::unique_ptr<arrow::ipc::Message> require_batch(std::unique_ptr<arrow::ipc::Message> message) {
  if (message == nullptr || message->type() != arrow::ipc::MessageType::RECORD_BATCH) {
    throw error(errc::format, concat(message_name, ": expected a record batch, found ",
                                     message == nullptr ? "the end of a stream"
                                                        : arrow::ipc::FormatMessageType(message->type())));
  }
  return message;
}

/// If no memo was given, an empty one for the schema: libarrow then reports which dictionary is missing.
const arrow::ipc::DictionaryMemo& memo_or_empty(const arrow::ipc::DictionaryMemo* given,
                                                const arrow::Schema& described,
                                                arrow::ipc::DictionaryMemo& empty) {
  if (given != nullptr) {
    return *given;
  }
  bridge::check(empty.fields().AddSchemaFields(described), message_name);
  return empty;
}

} // namespace

buffer serialize_batch(const std::shared_ptr<context>& ctx,
                       const std::shared_ptr<arrow::RecordBatch>& batch) {
  require_argument(ctx, "ctx");
  require_argument(batch, "batch");
  // Each buffer is checked: a batch that another library read from a device claims to be in host memory.
  const bool here = std::ranges::all_of(batch->column_data(), [](const auto& each) { return on_cpu(*each); });
  const auto on_host =
      here ? batch : bridge::take(batch->ViewOrCopyTo(arrow::default_cpu_memory_manager()), "record batch");
  return upload_bytes(ctx, host_bytes(*bridge::encode_batch(on_host)), own_kind(ctx->device()));
}

std::unique_ptr<arrow::ipc::Message> read_message(const std::shared_ptr<arrow::Buffer>& bytes,
                                                  arrow::MemoryPool* pool) {
  require_argument(bytes, "bytes");
  require_argument(pool, "pool");
  if (bytes->size() == 0) {
    return nullptr;
  }
  const prefix front = read_prefix(bytes, pool);
  if (front.metadata == 0) {
    return nullptr;
  }
  const auto metadata = to_host(bytes, front.bytes, front.metadata, pool);
  const auto verified = bridge::take(arrow::ipc::Message::Open(metadata, nullptr), message_name);
  const std::int64_t begin = front.bytes + front.metadata;
  const std::int64_t size = verified->body_length();
  if (size < 0 || size > bytes->size() - begin) {
    throw error(errc::format, concat(message_name, ": a body of ", size, " bytes at offset ", begin,
                                     " exceeds its ", bytes->size(), " bytes"));
  }
  return bridge::take(arrow::ipc::Message::Open(metadata, arrow::SliceBuffer(bytes, begin, size)),
                      message_name);
}

std::shared_ptr<arrow::RecordBatch> read_batch(const std::shared_ptr<context>& ctx,
                                               const std::shared_ptr<arrow::Schema>& schema,
                                               const arrow::ipc::DictionaryMemo* dictionaries,
                                               const std::shared_ptr<arrow::Buffer>& bytes,
                                               arrow::MemoryPool* pool) {
  require_argument(ctx, "ctx");
  require_argument(schema, "schema");
  const auto message = require_batch(read_message(bytes, pool));
  const std::shared_ptr<arrow::Buffer> body = message->body();
  bool compressed = false;
  try {
    compressed = ipc::check_body(bridge::encode_schema(*schema), host_bytes(*message->metadata()),
                                 static_cast<std::uint64_t>(body->size()));
  } catch (const error& failure) {
    ipc::rethrow(failure, "record batch message");
  }
  arrow::ipc::DictionaryMemo none;
  const arrow::ipc::DictionaryMemo& memo = memo_or_empty(dictionaries, *schema, none);
  if (body->is_cpu()) {
    return bridge::decode_batch(ctx, *message, schema, memo);
  }
  if (compressed || !schema->is_native_endian()) {
    const auto here = bridge::take(
        arrow::ipc::Message::Open(message->metadata(), to_host(body, 0, body->size(), pool)), message_name);
    const auto decoded = bridge::decode_batch(ctx, *here, schema, memo);
    return read_batch(ctx, decoded->schema(), &memo, arrow_buffer(serialize_batch(ctx, decoded)), pool);
  }
  if (body->address() % 8 != 0) {
    throw error(errc::format, concat(message_name, ": its body is at address ", body->address(),
                                     ", which is not a multiple of 8"));
  }
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = pool;
  const auto read = bridge::take(arrow::ipc::ReadRecordBatch(*message, schema, &memo, options), message_name);
  return device_batch(context_of(*bytes->memory_manager()), *read, body);
}

} // namespace saeta
