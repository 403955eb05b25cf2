// What the checks of a whole read have found, as an error that names the batch, the column and the row.
#pragma once

#include "saeta/ipc/detail/whole_plan.hpp"

#include <span>

namespace saeta::ipc::detail {

/// @param tables  whose nulls were counted.
/// @throws error format where a check does not hold, or nulls are not as many as a batch says.
void require_good(const whole_plan& plan, std::span<const planned_table* const> tables, const scattered& made,
                  const scatter_source& source);

} // namespace saeta::ipc::detail
