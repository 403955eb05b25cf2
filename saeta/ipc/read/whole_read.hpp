// Reads record batches of sources at once: all of them, or a window.
//
// What      All columns of the result, joined or per batch, are in one slab that one scatter fills
//           (staging/scatter.hpp): one allocation and one planned transfer, however many batches there are.
//           The dictionaries of a whole read are in the same slab. The windows of a scan share dictionaries
//           that are in a slab of their own.
// Owner     The columns of the table share the slab.
// Order     The table is ready on the context's work stream. The host has waited for the counts and checks.
// Failure   error format with the batch, the column and the row; budget_exceeded, out_of_memory, io, device.
//           A failed read leaves no allocations.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/ipc/common.hpp"
#include "saeta/ipc/read/planned_source.hpp"
#include "saeta/ipc/read/whole_plan.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace saeta::ipc::detail {

struct whole_result {
  table rows;
  std::int64_t batches = 0; ///< spans that were read
  std::uint64_t body_bytes = 0;
};

/// Reads some rows. Returns nullopt if a plan can't take them.
/// @param join  join all batches; false: keep each one
/// @param hook  receives the progress of this read alone
std::optional<whole_result> read_whole(const std::shared_ptr<context>& ctx, const planned_source& from,
                                       std::span<const batch_span> spans, bool join,
                                       const progress_hook& hook);

/// Makes a table of these messages, which are not parsed yet. The source must outlive it.
piece_table batches_of(const planned_source& from, std::vector<planned_message> messages);

/// Runs the tasks on the calling thread: windows of a scan are planned while the threads of the ring move the
/// window before.
void run_here(std::size_t tasks, const std::function<void(std::size_t task)>& work);

/// Plans dictionaries and reads their values into a slab of their own. Returns false if a plan can't take
/// them.
bool read_values(const std::shared_ptr<context>& ctx, const planned_source& from,
                 planned_dictionaries& dictionaries);

/// Begins a scan. Returns null if a plan can't take the dictionaries of the list.
std::unique_ptr<scan> scan_planned(const std::shared_ptr<context>& ctx,
                                   const std::shared_ptr<const planned_source>& from, scan_list list,
                                   const scan_options& options);

/// Reads some batches, joined where one column can hold them.
/// @param batches       parsed with assumptions (`read_pieces`)
/// @param dictionaries  those that the batches need, with their values
table read_window(const std::shared_ptr<context>& ctx, const planned_source& from, piece_table batches,
                  const planned_dictionaries& dictionaries);

} // namespace saeta::ipc::detail
