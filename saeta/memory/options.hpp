// Options that a context keeps for upper layers: of spilling and of the staging ring.

#pragma once

#include "saeta/base/export.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace SAETA_EXPORT saeta {

/// Options of spilling: the tiers for unused tables, their limits, and when tables move (spill/spill.hpp).
struct spill_options {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  /// Limits of the tiers, in bytes. Memory is also charged to the budget of the host.
  std::optional<std::uint64_t> pinned{}; ///< page-locked memory; nullopt: an eighth of the machine's memory
  std::uint64_t pageable = unlimited;    ///< ordinary host memory
  std::uint64_t files = unlimited;
  std::string folder{};  ///< for the files; empty: no table goes to a file
  bool compress = false; ///< tables leave the device compressed where that makes them smaller
  /// Shares of a budget. A new handle that finds more than `begin` in use makes room until at most `end` is
  /// in use. So does a request that has no room. The distance keeps a program near its limit from spilling at
  /// every request. Tables move on from a tier by the same shares of its limit.
  double begin = 0.85;
  double end = 0.65;
};

/// Options of a context's staging ring (staging/staging_ring.hpp).
struct staging_options {
  std::size_t threads = 0; ///< threads that fill chunks; 0: one for each core, at most 16
  /// Maximum bytes of page-locked memory. The ring has 12 chunks that all threads fill together, and 3 for
  /// each thread, which are half as large. Sizes are powers of two, as large as these bytes allow: at least
  /// 1 KiB and 512 bytes, at most 8 MiB and 4 MiB. More than 96 MiB and 12 MiB a thread are never used.
  std::uint64_t pinned_bytes = std::numeric_limits<std::uint64_t>::max();
};

} // namespace saeta
