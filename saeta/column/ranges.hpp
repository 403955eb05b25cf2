// The byte ranges that a column's rows use. Shared by the size queries of columns and tables.
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

/// Appends the byte ranges of the column's rows in its buffers, dictionary included; empty ranges are left
/// out. The data of an offset layout counts as one whole range for any slice, because offsets are not read.
void append_ranges(const column& of, std::vector<address_range>& ranges);

} // namespace saeta
