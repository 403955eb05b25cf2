// Single encapsulated messages of record batches in host memory: encoding, checking and decoding, for what keeps messages elsewhere.
//
// Failure   error format naming the number that does not fit; unsupported, out_of_memory.
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

/// The message of a batch whose buffers are all in host memory: metadata, then the body at a multiple of 8.
std::shared_ptr<arrow::Buffer> encode_batch(const std::shared_ptr<arrow::RecordBatch>& batch);

/// Checks what the metadata of a record batch message says against its body before anything follows it: every buffer lies in the body at
/// a multiple of 8, lengths, null counts (-1 is unknown) and the number of buffers behind views are possible.
/// @param metadata  which libarrow has verified. Returns whether the buffers are compressed.
bool check_body(std::span<const std::byte> metadata, std::int64_t body_bytes);

/// The batch of a message in host memory, structurally valid. What is decompressed is charged as host memory of `ctx` while it
/// lives; a buffer that claims more than its bytes can hold is refused before.
std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries);

} // namespace saeta::ipc
