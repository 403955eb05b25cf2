// Puts columns into one piece of memory, with their children, dictionaries and the bytes behind views.
//
// What      The result has the same rows in the same columns, without offsets, and every buffer begins at a
//           multiple of 64 bytes. Columns that lie in one storage already stay where they are. Others are
//           gathered: offsets are rebased, so that only bytes and child rows that the rows refer to are
//           copied. Dictionaries, and the bytes behind views, are copied as a whole, each once.
// Owner     The result is one allocation, charged to the budget of `ctx`, or shares that of the columns.
// Order     The copy is one kernel on the context's work stream, after the last writes of the columns. The
//           host waits only for offsets and unknown null counts.
// Failure   invalid_argument (columns of another device, misaligned external memory), budget_exceeded,
//           out_of_memory, closed. Nothing stays allocated.
#pragma once

#include "saeta/column/column.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saeta {

struct packed_columns {
  std::vector<column> columns;
  buffer body; ///< contains all of their buffers; absent if they have none
};

/// Columns of any lengths. They are not copied if all of their buffers are in one storage, none of them is
/// sliced, and the bytes between the buffers are at most an eighth of the body or 4 KiB. Those bytes are part
/// of the body: they are padding, or belong to other columns of the same storage.
[[nodiscard]] packed_columns pack_columns(const std::shared_ptr<context>& ctx,
                                          std::span<const column> columns, const std::string& tag);

} // namespace saeta
