// Columns over the values of other columns: under another type, or with nulls. No value is copied.
#pragma once

#include "saeta/column/column.hpp"

namespace saeta {

/// The same memory as `type`, whose values have as many bytes. In fixed-size lists that is the type of the values inside.
/// @throws error type_mismatch unless both types have values of the same whole bytes.
column relabelled(const column& source, const data_type& type);

/// The same rows, null where `valid` has 0: one kernel. In fixed-size lists of both, the values inside are null. Nothing may begin
/// at an offset, and `values` has no nulls.
/// @param valid  of bool8 (or any int8 or uint8), with as many rows.
/// @throws error type_mismatch for another `valid`; budget_exceeded.
column with_validity(const column& values, const column& valid);

} // namespace saeta
