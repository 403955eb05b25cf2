// The values behind columns whose rows refer to them: dictionaries, run-end encoded columns and unions.
//
// What      `value_columns` has the values, and `value_rows` says which of them each row has. What is taken
//           by these rows has one entry for each row of the column.
// Owner     The numbers of the rows take 8 bytes a row, charged to the budget of the column's context.
// Order     Ready on the context's work stream. The host does not wait.
// Failure   budget_exceeded, out_of_memory. A row that refers to something outside of the values is a null
//           row.
#pragma once

#include "saeta/compute/selected_rows.hpp"

#include <vector>

namespace saeta {

/// The values that the rows of a column refer to: those of its dictionary, of its runs, or each child of a
/// union. Empty for other types.
std::vector<column> value_columns(const column& source);

/// The rows of `value_columns`, as pieces, that the rows of the column have. Null codes are null rows.
selected_rows value_rows(const column& source);

/// The same rows of a column of numbers without dictionaries and runs, in memory of their own. A column that
/// has neither is returned as it is.
/// @throws error type_mismatch for values whose width is not fixed.
column plain_numbers(const column& source);

} // namespace saeta
