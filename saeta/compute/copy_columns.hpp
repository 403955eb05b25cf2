// Columns copied on their device, so that what others do with the memory they came from means nothing to them.
//
// What      Values, bitmaps, offsets, bytes, children and dictionaries as they are, into one allocation, by one kernel. Fixed-width
//           buffers move the window of their rows; what offsets, views and run ends point to moves as a whole, so that no value
//           has to be read. Dictionaries are copied once where columns share them, and kept where their memory is the
//           context's own.
// Owner     The result is charged to the budget of `ctx`.
// Order     Behind the last writes of the columns; ready on the context's work stream. The host waits for nothing.
// Failure   invalid_argument (columns of another device), budget_exceeded, out_of_memory, closed: nothing stays allocated, and
//           nothing was queued.
#pragma once

#include "saeta/column/column.hpp"

#include <span>
#include <string>
#include <vector>

namespace saeta {

[[nodiscard]] std::vector<column> copy_columns(const std::shared_ptr<context>& ctx,
                                               std::span<const column> columns, const std::string& tag);

} // namespace saeta
