// Rows of columns as raw Python values: what displays and scalar reads are made of.
#pragma once

#include "saeta/column/table.hpp"

#include <nanobind/nanobind.h>

#include <vector>

namespace saeta::py {

/// One list a column. None for a null, a bool for a boolean, else the bytes of the value as the Arrow layout holds them;
/// dictionaries give their values, symbols their names, or their numbers where the table has none. Downloads these rows and no others, in one planned transfer and one more for each
/// dictionary; releases the GIL meanwhile.
std::vector<nanobind::list> raw_values(const std::shared_ptr<context>& home, const batch& rows);

} // namespace saeta::py
