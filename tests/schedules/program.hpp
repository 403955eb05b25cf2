// A random program that uses buffers on simulated devices; its operations are drawn from a seed.
//
// Steps     Allocates, writes, reads, copies, slices, exports, imports, drops, trims, reserves, captures and
//           fails, on streams of the contexts and on streams of other libraries. Optionally keeps spillable
//           tables. The program knows the expected bytes of every buffer.
// Order     Deterministic: the same seed and options give the same operations, schedule and report. Saeta has
//           no background thread, and only one thread runs at a time (some tokens end on a second one).
// Finds     Missing ordering between accesses (the device detects it under any schedule), waits for unrelated
//           streams, wrong bytes, wrong counters, leaks, and captures of other libraries that were
//           invalidated.
#pragma once

#include <cstdint>
#include <string>

namespace saeta::schedules {

struct program_options {
  unsigned steps = 120; ///< number of operations, after which everything is dropped
  /// Other libraries capture graphs without announcing it, beginning in the middle of operations of Saeta,
  /// and Saeta must not invalidate their captures. There is one exception: after a consumer on unknown
  /// streams has released a view, an event over all work of the device is needed. Until it is recorded, an
  /// operation that uses the memory or tries to record the event may invalidate a capture.
  bool captures = false;
  unsigned devices = 1; ///< 1 or 2 devices of one machine; buffers are copied between both
  bool spills = false;  ///< keeps spillable tables; needs a build with IPC
  unsigned fail_percent =
      0; ///< chance that a call of the backend fails; bytes that it was to change are then unknown
};

struct outcome {
  bool clean = true;
  std::string report; ///< the failures, then the report of the device; empty if the program passed
};

[[nodiscard]] outcome run_program(std::uint64_t seed, const program_options& chosen);

} // namespace saeta::schedules
