// An operation: what a stream queues.
//
// Order     It is ready when it heads its stream, is not held by a gate and everything in `after` is done.
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
  std::uint64_t offset = 0; ///< of what it writes in its arena, for the trace
  std::uint64_t bytes = 0;
  operations after; ///< of other streams
  /// Does one part of the work; with the lock of the machine held, so it calls nobody. Empty for gates and waits.
  std::function<void(unsigned part, unsigned parts)> body;
  std::function<void()> callout; ///< work of others, done without the lock
  unsigned parts = 1;            ///< more than one for slow operations: others run in between
  unsigned parts_done = 0;
  bool is_copy = false; ///< between devices it needs no peer access
  bool held = false;    ///< by a closed gate
  bool running = false; ///< its callout is in progress
  bool done = false;
};

/// Takes out what is done; true when nothing is left.
inline bool all_done(operations& some) {
  std::erase_if(some, [](const std::shared_ptr<operation>& one) { return one->done; });
  return some.empty();
}

} // namespace saeta::sim
