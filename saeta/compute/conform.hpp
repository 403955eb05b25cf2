// Rows of one type as rows of the type that they have together with others (column/same_type.hpp).
//
// What      Names and nullability of children change in a view. Rows of type null become nulls of the other
//           type, at every depth.
// Owner     Nulls have memory of their own, charged to the budget of the source's context. Everything else is
//           shared with the source.
// Order     Ready on the context's work stream.
// Failure   type_mismatch if rows of the source can't be rows of the type; budget_exceeded, out_of_memory.
#pragma once

#include "saeta/column/table.hpp"

#include <memory>

namespace saeta {

/// @throws error type_mismatch unless `united_type(to, source.type())` is `to`.
column conform(const column& source, const data_type& to);
/// The same for all columns. Returns the batch itself if it has these types.
/// @param fields  as many as columns
batch conform(batch source, const schema& fields);
table conform(const table& source, std::shared_ptr<const schema_index> fields);

/// A column without values.
column nulls(const std::shared_ptr<context>& ctx, const data_type& type, std::int64_t rows);

} // namespace saeta
