// The kernels of simulated devices that move rows, convert numbers and permute them.
#pragma once

#include "saeta/device/kernels.hpp"

namespace saeta::sim {

void count_taken(stream_handle stream, const take_work& work, std::int64_t* sums, taken_count* found);
void take(stream_handle stream, const take_work& work);
void cast_numbers(stream_handle stream, const cast_work& work);
void permute_rows(stream_handle stream, const permute_work& work);

} // namespace saeta::sim
