// Zeros behind the buffers of unions, because libarrow's writer reads past their end.
//
// What      The writer slices the type ids and offsets of a union at its offset but keeps the length of the
//           whole buffer. It reads up to `offset` rows past the end (libarrow 26, GetTruncatedBuffer in
//           ipc/writer.cc) and writes them into the file as padding. So buffers of unions that may have an
//           offset are copied, with zeros behind them.
// Owner     The copies belong to the batch that is returned.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

namespace saeta::bridge {

/// Returns the batch with such copies, or `source` itself if nothing had to be copied.
std::shared_ptr<arrow::RecordBatch> with_union_slack(const std::shared_ptr<arrow::RecordBatch>& source);

} // namespace saeta::bridge
