// What the offsets of columns say about windows of their rows, read from the device.
//
// What      Reads the first and the last offset of each window, of all windows in one go. They name rows of a child, or bytes.
// Order     Reads on the context's work stream, after what was written to the offsets. The host waits for the numbers.
// Failure   As a use token (memory/use_token.hpp) and an allocation of a buffer. Offsets are not checked.
#pragma once

#include "saeta/column/column.hpp"
#include "saeta/memory/context.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace saeta {

/// Rows [first, first + rows) of a column with offsets, counted from the beginning of its buffers.
struct rows_with_offsets {
  const column* of = nullptr;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

/// What each window points to, in the order of `asked`. Without windows the device is not asked.
std::vector<child_rows> read_pointed_rows(const std::shared_ptr<context>& ctx,
                                          std::span<const rows_with_offsets> asked);

} // namespace saeta
