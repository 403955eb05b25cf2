// Which bytes of a filled chunk go straight to their places, and which a kernel puts there.
//
// What      Large copies are placed by the copy of the chunk itself. What a kernel changes, counts or moves bit by bit lands first, and so
//           do small copies: each takes the driver and the link some time of its own. All of a chunk's copies are one call
//           (backend::copy_all).
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <cstddef>
#include <vector>

namespace saeta {

/// Bytes of a chunk.
struct chunk_range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct chunk_route {
  /// Copies of this size go straight to their places: reads of pieces of 32 KiB and more were 1 to 2% faster so than landed and put there
  /// by a kernel (H100).
  static constexpr std::size_t least_placed = 28u << 10;

  std::vector<scatter_step> placed; ///< copies
  std::vector<scatter_step> joined; ///< by a kernel
  std::vector<chunk_range> landed;  ///< what the joined ones read, rising; close ones as one

  /// The route of a chunk that was cut. What this held before is gone.
  void find(const cut_chunk& chunk);
  /// More that lands, no earlier than what does so far.
  void land(std::size_t begin, std::size_t end);
};

} // namespace saeta
