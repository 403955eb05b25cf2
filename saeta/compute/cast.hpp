// Numbers of one type as numbers of another, on their device.
//
// What      Integers and floats of any width, and decimals as such. Values are equal after the conversion, or
//           are rounded if the caller permits it. Nulls stay null, and rows of type null become nulls of any
//           type. A cast that changes no byte (column/view_cast.hpp) is a view.
// Owner     A result that is not a view is charged to the budget of the source's context.
// Order     Ready on the context's work stream. The host waits for the check of the values.
// Failure   type_mismatch for other types; unsupported for decimals with a scale beyond 76; out_of_range
//           naming the first row that has no such number; budget_exceeded, out_of_memory.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/table.hpp"

#include <memory>

namespace SAETA_EXPORT saeta {

// Converts rows to the common type of rows that are joined (column/same_type.hpp).
//
// What      Names and nullability of children change in a view. Rows of type null become nulls of the other
//           type, at every depth.
// Owner     Nulls have memory of their own. Everything else is shared with the source.

/// @throws error type_mismatch unless `united_type(to, source.type())` is `to`.
[[nodiscard]] column conform(const column& source, const data_type& to);
/// The same for all columns. Returns the batch itself if it has these types.
/// @param fields  as many as columns
[[nodiscard]] batch conform(batch source, const schema& fields);
[[nodiscard]] table conform(const table& source, std::shared_ptr<const schema_index> fields);

/// A column without values.
[[nodiscard]] column nulls(const std::shared_ptr<context>& ctx, const data_type& type, std::int64_t rows);

enum class cast_rule {
  /// Floats and decimals become the nearest float, ties to even; beyond its range they become infinite. Any
  /// other number must be equal in the other type.
  exact,
  /// Also integers become the nearest float, and floats and decimals the nearest integer. The range of
  /// integers is still checked.
  round,
};

/// Whether `cast` converts values of one type to the other, rather than view them.
bool is_number_cast(const data_type& from, const data_type& to) noexcept;

/// @param first_row  number of the first row, for the message
[[nodiscard]] column cast(const column& source, const data_type& to, cast_rule rule,
                          std::int64_t first_row = 0);

} // namespace saeta
