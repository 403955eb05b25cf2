// Room behind the buffers of unions, which libarrow's writer reads past.
//
// What      The writer cuts the type ids and offsets of a union at its offset, and then takes as many bytes as the whole buffer has:
//           up to `offset` rows past the end (libarrow 26, GetTruncatedBuffer in ipc/writer.cc). What it reads there is written
//           into the file as padding. So these buffers are copied, with zeros behind them, where an offset can stand before them.
// Owner     The copies belong to the batch that is returned.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

namespace saeta::ipc::detail {

/// The same batch; shared where nothing had to be copied.
std::shared_ptr<arrow::RecordBatch> with_union_slack(const std::shared_ptr<arrow::RecordBatch>& source);

} // namespace saeta::ipc::detail
