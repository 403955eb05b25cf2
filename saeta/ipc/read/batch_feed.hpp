// The batches of a table as libarrow's writer takes them, by windows.
//
// What      A window has as many batches as have `window_bytes`, and at least one. From a device context each is one transfer into one
//           allocation, which lives until the last of its batches is dropped. A batch with more bytes than that stays on the
//           device, and its window says how to bring them; the columns that can't be brought in parts come as a whole. On a host
//           context batches are views.
// Owner     Borrows the dictionaries, and the table through them.
// Thread    One.
// Failure   As the download: thrown by `next`.
#pragma once

#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace saeta::ipc::detail {

struct fed_window {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::shared_ptr<const column_stream> bytes; ///< of the one batch, where they have not been brought
};

class batch_feed {
public:
  batch_feed(const written_dictionaries& dictionaries, std::uint64_t window_bytes);

  /// Without batches after the last one.
  fed_window next();

private:
  [[nodiscard]] bool is_streamed(const batch& each) const;
  [[nodiscard]] fed_window streamed(std::size_t index) const;

  const written_dictionaries& dictionaries_;
  std::shared_ptr<arrow::Schema> plain_; ///< of the table that has indices in place of dictionaries
  std::uint64_t window_bytes_;
  std::size_t next_ = 0;
};

} // namespace saeta::ipc::detail
