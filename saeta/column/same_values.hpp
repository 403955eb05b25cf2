// Columns over the values of other columns, with another type or with nulls. No value is copied.
#pragma once

#include "saeta/column/column.hpp"

namespace saeta {

/// The same memory as a column of `type`. For fixed-size lists, `type` is the type of their values.
/// @throws error type_mismatch unless both types have values of the same number of bytes.
column relabel(const column& source, const data_type& type);

/// The same rows, null where `valid` is 0; one kernel. If both are fixed-size lists, it applies to their
/// values. All offsets must be 0, and `values` must have no nulls.
/// @param valid  of bool8 (or any int8 or uint8), with as many rows.
/// @throws error type_mismatch for another `valid`; budget_exceeded.
column with_validity(const column& values, const column& valid);

} // namespace saeta
