// Copies columns on their device, so that the result does not depend on the memory of others.
//
// What      Copies values, bitmaps, offsets, bytes, children and dictionaries as they are into one
//           allocation, by one kernel. Fixed-width buffers are copied for the window of their rows. What
//           offsets, views and run ends point to is copied as a whole, so that no value has to be read.
//           Columns that share a dictionary share its copy. A dictionary is not copied if its memory is the
//           context's own.
// Owner     The result is charged to the budget of `ctx`.
// Order     Runs after the last writes of the columns. Ready on the context's work stream. The host does not
//           wait.
// Failure   invalid_argument (columns of another device), budget_exceeded, out_of_memory, closed. Nothing
//           stays allocated and nothing was queued.
#pragma once

#include "saeta/column/column.hpp"

#include <span>
#include <string>
#include <vector>

namespace saeta {

[[nodiscard]] std::vector<column> copy_columns(const std::shared_ptr<context>& ctx,
                                               std::span<const column> columns, const std::string& tag);

} // namespace saeta
