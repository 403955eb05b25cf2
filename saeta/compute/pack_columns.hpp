// Puts columns into one piece of memory, with their children, dictionaries and the bytes behind views.
//
// What      The result has the same rows in the same columns, without offsets, and every buffer begins at a
//           multiple of 64 bytes. Offsets are rebased, so that only bytes and child rows that the rows refer
//           to are copied. Dictionaries, and the bytes behind views, are copied as a whole, each once.
//           Columns that lie in one storage already need no copy (`find_packed`).
// Owner     The result is one allocation, charged to the budget of `ctx`.
// Order     The copy is one kernel on the context's work stream, after the last writes of the columns. The
//           host waits only for offsets and unknown null counts.
// Failure   invalid_argument (columns of another device, misaligned external memory), budget_exceeded,
//           out_of_memory, closed. Nothing stays allocated.
#pragma once

#include "saeta/column/table.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace saeta {

/// The part of one storage that contains all buffers of the batches. Returns nullopt if they are not packed:
/// they lie in several storages, a column is sliced, or the bytes between the buffers are more than an eighth
/// of the part and more than 4 KiB. Those bytes are padding, or belong to other columns of the storage. The
/// result is absent if there are no bytes.
[[nodiscard]] std::optional<buffer> find_packed(std::span<const batch> batches);

struct packed_columns {
  std::vector<column> columns;
  buffer body; ///< contains all of their buffers; absent if they have none
};

/// Copies the columns of all batches, one after the other, into one allocation.
[[nodiscard]] packed_columns pack_columns(const std::shared_ptr<context>& ctx, std::span<const batch> batches,
                                          const std::string& tag);

} // namespace saeta
