// An operation in the queue of a stream.
//
// Order     An operation is ready when it is first in its stream, no gate holds it and everything in `after`
//           is done.
// Thread    Guarded by the lock of its machine.
#pragma once

#include "saeta/backend/sim/vector_clock.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace saeta::sim {

struct operation;
using operations = std::vector<std::shared_ptr<operation>>;

struct operation {
  stamp when;
  std::uint32_t name = 0;   ///< in the journal's table of names
  std::uint64_t offset = 0; ///< in the arena, of the bytes it touched last; for the report
  std::uint64_t bytes = 0;
  operations after; ///< operations that must be done first
  /// Does one part of the work. Runs with the machine's lock held, so it must not call user code. Empty for
  /// gates and waits.
  std::function<void(unsigned part, unsigned parts)> body;
  std::function<void()> callout; ///< user code, called without the lock
  unsigned parts = 1;            ///< more than one for a slow operation: others can run in between
  unsigned parts_done = 0;
  bool is_copy = false; ///< a copy between devices needs no peer access
  bool held = false;    ///< by a closed gate
  bool running = false; ///< its callout is running
  bool done = false;
};

/// Removes the operations that are done. True when none is left.
inline bool all_done(operations& some) {
  std::erase_if(some, [](const std::shared_ptr<operation>& one) { return one->done; });
  return some.empty();
}

} // namespace saeta::sim
