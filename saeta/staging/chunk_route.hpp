// Decides which bytes of a filled chunk go straight to their places and which a kernel puts there.
//
// What      The copy of the chunk itself places large copies. Bytes that a kernel changes, counts or moves
//           bit by bit land in device memory first. Small copies land too, because each separate copy costs
//           the driver and the link some time. All copies of a chunk are one call (backend::copy_all).
#pragma once

#include "saeta/staging/chunk_cutter.hpp"

#include <cstddef>
#include <vector>

namespace saeta {

/// Bytes [begin, end) of a chunk.
struct chunk_range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct chunk_route {
  /// Copies of at least this many bytes go straight to their places. The driver takes up to a microsecond
  /// for each, one after the other: on cores at 2.1 GHz (H200), pieces of 32 KiB went at 24 to 35 GB/s this
  /// way and at 42 to 46 by landing and a kernel. On faster cores (H100) they went 1 to 2% faster this way.
  static constexpr std::size_t least_placed = 64u << 10;

  std::vector<scatter_step> placed; ///< copies that go straight to their places
  std::vector<scatter_step> joined; ///< steps for a kernel
  std::vector<chunk_range> landed;  ///< ranges that `joined` reads, rising; close ones are merged

  /// Finds the route of a cut chunk. Replaces the previous route.
  void find(const cut_chunk& chunk);
  /// Adds a range that lands. It must not begin before the last one added.
  void land(std::size_t begin, std::size_t end);
};

} // namespace saeta
