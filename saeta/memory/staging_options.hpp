// How the staging ring of a context works (transfer/staging_ring.hpp).
#pragma once

#include <cstddef>

namespace saeta {

struct staging_options {
  std::size_t threads = 0;            ///< that fill chunks, each with a stream; 0: the machine's, at most 8
  std::size_t chunk_bytes = 4u << 20; ///< of one pinned chunk, and of one copy
  std::size_t chunks_per_thread = 3;
};

} // namespace saeta
