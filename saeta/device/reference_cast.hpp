// The plain loop behind kernel_table::cast_numbers.
#pragma once

#include "saeta/device/cast.hpp"
#include "saeta/device/handles.hpp"

namespace saeta {

void cast_numbers(stream_handle stream, const cast_work& work);

} // namespace saeta
