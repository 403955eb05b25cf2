// The plain loop behind kernel_table::permute_rows.
#pragma once

#include "saeta/device/handles.hpp"
#include "saeta/device/permutation.hpp"

namespace saeta {

void permute_rows(stream_handle stream, const permute_work& work);

} // namespace saeta
