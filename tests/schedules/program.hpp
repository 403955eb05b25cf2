// A random program over the memory plane on the simulated device, drawn from a seed.
//
// What      Allocates, writes, reads, copies, slices, exports, imports, drops, trims, reserves, captures and fails, on
//           the context's streams and on streams of others. It knows what every buffer must hold.
// Order     One thread, no thread of the library: the same seed gives the same operations, the same schedule and the same
//           report.
// Finds     Missing edges (the device sees them whatever the schedule), wrong bytes, wrong counters, leaks.
#pragma once

#include <cstdint>
#include <string>

namespace saeta::schedules {

struct outcome {
  bool clean = true;
  std::string report; ///< what was found, then the device's report; empty when clean
};

/// @param steps  operations of the program before everything is dropped.
[[nodiscard]] outcome run_program(std::uint64_t seed, unsigned steps);

} // namespace saeta::schedules
