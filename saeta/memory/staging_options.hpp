// How the staging ring of a context works (staging/staging_ring.hpp), and where downloads land.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace saeta {

struct staging_options {
  std::size_t threads = 0;            ///< that fill chunks; 0: the machine's, at most 16
  std::size_t chunk_bytes = 8u << 20; ///< of one pinned chunk, and of one copy, at most
  std::size_t shared_chunks = 12;     ///< that all threads fill together, at least 1
  /// Chunks that a thread fills alone, where a source is read in its order: what is compressed.
  std::size_t chunks_per_thread = 3;
  /// Bytes of host memory that are kept for the next downloads; nothing: an eighth of the machine's.
  std::optional<std::uint64_t> host_cache{};
};

} // namespace saeta
