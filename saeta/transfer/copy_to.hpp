// Tables moved between the host and a device of this process.
//
// What      A table in the context of another device: uploaded, or downloaded, by one planned transfer for
//           each batch, or for all batches on the way to the host. Types, symbols and dictionaries stay as
//           they are. On its own device a table stays where it is.
// Owner     The result is charged to the budget of the target context; on the host, to the budget of the
//           host.
// Order     Runs after the last writes of the columns. A result on the host can be read at once, one on a
//           device is ready on the target's work stream.
// Failure   unsupported from one GPU to another; download_forbidden, budget_exceeded, out_of_memory, closed.
//           Nothing stays allocated.
#pragma once

#include "saeta/column/table.hpp"

#include <memory>

namespace saeta {

table copy_to(const table& source, const std::shared_ptr<context>& target);

} // namespace saeta
