// Options of a context's staging ring (staging/staging_ring.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace saeta {

struct staging_options {
  std::size_t threads = 0; ///< threads that fill chunks; 0: one for each core but one of eight, at most 16
  /// Maximum bytes of page-locked memory. The ring has 12 chunks that all threads fill together, and 3 for
  /// each thread, which are half as large. Sizes are powers of two, as large as these bytes allow: at least
  /// 1 KiB and 512 bytes, at most 8 MiB and 4 MiB. More than 96 MiB and 12 MiB a thread are never used.
  std::uint64_t pinned_bytes = std::numeric_limits<std::uint64_t>::max();
};

} // namespace saeta
