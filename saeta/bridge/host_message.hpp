// Encodes and decodes single record batch messages in host memory, for messages kept elsewhere, and the steps
// that other messages share with them.
//
// Failure   error format with the number that does not fit; unsupported, out_of_memory.
// Standard  Arrow IPC, encapsulated message format; Message.fbs.

#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/array/data.h>
#include <arrow/type.h>
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

/// Returns the batch of a message in host memory, after a check of every value. Decompressed bytes are
/// charged as host memory of `ctx` while they live. A buffer that claims more bytes than its frames can hold
/// is refused before any allocation.
std::shared_ptr<arrow::RecordBatch> decode_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::ipc::Message& message,
                                                 const std::shared_ptr<arrow::Schema>& described,
                                                 const arrow::ipc::DictionaryMemo& dictionaries);

} // namespace saeta::bridge

namespace saeta {

// Completes a batch that libarrow has read from a body in device memory.

/// The same batch with all buffers on the device (libarrow puts empty buffers and dictionaries into host
/// memory), with the type of its device and with counted nulls. Checks sizes, first and last offsets, and the
/// values that refer to other data.
/// @param body  the buffer that the batch's buffers are slices of.
/// @throws error format.
std::shared_ptr<arrow::RecordBatch> device_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::RecordBatch& read,
                                                 const std::shared_ptr<arrow::Buffer>& body);

} // namespace saeta

namespace saeta::bridge {

// Null counts of arrays that were read from a message, which may state them wrongly.

/// Sets the null count of an array whose type has no validity: all rows of type null, and no others.
inline void set_nulls_of_type(arrow::ArrayData& of) {
  if (of.type->layout().buffers.front().kind != arrow::DataTypeLayout::BITMAP) {
    of.null_count = of.type->storage_id() == arrow::Type::NA ? of.length : 0;
  }
}

// Zeros behind the buffers of unions, because libarrow's writer reads past their end.
//
// What      The writer slices the type ids and offsets of a union at its offset but keeps the length of the
//           whole buffer. It reads up to `offset` rows past the end (libarrow 26, GetTruncatedBuffer in
//           ipc/writer.cc) and writes them into the file as padding. So buffers of unions that may have an
//           offset are copied, with zeros behind them.
// Owner     The copies belong to the batch that is returned.

/// Returns the batch with such copies, or `source` itself if nothing had to be copied.
std::shared_ptr<arrow::RecordBatch> with_union_slack(const std::shared_ptr<arrow::RecordBatch>& source);

} // namespace saeta::bridge
