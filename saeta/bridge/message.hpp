// Record batches as encapsulated IPC messages in device memory: written, taken apart and read without a copy of the body.
//
// What      A message on a device is metadata and a body in one piece of memory. The metadata is copied to the host, the body stays
//           where it is, and so do the buffers of a batch that is read from it. libarrow decompresses and swaps bytes on the host
//           alone, following device pointers, so bodies that need it are copied to the host, decoded, and uploaded.
// Owner     Messages and batches keep the buffer that they were read from.
// Order     As bridge.hpp: the host waits for what it reads. What reads return has been written.
// Thread    Any.
// Failure   Bytes are checked before anything follows them: error format naming the number. Of a body in device memory also the values that
//           point somewhere are checked, there, of all types that a column can have. unsupported, budget_exceeded, out_of_memory, device.
// Standard  Arrow IPC, encapsulated message format.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace arrow::ipc {
class DictionaryMemo;
class Message;
} // namespace arrow::ipc

namespace saeta {

class context;

/// The batch, which lies in host memory or on any device of ours, as one message in memory of the context: one planned transfer.
buffer serialize_batch(const std::shared_ptr<context>& ctx, const std::shared_ptr<arrow::RecordBatch>& batch);

/// The message at the beginning of the bytes: its metadata in host memory of the pool, its body a slice of `bytes`. Null at the
/// end of a stream, and where there are no bytes.
std::unique_ptr<arrow::ipc::Message> read_message(const std::shared_ptr<arrow::Buffer>& bytes,
                                                  arrow::MemoryPool* pool);

/// The batch of the message at the beginning of the bytes. Its buffers are slices of `bytes`, but for dictionaries, which come from
/// `dictionaries`, and for decoded bodies: these are in memory of `ctx` where the bytes are on a device. All of a batch is on
/// one device, and it says so; its null counts are known.
/// @param dictionaries  null: there are none.
std::shared_ptr<arrow::RecordBatch> read_batch(const std::shared_ptr<context>& ctx,
                                               const std::shared_ptr<arrow::Schema>& schema,
                                               const arrow::ipc::DictionaryMemo* dictionaries,
                                               const std::shared_ptr<arrow::Buffer>& bytes,
                                               arrow::MemoryPool* pool);

} // namespace saeta
