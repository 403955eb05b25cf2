// Completes a batch that libarrow has read from a body in device memory.
#pragma once

#include "saeta/memory/buffer.hpp"

#include <arrow/type_fwd.h>

#include <memory>

namespace saeta {

class context;

/// The same batch with all buffers on the device (libarrow puts empty buffers and dictionaries into host
/// memory), with the type of its device and with counted nulls. Checks sizes, first and last offsets, and the
/// values that refer to other data.
/// @param body  the buffer that the batch's buffers are slices of.
/// @throws error format.
std::shared_ptr<arrow::RecordBatch> device_batch(const std::shared_ptr<context>& ctx,
                                                 const arrow::RecordBatch& read,
                                                 const std::shared_ptr<arrow::Buffer>& body);

} // namespace saeta
