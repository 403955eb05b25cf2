// Turns a failed check of a whole read into an error with the batch, the column and the row.
#pragma once

#include "saeta/ipc/read/whole_plan.hpp"

namespace saeta::ipc::detail {

/// @throws error format if a check failed.
void require_good(const whole_plan& plan, const scattered& made, const scatter_source& source);

} // namespace saeta::ipc::detail
