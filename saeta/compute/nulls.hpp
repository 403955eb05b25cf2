// Nulls of columns: found, counted, replaced, and dropped, on their device.
//
// What      Arrow counts the nulls in the validity of a column (column::null_count). A dictionary, a run-end
//           encoded column and a union can refer to values that are null themselves. These functions count
//           such rows as null too, to any depth. Every row of a column of type null is null.
// Owner     Results that are not views are charged to the budget of the source's context.
// Order     Ready on the context's work stream. The host waits for the number of rows that are kept, and for
//           unknown null counts of values that rows refer to.
// Failure   type_mismatch and invalid_argument (a fill of another type, of several rows, null, or on another
//           device), budget_exceeded, out_of_memory, and overflow as for take (compute/take.hpp).

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace SAETA_EXPORT saeta {

/// A column with the rows of `source` whose own validity says which of them are null. Only its validity and
/// its null count have a meaning. It is `source` unless values that it refers to are null.
[[nodiscard]] column visible_nulls(const column& source);

/// Number of rows that are null. It is counted on the device, each time if values that the column refers to
/// are null.
std::int64_t logical_null_count(const column& source);

/// The same codes and dictionary, where rows whose value is null are null themselves. No code is copied.
[[nodiscard]] column with_own_nulls(const column& dictionary);

/// A byte_bool column: 1 if a row is null, 0 if it is valid.
[[nodiscard]] column is_null(const column& source);

/// Replaces each null by the value with these bytes, by one kernel. The type has a fixed width of 1, 2, 4 or
/// 8 bytes.
[[nodiscard]] column fill_nulls(const column& source, std::uint64_t bits);

/// Replaces each null by the only row of `fill`, which has the same type. Pieces without nulls stay as they
/// are if the values have a fixed width of at most 8 bytes, or if no piece has nulls. Any other result has
/// memory of its own.
[[nodiscard]] std::vector<column> fill_null(std::span<const column> source, const column& fill);

/// The rows in which none of these columns is null.
[[nodiscard]] table drop_null(const table& source, std::span<const std::size_t> columns);

} // namespace saeta
