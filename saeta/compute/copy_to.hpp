// Tables moved between the devices of this process, and columns copied on their device.
//
// What      A table in the context of another device. Between the host and a device it is one planned
//           transfer for each batch, or for all batches on the way to the host. From one device to another it
//           is one copy by peer access (transfer/peer_copy.hpp). Devices that can't reach each other exchange
//           it through the host, by their staging rings; `counter_values::staged` counts that. Types,
//           symbols and dictionaries stay as they are. What no row refers to stays behind if it is the larger
//           part (compute/compact.hpp). On its own device a table stays where it is.
// Owner     The result is charged to the budget of the target context; on the host, to the budget of the
//           host.
// Order     Runs after the last writes of the columns. A result on the host can be read at once, one on a
//           device is ready on the target's work stream.
// Failure   download_forbidden, also on the way through the host; budget_exceeded, out_of_memory, closed,
//           device. Nothing stays allocated.

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/column/column.hpp"
#include "saeta/column/table.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace SAETA_EXPORT saeta {

[[nodiscard]] table copy_to(const table& source, const std::shared_ptr<context>& target);

/// Copies the batches to another device through host memory, a window of batches at a time. `copy_to` does
/// so where the devices have no peer access.
[[nodiscard]] std::vector<batch> copy_through_host(const table& source,
                                                   const std::shared_ptr<context>& target);

/// Copies columns on their device, so that the result does not depend on the memory of others.
///
/// What      Copies values, bitmaps, offsets, bytes, children and dictionaries as they are into one
///           allocation, by one kernel. Fixed-width buffers are copied for the window of their rows. What
///           offsets, views and run ends point to is copied as a whole, so that no value has to be read.
///           Columns that share a dictionary share its copy. A dictionary is not copied if its memory is the
///           context's own.
/// Order     As for `copy_to`. The host does not wait.
/// Failure   invalid_argument: columns of another device. After a failure nothing was queued.
[[nodiscard]] std::vector<column> copy_columns(const std::shared_ptr<context>& ctx,
                                               std::span<const column> columns, const std::string& tag);

} // namespace saeta
