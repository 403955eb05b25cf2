// Reads all batches of a source at once.
//
// What      All columns of the result, joined or per batch, are in one slab that one scatter fills
//           (staging/scatter.hpp): one allocation and one planned transfer, however many batches there are.
// Owner     The columns of the table share the slab.
// Order     The table is ready on the context's work stream. The host has waited for the counts and checks.
// Failure   error format with the batch, the column and the row; budget_exceeded, out_of_memory, io, device.
//           A failed read leaves no allocations.
#pragma once

#include "saeta/column/table.hpp"
#include "saeta/interop/validation.hpp"
#include "saeta/ipc/container.hpp"
#include "saeta/ipc/io/source.hpp"
#include "saeta/ipc/progress.hpp"
#include "saeta/ipc/read/projection.hpp"

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace saeta::ipc::detail {

struct whole_request {
  source from;
  container format = container::file;
  std::shared_ptr<arrow::Schema> described; ///< of the source
  const projection* projected = nullptr;
  const schema* fields = nullptr; ///< of the requested columns
  /// Batches [first, second) by number; second may be beyond the end of a stream.
  std::pair<std::int64_t, std::int64_t> batches;
  bool join = true; ///< join all batches; false: keep each one
  validation check = validation::full;
  bool texts = false; ///< also check that strings are UTF-8
};

struct whole_result {
  table rows;
  std::int64_t batches = 0; ///< batches of the source that were read
  std::uint64_t body_bytes = 0;
};

/// Returns nullopt if a plan can't take the source, for example older metadata or another byte order.
/// @param hook  receives the progress of this read alone.
std::optional<whole_result> read_whole(const std::shared_ptr<context>& ctx, const whole_request& asked,
                                       const progress_hook& hook);

} // namespace saeta::ipc::detail
