// The device that an export names, for single arrays and for streams, whose arrays all have one device type.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <memory>
#include <span>

namespace saeta {

/// If all buffers have one kind of memory, the result names this kind, else the own kind of the context's
/// device. The ordinal is -1 on the host, as the standard recommends.
tensor_device device_for(const context& ctx, std::span<const column> parts);

void export_to_device(const std::shared_ptr<context>& ctx, const batch& source, tensor_device where,
                      ArrowDeviceArray& target);
void export_to_device(const column& source, tensor_device where, ArrowDeviceArray& target);

} // namespace saeta
