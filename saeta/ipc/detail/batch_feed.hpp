// The batches of a table as libarrow's writer takes them, one prepared ahead.
//
// What      From a device context a batch is downloaded while its predecessor is being written, on a thread of its own;
//           never more than one ahead. On a host context batches are views, and there is nothing to prepare.
// Owner     Borrows the dictionaries, and the table through them. The destructor waits for the batch under way.
// Thread    One.
// Failure   As the download: thrown by `next`.
#pragma once

#include "saeta/ipc/detail/written_dictionaries.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <future>
#include <memory>

namespace saeta::ipc::detail {

class batch_feed {
public:
  batch_feed(const written_dictionaries& dictionaries, std::shared_ptr<arrow::Schema> described);

  /// Null after the last batch.
  std::shared_ptr<arrow::RecordBatch> next();

private:
  [[nodiscard]] std::shared_ptr<arrow::RecordBatch> prepare(std::size_t index) const;
  void start(std::size_t index);

  const written_dictionaries& dictionaries_;
  std::shared_ptr<arrow::Schema> described_;
  std::shared_ptr<arrow::Schema> plain_; ///< of the table that has indices in place of dictionaries
  std::size_t count_;
  std::size_t next_ = 0;
  std::launch policy_;
  std::future<std::shared_ptr<arrow::RecordBatch>> ahead_;
};

} // namespace saeta::ipc::detail
