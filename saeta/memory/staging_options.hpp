// Options of a context's staging ring (staging/staging_ring.hpp) and of the host memory for downloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace saeta {

struct staging_options {
  std::size_t threads = 0;            ///< threads that fill chunks; 0: one per core, at most 16
  std::size_t chunk_bytes = 8u << 20; ///< maximum size of a pinned chunk, and of one copy
  std::size_t shared_chunks = 12;     ///< chunks that all threads fill together, at least 1
  /// Chunks that a thread fills alone, for sources that are read in order (compressed data).
  std::size_t chunks_per_thread = 3;
  /// Bytes of host memory that are kept for later downloads; nullopt: an eighth of the machine's memory.
  std::optional<std::uint64_t> host_cache{};
};

} // namespace saeta
