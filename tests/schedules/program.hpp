// A random program over the memory plane on simulated devices, drawn from a seed.
//
// What      Allocates, writes, reads, copies, slices, exports, imports, drops, trims, reserves, captures and
//           fails, on the contexts' streams and on streams of others. It may keep tables that leave the
//           device when there is no room, and come back. It knows what every buffer must hold.
// Order     No thread of the library, and one thread at a time (tokens end on others): the same seed and
//           options give the same operations, the same schedule and the same report.
// Finds     Missing edges (the device sees them whatever the schedule), edges between unrelated streams,
//           wrong bytes, wrong counters, leaks, and captures of other libraries that were ended.
#pragma once

#include <cstdint>
#include <string>

namespace saeta::schedules {

struct program_options {
  unsigned steps = 120; ///< operations of the program before everything is dropped
  /// Other libraries capture graphs unannounced, beginning in the middle of our operations, and nobody may
  /// end their captures. There is one exception: a consumer whose streams are unknown gives back a view. The
  /// end of the view needs an event after all work. Until that event is recorded, an operation that uses the
  /// memory or tries the event again may end a capture.
  bool captures = false;
  unsigned devices = 1; ///< 1 or 2, of one machine; buffers then live on either and are copied between them
  bool spills = false;  ///< keeps tables that leave the device; needs a build with IPC
  unsigned fail_percent =
      0; ///< chance that a call of the driver fails; contents are then unknown where it hit
};

struct outcome {
  bool clean = true;
  std::string report; ///< what was found, then the device's report; empty when clean
};

[[nodiscard]] outcome run_program(std::uint64_t seed, const program_options& chosen);

} // namespace saeta::schedules
