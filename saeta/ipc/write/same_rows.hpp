// Compares values of arrays in host memory by their bits.
//
// The union of dictionaries (compute/dictionary_union.hpp) distinguishes values by their bits, NaNs and zeros
// too, so the comparison of whole dictionaries must do the same.
#pragma once

#include "saeta/transfer/host_array.hpp"

#include <cstdint>

namespace saeta::ipc::detail {

/// Returns whether the first rows of two arrays of the same type are equal. Values under nulls are ignored.
bool same_rows(const host_array& a, const host_array& b, std::int64_t rows);

/// Compares all rows.
bool same_rows(const host_array& a, const host_array& b);

} // namespace saeta::ipc::detail
