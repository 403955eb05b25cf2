// Tables of libarrow in host memory as an ArrowArrayStream for our own imports, cheap for tables of many columns.
//
// What      libarrow's exporter makes some ten objects a column. Here the C structs of all columns of a batch lie in a few
//           arrays that go together. They describe columns of fixed width, strings and binaries; all others are exported by
//           libarrow, one by one, into the same structs. Formats of types and batches of a table are libarrow's.
// Owner     The stream shares the table, and each array the part of it that it shows, until they are released. Columns can't be
//           moved out of their batch, nor fields out of their schema: our imports take them as a whole.
// Thread    Any, one at a time. A release may come on another thread.
// Failure   The callbacks return errno values, as the standard says.
// Standard  Arrow C Data Interface, C Stream Interface (arrow.apache.org/docs/format).
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

extern "C" {
struct ArrowArrayStream;
}

namespace saeta {

/// The batches of a table, cut where a column begins a new chunk. False where some memory is not the CPU's: the target stays
/// as it is.
bool stream_table(std::shared_ptr<arrow::Table> source, ArrowArrayStream& target);

/// The same of one batch, which a batch without rows is, too.
bool stream_batch(const std::shared_ptr<arrow::RecordBatch>& source, ArrowArrayStream& target);

} // namespace saeta
