// Rows of nested and view types for support/arrays.hpp: made at random, compared one by one.
#pragma once

#include "support/arrays.hpp"

#include <random>

namespace saeta::support {

/// Fills the buffers and children of an array whose type, offset, length and validity are set. Offsets do not
/// start at 0, lists of views overlap, and children have offsets and rows of their own.
void fill_nested(plain_array& made, const array_shape& shape, std::mt19937_64& random);

/// True when both rows are null, or have the same value; numbers are without the arrays' own offsets.
bool same_row(const ArrowArray& seen, std::int64_t at, const plain_array& expected, std::int64_t row);

} // namespace saeta::support
