// The byte ranges that a column's rows refer to. Shared by the size queries of columns and tables.
#pragma once

#include "saeta/column/column.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace saeta {

struct address_range {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

/// Appends the ranges of the column's rows in its buffers, dictionary included; empty ones are left out. The bytes of
/// an offset layout are one range whatever the slice: the offsets are not read.
void append_ranges(const column& of, std::vector<address_range>& ranges);

} // namespace saeta
