#include "saeta/ipc/write/batch_feed.hpp"

#include "saeta/base/text.hpp"
#include "saeta/interop/arrow/batches.hpp"
#include "saeta/ipc/arrow_status.hpp"
#include "saeta/ipc/format/arrow_bridge.hpp"
#include "saeta/ipc/write/union_slack.hpp"
#include "saeta/transfer/download.hpp"

#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>

namespace saeta::ipc::detail {
namespace {

/// Some columns of one batch of a table.
struct selection {
  schema fields;
  batch rows;
  std::vector<std::size_t> numbers; ///< columns of the table

  void add(const table& source, const batch& of, std::size_t number) {
    fields.fields.push_back(source.fields().fields[number]);
    rows.columns.push_back(of.columns[number]);
    numbers.push_back(number);
  }
  void put(const arrow::RecordBatch& from, std::vector<std::shared_ptr<arrow::ArrayData>>& columns) const {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      columns[numbers[i]] = from.column_data(static_cast<int>(i));
    }
  }
};

} // namespace

batch_feed::batch_feed(const written_dictionaries& dictionaries, std::uint64_t window_bytes)
    : dictionaries_(dictionaries), plain_(arrow_schema(dictionaries.indices().fields())),
      window_bytes_(window_bytes) {}

fed_window batch_feed::next() {
  const table& source = dictionaries_.indices();
  const std::size_t end = end_of_window(source.batches(), next_, window_bytes_);
  if (end - next_ == 1 && is_streamed(source.batches()[next_])) {
    return streamed(next_++);
  }
  auto window = export_record_batches(source, next_, end - next_, plain_);
  for (auto& each : window) {
    each = with_union_slack(dictionaries_.restore(next_++, *each));
  }
  return {std::move(window), nullptr};
}

bool batch_feed::is_streamed(const batch& each) const {
  if (dictionaries_.indices().ctx()->on_host() || host_accessible(each)) {
    return false;
  }
  std::uint64_t bytes = 0;
  for (const column& part : each.columns) {
    bytes += part.byte_size();
  }
  return bytes > window_bytes_;
}

fed_window batch_feed::streamed(std::size_t index) const {
  const table& source = dictionaries_.indices();
  const batch& whole = source.batches()[index];
  selection in_parts;
  selection at_once;
  in_parts.rows.rows = at_once.rows.rows = whole.rows;
  for (std::size_t i = 0; i < whole.columns.size(); ++i) {
    const bool parts = column_stream::supports(whole.columns[i]) && !dictionaries_.will_rewrite(i);
    (parts ? in_parts : at_once).add(source, whole, i);
  }
  std::vector<std::shared_ptr<arrow::ArrayData>> columns(whole.columns.size());
  streamed_rows rows = export_streamed(source.ctx(), in_parts.rows, static_cast<std::size_t>(window_bytes_));
  in_parts.put(*take(arrow::ImportRecordBatch(&rows.array.get(), arrow_schema(in_parts.fields)),
                     concat("batch ", index)),
               columns);
  if (!at_once.numbers.empty()) {
    const auto described = arrow_schema(at_once.fields);
    const table part = table::make(source.ctx(), at_once.fields, {at_once.rows});
    at_once.put(*with_union_slack(export_record_batches(part, 0, 1, described).front()), columns);
  }
  const auto made = arrow::RecordBatch::Make(plain_, whole.rows, std::move(columns));
  return {{dictionaries_.restore(index, *made)}, std::move(rows.bytes)};
}

} // namespace saeta::ipc::detail
