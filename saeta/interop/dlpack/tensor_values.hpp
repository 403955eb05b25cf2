// Columns as the plain numbers of a tensor: the integers behind a type, and the values that replace nulls.
//
// Order     Kernels run on the context's work stream, between the waits and the records of a use token.
// Failure   type_mismatch and out_of_range for a replacement value that the type does not have,
//           budget_exceeded.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/device/gather.hpp"
#include "saeta/interop/dlpack/dlpack.hpp"

#include <cstdint>

namespace saeta {

/// The column as `how` asks for it: the integers of a temporal type with `reinterpret`, the indices of a
/// dictionary or the numbers of symbols with `codes`, else the column itself. The result shares the memory,
/// unless `becomes_numbers` is true.
column numbers_of(const column& source, const dlpack_export& how);

/// Whether `numbers_of` copies the values: decimals to the type that `how` names, and numbers of runs to one
/// for each row.
bool becomes_numbers(const data_type& type, const dlpack_export& how) noexcept;

/// The type of the tensor over a column of numbers: the column's own type, or bool8 for booleans of one bit.
/// @throws error exchange for types without a tensor.
data_type number_type_of(const column& numbers);
/// The same for kernels. @throws error exchange for types other than numbers and bool8.
number_kind number_kind_of(const data_type& type);
/// The bytes of the rows of a fixed-width column; absent if there are none.
buffer row_values(const column& source);

/// The bytes of a number as a value of `type`, in the low bytes of the result. The type is an integer, a
/// float or bool8.
/// @throws error type_mismatch for a float that should be an integer, out_of_range naming the number.
std::uint64_t value_bits(const data_type& type, const tensor_fill& number);
/// The same for a quiet NaN. @throws error exchange unless the type is a float.
std::uint64_t nan_bits(const data_type& type);

} // namespace saeta
