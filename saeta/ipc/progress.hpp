// How far a read or a write has come.
#pragma once

#include <cstdint>
#include <functional>

namespace saeta::ipc {

/// Rows and bytes of bodies read or written so far, and the total number of batches (-1: a stream, not known).
struct progress {
  std::int64_t batches = 0;
  std::int64_t total_batches = -1;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
};
using progress_hook = std::function<void(const progress&)>;

} // namespace saeta::ipc
