// Reads from the device which rows or bytes the offsets of columns point to, for windows of rows.
//
// What      Reads the first and last offset of each window, for all at once. They are rows of a child, or
//           bytes.
// Order     Reads on the context's work stream, after the last writes to the offsets. The host waits.
// Failure   As for a use token (memory/use_token.hpp) and an allocation of a buffer. Offsets are not checked.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// Rows [first, first + rows) of a column with offsets, counted from the start of its buffers.
struct rows_with_offsets {
  const column* of = nullptr;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// What each window points to, in the order of `asked`. Without windows the device is not accessed.
std::vector<child_rows> read_pointed_rows(const std::shared_ptr<context>& ctx,
                                          std::span<const rows_with_offsets> requested);

} // namespace saeta
