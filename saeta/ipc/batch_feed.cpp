#include "saeta/ipc/detail/batch_feed.hpp"

#include "saeta/ipc/detail/arrow_bridge.hpp"
#include "saeta/ipc/detail/union_slack.hpp"

#include <arrow/record_batch.h>

namespace saeta::ipc::detail {

batch_feed::batch_feed(const written_dictionaries& dictionaries, std::shared_ptr<arrow::Schema> described)
    : dictionaries_(dictionaries), described_(std::move(described)),
      plain_(arrow_schema(dictionaries.indices().fields())), count_(dictionaries.indices().batches().size()),
      policy_(dictionaries.indices().home()->on_host() ? std::launch::deferred : std::launch::async) {
  start(0);
}

std::shared_ptr<arrow::RecordBatch> batch_feed::prepare(std::size_t index) const {
  const auto plain = export_record_batch(dictionaries_.indices(), index, plain_);
  return with_union_slack(dictionaries_.restore(index, *plain, described_));
}

void batch_feed::start(std::size_t index) {
  if (index < count_) {
    ahead_ = std::async(policy_, [this, index] { return prepare(index); });
  }
}

std::shared_ptr<arrow::RecordBatch> batch_feed::next() {
  if (next_ == count_) {
    return nullptr;
  }
  auto ready = ahead_.get();
  start(++next_);
  return ready;
}

} // namespace saeta::ipc::detail
