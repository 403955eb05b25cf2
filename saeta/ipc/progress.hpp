// Progress of a read or a write.
#pragma once

#include <cstdint>
#include <functional>

namespace saeta::ipc {

/// Batches, rows and body bytes read or written so far, and the total number of batches (-1: a stream,
/// unknown).
struct progress {
  std::int64_t batches = 0;
  std::int64_t total_batches = -1;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
};
using progress_hook = std::function<void(const progress&)>;

} // namespace saeta::ipc
