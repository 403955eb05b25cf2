// Columns without the children and bytes that no row refers to, for copies that leave the process or device.
//
// What      Views, list views and dense unions name bytes and child rows in any order, so a copy carries all
//           of them, also for few rows. Where the rows refer to less than half of what their column would
//           carry, in all batches together, the column is gathered (compute/take.hpp). So are the values of
//           dictionaries. Their number stays: which values a dictionary has is data, as categories are. Other
//           columns stay as they are; copies rebase their offsets.
// Owner     Gathered columns have memory of the columns' context, charged to its budget.
// Order     As byte_size() and gather(): the host waits for counts, only if there are columns of such types.
// Failure   None of its own: a column stays as it is if there is no room, or more than 2 GiB behind its
//           views.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// Returns the table itself if nothing is gathered.
[[nodiscard]] table compact(const table& source);
/// Compacts batches in place. Returns whether anything was gathered.
bool compact(std::span<batch> batches);

} // namespace saeta
