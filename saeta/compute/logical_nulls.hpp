// Which rows are null for a reader of the values.
//
// What      Arrow counts the nulls in the validity of a column (column::null_count). A dictionary, a run-end
//           encoded column and a union can refer to values that are null themselves. These functions count
//           such rows as null too, to any depth. Every row of a column of type null is null.
// Owner     Results that are not views are charged to the budget of the source's context.
// Order     Ready on the context's work stream. The host waits for unknown null counts of values.
// Failure   budget_exceeded, out_of_memory.
#pragma once

#include "saeta/column/column.hpp"

#include <cstdint>

namespace saeta {

/// A column with the rows of `source` whose own validity says which of them are null. Only its validity and
/// its null count have a meaning. It is `source` unless values that it refers to are null.
column visible_nulls(const column& source);

/// Number of rows that are null. It is counted on the device, each time if values that the column refers to
/// are null.
std::int64_t logical_null_count(const column& source);

/// The same codes and dictionary, where rows whose value is null are null themselves. No code is copied.
column with_own_nulls(const column& dictionary);

} // namespace saeta
