// Rows of a column as raw Python values: what displays and scalar reads are made of.
#pragma once

#include "saeta/column/column.hpp"

#include <nanobind/nanobind.h>

#include <vector>

namespace saeta::py {

/// None for a null, a bool for a boolean, else the bytes of the value as the Arrow layout holds them; dictionaries give
/// their values. Downloads these rows and no others; releases the GIL meanwhile.
nanobind::list raw_values(const std::vector<column>& pieces);

} // namespace saeta::py
