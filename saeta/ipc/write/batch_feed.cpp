#include "saeta/ipc/write/batch_feed.hpp"

#include "saeta/interop/arrow/batches.hpp"
#include "saeta/transfer/download.hpp"

#include <utility>

namespace saeta::ipc::detail {
namespace {

/// Some columns of one batch of a table.
struct selection {
  batch rows;
  std::vector<std::size_t> numbers; ///< columns of the table

  void add(const batch& of, std::size_t number) {
    rows.columns.push_back(of.columns[number]);
    numbers.push_back(number);
  }
  void put(const host_batch& from, std::vector<host_array>& columns) const {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      columns[numbers[i]] = from.arrays[i];
    }
  }
};

} // namespace

batch_feed::batch_feed(const written_dictionaries& dictionaries, std::uint64_t window_bytes)
    : dictionaries_(dictionaries), window_bytes_(window_bytes) {}

fed_window batch_feed::next() {
  const table& source = dictionaries_.indices();
  const std::size_t end = end_of_window(source.batches(), next_, window_bytes_);
  if (end - next_ == 1 && is_streamed(source.batches()[next_])) {
    return streamed(next_++);
  }
  std::vector<host_batch> window = host_batches(source.ctx(), source.batches().subspan(next_, end - next_));
  for (host_batch& each : window) {
    dictionaries_.restore(next_++, each);
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
    (parts ? in_parts : at_once).add(whole, i);
  }
  host_batch made;
  made.rows = whole.rows;
  made.arrays.resize(whole.columns.size());
  streamed_rows rows = stream_rows(source.ctx(), in_parts.rows, static_cast<std::size_t>(window_bytes_));
  in_parts.put(rows.rows, made.arrays);
  auto owners = std::make_shared<std::vector<std::shared_ptr<void>>>(1, rows.rows.keepalive);
  if (!at_once.numbers.empty()) {
    const host_batch there = std::move(host_batches(source.ctx(), std::span(&at_once.rows, 1)).front());
    at_once.put(there, made.arrays);
    owners->push_back(there.keepalive);
  }
  made.keepalive = std::move(owners);
  dictionaries_.restore(index, made);
  fed_window window;
  window.batches.push_back(std::move(made));
  window.bytes = std::move(rows.bytes);
  return window;
}

} // namespace saeta::ipc::detail
