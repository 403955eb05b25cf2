// The batches of a table in host memory, window by window.
//
// What      A window has as many batches as fit into `window_bytes`, at least one. From a device context each
//           window is one transfer into one allocation, which lives until its last batch is dropped. A larger
//           batch stays on the device, and its window has a column stream that downloads its bytes. Columns
//           that can't be downloaded in parts are downloaded as a whole. On a host context batches are views.
// Owner     Borrows the dictionaries and, through them, the table.
// Thread    One.
// Failure   `next` throws the errors of the download.
#pragma once

#include "saeta/ipc/write/written_dictionaries.hpp"
#include "saeta/transfer/column_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace saeta::ipc::detail {

struct fed_window {
  std::vector<host_batch> batches;
  std::shared_ptr<const column_stream> bytes; ///< of the single batch, if they are on the device; or null
};

class batch_feed {
public:
  batch_feed(const written_dictionaries& dictionaries, std::uint64_t window_bytes);

  /// Returns the next window; one without batches at the end.
  fed_window next();

private:
  [[nodiscard]] bool is_streamed(const batch& each) const;
  [[nodiscard]] fed_window streamed(std::size_t index) const;

  const written_dictionaries& dictionaries_;
  std::uint64_t window_bytes_;
  std::size_t next_ = 0;
};

} // namespace saeta::ipc::detail
