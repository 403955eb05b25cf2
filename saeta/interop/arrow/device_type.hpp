// Where the columns of an export are, for single arrays and for streams, whose arrays are all on one type of device.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/arrow/abi.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <memory>
#include <span>

namespace saeta {

/// The kind of all buffers; of several kinds, and of none, the device's own. Ordinal -1 on the host, as the standard
/// recommends.
tensor_device device_for(const context& ctx, std::span<const column> parts);

void export_to_device(const std::shared_ptr<context>& ctx, const batch& source, tensor_device where,
                      ArrowDeviceArray& target);
void export_to_device(const column& source, tensor_device where, ArrowDeviceArray& target);

} // namespace saeta
