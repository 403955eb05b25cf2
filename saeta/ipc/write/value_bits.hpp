// Compares values of libarrow's arrays by their bits.
//
// libarrow can treat 0.0 and -0.0 as equal, and NaNs with different bits. The union of dictionaries
// (compute/dictionary_union.hpp) distinguishes values by their bits, so the comparison of whole dictionaries
// must too.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

namespace saeta::ipc::detail {

/// Returns whether rows [0, rows) of two arrays of the same type are equal. Values under nulls are ignored.
/// NaNs inside nested values count as different, because libarrow can't compare them by their bits.
bool same_bits(const arrow::Array& a, const arrow::Array& b, std::int64_t rows);

/// Compares all rows.
bool same_bits(const arrow::Array& a, const arrow::Array& b);

} // namespace saeta::ipc::detail
