// What libarrow leaves undone of a batch that it reads from a body in device memory.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace saeta {

class context;

/// The same batch with buffers on the device alone (libarrow puts empty ones, and dictionaries, into host memory), with the
/// type of its device and with counted nulls. Sizes, first and last offsets, and the values that point somewhere are
/// checked. @param body  what its buffers are slices of. @throws error format.
std::shared_ptr<arrow::RecordBatch> device_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::RecordBatch& read,
                                                 const std::shared_ptr<arrow::Buffer>& body);

} // namespace saeta
