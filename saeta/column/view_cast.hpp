// Columns as those of other types over the same memory.
#pragma once

#include "saeta/column/column.hpp"

namespace saeta {

/// Whether Arrow's cast between the two types changes no byte: equal types; a string as binary of the same offsets or views;
/// integers, and times that count in as many bytes, for one another; timestamps of one unit in another time zone; an extension as
/// its storage, symbols as uint32; and lists, structs, maps and dictionaries of such. Names of fields may differ.
bool is_view_cast(const data_type& from, const data_type& to) noexcept;

/// The same memory, offset and nulls as a column of `to`. @throws error type_mismatch where `is_view_cast` says no.
column view_cast(const column& source, const data_type& to);

} // namespace saeta
