// Options of contexts with a staging ring so small that the bytes of a test need many of its chunks.
#pragma once

#include "saeta/memory/context.hpp"

#include <algorithm>
#include <cstddef>

namespace saeta::support {

/// A ring whose shared chunks have `chunk_bytes`, a power of two. The chunks of a thread are half as
/// large.
inline staging_options small_ring(std::size_t threads, std::size_t chunk_bytes) {
  return {.threads = threads, .pinned_bytes = (24 + 3 * threads) * chunk_bytes / 2};
}

/// With `slots`, the host's budget has room for so many shared chunks and nothing else.
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
