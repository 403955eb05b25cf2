// Encodes, checks and decodes single record batch messages in host memory, for messages kept elsewhere.
//
// Failure   error format with the number that does not fit; unsupported, out_of_memory.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace arrow::ipc {
class DictionaryMemo;
class Message;
} // namespace arrow::ipc

namespace saeta {
class context;
} // namespace saeta

namespace saeta::ipc {

/// Returns the message of a batch whose buffers are all in host memory: metadata, then the body at a multiple
/// of 8.
std::shared_ptr<arrow::Buffer> encode_batch(const std::shared_ptr<arrow::RecordBatch>& batch);

/// Checks the metadata of a record batch message against the size of its body. Every buffer must lie in the
/// body at a multiple of 8. Lengths, null counts (-1: unknown) and the counts of variadic buffers must be
/// possible. Returns whether the buffers are compressed.
/// @param metadata  verified by libarrow.
bool check_body(std::span<const std::byte> metadata, std::int64_t body_bytes);

/// Returns the batch of a message in host memory, structurally valid. Decompressed bytes are charged as host
/// memory of `ctx` while they live. A buffer that claims more bytes than its frames can hold is refused
/// before any allocation.
std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries);

} // namespace saeta::ipc
