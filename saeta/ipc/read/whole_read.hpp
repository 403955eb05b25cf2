// A read of all batches of a source at once.
//
// What      Every column of the result, joined or batch by batch, lies in one slab, which one scatter fills
//           (staging/scatter.hpp): one allocation and one planned transfer, whatever the number of batches.
// Owner     The table shares the slab.
// Order     The table is ready on the context's work stream; the host has waited for what was counted and
//           checked.
// Failure   error format naming the batch, the column and the row; budget_exceeded, out_of_memory, io,
//           device. Nothing stays allocated.
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
  const schema* fields = nullptr; ///< of the columns asked for
  /// Batches by number, [first, second); of a stream the second may be beyond its end.
  std::pair<std::int64_t, std::int64_t> batches;
  bool join = true; ///< all batches, else each on its own
  validation check = validation::full;
  bool texts = false; ///< strings are checked to be UTF-8
};

struct whole_result {
  table rows;
  std::int64_t batches = 0; ///< of the source that were read
  std::uint64_t body_bytes = 0;
};

/// Nothing where a plan can't take the source: older metadata, another byte order.
/// @param hook  hears of this read alone.
std::optional<whole_result> read_whole(const std::shared_ptr<context>& ctx, const whole_request& asked,
                                       const progress_hook& hook);

} // namespace saeta::ipc::detail
