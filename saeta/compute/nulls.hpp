// Nulls of columns: found, replaced, and dropped, on their device.
//
// What      A row is null if its value is (compute/logical_nulls.hpp), wherever the null is: in the validity
//           of the column, in a dictionary, in a run, or in a child of a union.
// Owner     Results are charged to the budget of the source's context.
// Order     Ready on the context's work stream. The host waits for the number of rows that are kept,
//           and for unknown null counts of values that rows refer to.
// Failure   type_mismatch and invalid_argument (a fill of another type, of several rows, null, or on another
//           device), budget_exceeded, out_of_memory, and overflow as for take (compute/take.hpp).
#pragma once

#include "saeta/column/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace saeta {

/// A byte_bool column: 1 if a row is null, 0 if it is valid.
column is_null(const column& source);

/// Replaces each null by the value with these bytes, by one kernel. The type has a fixed width of 1, 2, 4 or
/// 8 bytes.
column fill_nulls(const column& source, std::uint64_t bits);

/// Replaces each null by the only row of `fill`, which has the same type. Pieces without nulls stay as they
/// are if the values have a fixed width of at most 8 bytes, or if no piece has nulls. Any other result has
/// memory of its own.
std::vector<column> fill_null(std::span<const column> source, const column& fill);

/// The rows in which none of these columns is null.
table drop_null(const table& source, std::span<const std::size_t> columns);

} // namespace saeta
