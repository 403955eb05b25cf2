// Compares the data of columns and tables on their device.
//
// What      True if types and numbers of rows are the same, nulls are at the same rows, and valid values are
//           equal, to any depth. Values below a null do not count, nor does the layout: offsets, chunks,
//           slack, order and repetitions of dictionary values, runs, buffers of views, rows of children that
//           no row refers to. As in Arrow, a NaN is not equal to itself and 0.0 is equal to -0.0. A null
//           entry of a dictionary is a null.
// Types     Compared as in column/same_type.hpp. Metadata counts only with `check_metadata`.
// Order     Waits on the context's work stream for the last writes of both sides. The host waits for the
//           answer, once for each level of lists and strings. Data stays on the device; the results that come
//           back count as scalars.
// Memory    Descriptions of the work, charged to the budget of the left side's context. Lists whose values do
//           not follow each other take 24 more bytes each.
// Failure   invalid_argument (different contexts, misaligned external memory), format (wrong offsets that
//           nothing checked before), budget_exceeded and out_of_memory.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/table.hpp"

#include <span>

namespace SAETA_EXPORT saeta {

[[nodiscard]] bool equals(const column& left, const column& right, bool check_metadata = false);
/// Compares the rows of pieces, which may end anywhere. The pieces of a side have one type. A side without
/// pieces has no rows and no type that could differ.
[[nodiscard]] bool equals(std::span<const column> left, std::span<const column> right,
                          bool check_metadata = false);
/// Compares schemas, numbers of rows and columns.
[[nodiscard]] bool equals(const table& left, const table& right, bool check_metadata = false);

} // namespace saeta
