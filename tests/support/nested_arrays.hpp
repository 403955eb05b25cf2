// Nested and view types for support/arrays.hpp: random arrays, and comparison of rows.
#pragma once

#include "support/arrays.hpp"

#include <random>

namespace saeta::support {

/// Fills the buffers and children of an array whose type, offset, length and validity are set. Offsets do not
/// start at 0, list views overlap, and children have offsets and more rows than needed.
void fill_nested(plain_array& made, const array_shape& shape, std::mt19937_64& random);

/// Returns whether both rows are null or have equal values. Row numbers are relative to the arrays' offsets.
bool same_row(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row);

} // namespace saeta::support
