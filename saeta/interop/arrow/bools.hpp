// Converts bools of one byte for Arrow consumers, which get Arrow's bool: one bit per value.
//
// What      Columns of `data_type::byte_bool` are packed into memory of their context, with one kernel each.
//           All other columns are shared.
// Order     The kernel runs on the context's work stream, after the last write.
// Failure   budget_exceeded.
#pragma once

#include "saeta/column/table.hpp"

namespace saeta {

/// The type that consumers see.
data_type arrow_type(const data_type& type);
column as_arrow(const column& source);
batch as_arrow(const batch& source);

} // namespace saeta
