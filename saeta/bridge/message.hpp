// Record batches as encapsulated IPC messages in device memory, read without a copy of the body.
//
// What      A message on a device is metadata and a body in one piece of memory. The metadata is copied to
//           the host. The body stays where it is, and so do the buffers of a batch that is read from it.
//           libarrow decompresses and swaps bytes on the host only and would follow device pointers there. So
//           a body that needs this is copied to the host, decoded, and uploaded.
// Owner     Messages and batches keep the buffer that they were read from.
// Order     As in bridge.hpp: the host waits for what it reads. All memory of a returned batch is written.
// Thread    Any.
// Failure   Bytes are checked before anything follows them: error format naming the number. The values that
//           refer to other data are checked where they are, for all types that a column can have. Also
//           unsupported, budget_exceeded, out_of_memory, device.
// Standard  Arrow IPC, encapsulated message format.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace arrow::ipc {
class DictionaryMemo;
class Message;
} // namespace arrow::ipc

namespace SAETA_EXPORT saeta {

class context;

/// Writes the batch as one message in memory of the context, by one planned transfer. The batch may be in
/// host memory or on any of our devices.
[[nodiscard]] buffer serialize_batch(const std::shared_ptr<context>& ctx,
                                     const std::shared_ptr<arrow::RecordBatch>& batch);

/// The message at the beginning of the bytes. Its metadata is in host memory of the pool, and its body is a
/// slice of `bytes`. Null at the end of a stream, and if there are no bytes.
[[nodiscard]] std::unique_ptr<arrow::ipc::Message> read_message(const std::shared_ptr<arrow::Buffer>& bytes,
                                                                arrow::MemoryPool* pool);

/// The batch of the message at the beginning of the bytes. Its buffers are slices of `bytes`, with two
/// exceptions: dictionaries come from `dictionaries`, and decoded bodies are in memory of `ctx` if the bytes
/// are on a device. The whole batch is on one device, which it names, and its null counts are known.
/// @param dictionaries  null if there are none.
[[nodiscard]] std::shared_ptr<arrow::RecordBatch> read_batch(const std::shared_ptr<context>& ctx,
                                                             const std::shared_ptr<arrow::Schema>& schema,
                                                             const arrow::ipc::DictionaryMemo* dictionaries,
                                                             const std::shared_ptr<arrow::Buffer>& bytes,
                                                             arrow::MemoryPool* pool);

} // namespace saeta
