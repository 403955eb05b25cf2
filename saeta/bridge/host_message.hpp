// Encodes and decodes single record batch messages in host memory, for messages kept elsewhere.
//
// Failure   error format with the number that does not fit; unsupported, out_of_memory.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace arrow::ipc {
class DictionaryMemo;
class Message;
} // namespace arrow::ipc

namespace saeta {
class context;
} // namespace saeta

namespace saeta::bridge {

/// Returns the message of a batch whose buffers are all in host memory: metadata, then the body at a multiple
/// of 8. The bytes are those that pyarrow makes.
std::shared_ptr<arrow::Buffer> encode_batch(const std::shared_ptr<arrow::RecordBatch>& batch);

/// Returns the metadata of the schema message, for the checks of messages that the schema describes.
std::vector<std::byte> encode_schema(const arrow::Schema& described);

/// Returns the batch of a message in host memory, sound to its last value. Decompressed bytes are charged as
/// host memory of `ctx` while they live. A buffer that claims more bytes than its frames can hold is refused
/// before any allocation.
std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries);

} // namespace saeta::bridge
