// The plain loop behind kernel_table::gather_columns.
#pragma once

#include "saeta/device/gather.hpp"
#include "saeta/device/handles.hpp"

#include <span>

namespace saeta {

/// @throws error invalid_argument for kinds that don't convert.
void gather_columns(stream_handle stream, std::span<const gathered_column> columns,
                    const gather_target& shape, void* target);

} // namespace saeta
