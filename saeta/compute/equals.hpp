// Whether columns and tables have the same data, found where the data lies.
//
// What      True where types and numbers of rows are the same, nulls are at the same rows, and valid values are equal, to any depth.
//           What lies below a null does not count, nor how the data is laid out: offsets, chunks, slack, the order and the
//           repetitions of dictionaries, runs, the buffers of views, the rows of children that no row names. As in Arrow, a NaN is
//           not equal to itself and 0.0 is equal to -0.0. A null entry of a dictionary is a null.
// Types     As column/same_type.hpp has it: metadata counts with `check_metadata` alone.
// Order     Waits on the context's work stream for the last writes of both. The host waits for the answer, once for each level of
//           lists and strings. Data does not leave the device: what comes back counts as scalars.
// Memory    Descriptions of the work, in the budget of the left side's context. Lists whose values don't follow each other take 24
//           bytes a list besides.
// Failure   invalid_argument (in different contexts, misaligned memory of others), format (offsets that nobody checked and
//           that are wrong), budget_exceeded and out_of_memory.
#pragma once

#include "saeta/column/table.hpp"

#include <span>

namespace saeta {

[[nodiscard]] bool equals(const column& left, const column& right, bool check_metadata = false);
/// The rows of pieces, which may end anywhere. The pieces of a side are of one type. Columns without pieces have no rows and no
/// type that could differ.
[[nodiscard]] bool equals(std::span<const column> left, std::span<const column> right,
                          bool check_metadata = false);
/// Schemas, numbers of rows and columns.
[[nodiscard]] bool equals(const table& left, const table& right, bool check_metadata = false);

} // namespace saeta
