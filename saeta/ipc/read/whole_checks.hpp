// What the checks of a whole read have found, as an error that names the batch, the column and the row.
#pragma once

#include "saeta/ipc/read/whole_plan.hpp"

namespace saeta::ipc::detail {

/// @throws error format where a check does not hold.
void require_good(const whole_plan& plan, const scattered& made, const scatter_source& source);

} // namespace saeta::ipc::detail
