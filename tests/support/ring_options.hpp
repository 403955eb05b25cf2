// Context options with a staging ring that is so small that a few bytes need many of its chunks.
#pragma once

#include "saeta/memory/context.hpp"

#include <algorithm>
#include <cstddef>

namespace saeta::support {

/// A ring whose shared chunks have `chunk_bytes` (a power of two). Chunks of a single thread have half as
/// many.
inline staging_options small_ring(std::size_t threads, std::size_t chunk_bytes) {
  return {.threads = threads, .pinned_bytes = (24 + 3 * threads) * chunk_bytes / 2};
}

/// If `slots` is not 0, the host's budget has room for exactly this number of shared chunks.
inline context_options ring_options(std::size_t threads, std::size_t chunk_bytes, std::size_t slots = 0) {
  context_options made;
  made.staging = small_ring(threads, chunk_bytes);
  if (slots != 0) {
    constexpr std::size_t smallest_block = 4096;
    made.pinned_budget = budget::create("host", slots * std::max(chunk_bytes, smallest_block));
  }
  return made;
}

} // namespace saeta::support
