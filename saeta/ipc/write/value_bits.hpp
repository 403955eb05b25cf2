// Values of libarrow's arrays compared by their bits.
//
// libarrow takes 0.0 and -0.0 for equal, and NaNs whatever their bits. The union of dictionaries
// (compute/dictionary_union.hpp) tells values apart by their bits, so whoever says that two dictionaries are
// one has to as well.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

namespace saeta::ipc::detail {

/// True where rows [0, rows) of two arrays of one type are the same. What lies under a null does not count.
/// False for NaNs inside of nested values, which libarrow can't compare by their bits: they count as
/// different.
bool same_bits(const arrow::Array& a, const arrow::Array& b, std::int64_t rows);

/// All rows.
bool same_bits(const arrow::Array& a, const arrow::Array& b);

} // namespace saeta::ipc::detail
