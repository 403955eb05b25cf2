// Options of spilling: the tiers for unused tables, their limits, and when tables move (spill/spill.hpp).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace saeta {

struct spill_options {
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  /// Limits of the tiers, in bytes. Memory is also charged to the budget of the host.
  std::optional<std::uint64_t> pinned{}; ///< page-locked memory; nullopt: an eighth of the machine's memory
  std::uint64_t pageable = unlimited;    ///< ordinary host memory
  std::uint64_t files = unlimited;
  std::string folder{}; ///< for the files; empty: no table goes to a file
  /// Shares of a budget. A new handle that finds more than `begin` in use makes room until at most `end` is
  /// in use. So does a request that has no room. The distance keeps a program near its limit from spilling at
  /// every request. Tables move on from a tier by the same shares of its limit.
  double begin = 0.85;
  double end = 0.65;
};

} // namespace saeta
