// Booleans of one byte on their way to Arrow consumers, which get Arrow's bool: bits.
//
// What      Columns of `data_type::byte_bool` are packed, one kernel each, into memory of their context; all others are shared.
// Order     The kernel runs on the context's work stream, behind the last write.
// Failure   budget_exceeded.
#pragma once

#include "saeta/column/table.hpp"

namespace saeta {

/// The type that consumers are told.
data_type arrow_type(const data_type& type);
column as_arrow(const column& source);
batch as_arrow(const batch& source);

} // namespace saeta
