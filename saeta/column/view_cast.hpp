// Columns over the values of other columns, with another type or with nulls. No value is copied.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"

#include <functional>

namespace SAETA_EXPORT saeta {

/// The same memory, offset and nulls as a column of `to`, a type of the same layout.
/// @param part  makes each child and the dictionary a column of its type in `to`
[[nodiscard]] column retyped(const column& source, const data_type& to,
                             const std::function<column(const column&, const data_type&)>& part);

/// Whether Arrow's cast between the two types changes no byte. True for:
/// - equal types
/// - a string and binary with the same offsets or views
/// - integers, and times counted in as many bytes as an integer
/// - timestamps of one unit in different time zones
/// - an extension to its storage, symbols to uint32
/// - lists, structs, maps and dictionaries of such types.
/// Names of fields may differ.
bool is_view_cast(const data_type& from, const data_type& to) noexcept;

/// The same memory, offset and nulls as a column of `to`. @throws error type_mismatch unless `is_view_cast`.
[[nodiscard]] column view_cast(const column& source, const data_type& to);

/// The same memory as a column of `type`. For fixed-size lists, `type` is the type of their values.
/// @throws error type_mismatch unless both types have values of the same number of bytes.
[[nodiscard]] column relabel(const column& source, const data_type& type);

/// The same rows, null where `valid` is 0; one kernel. If both are fixed-size lists, it applies to their
/// values. All offsets must be 0, and `values` must have no nulls.
/// @param valid  of bool8 (or any int8 or uint8), with as many rows.
/// @throws error type_mismatch for another `valid`; budget_exceeded.
[[nodiscard]] column with_validity(const column& values, const column& valid);

} // namespace saeta
