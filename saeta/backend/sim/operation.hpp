// An operation in the queue of a stream.
//
// Order     An operation is ready when it is first in its stream, no gate holds it and everything in `after`
//           is done.
// Thread    Guarded by the lock of its machine.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace saeta::sim {

// Vector clocks: which operations of each stream precede an operation or are known to the host.

/// The position of an operation: the `number`th, counted from 1, of the stream with index `slot` in its
/// machine.
struct stamp {
  std::uint32_t slot = 0;
  std::uint64_t number = 0;

  friend bool operator==(const stamp&, const stamp&) = default;
};

/// The slot of the host's own accesses. No operation waits for the host: its accesses precede everything
/// queued later.
inline constexpr std::uint32_t host_slot = UINT32_MAX;

class vector_clock {
public:
  /// True when the operation precedes the owner of this clock.
  [[nodiscard]] bool covers(stamp when) const noexcept {
    return when.slot < seen_.size() && seen_[when.slot] >= when.number;
  }
  stamp tick(std::uint32_t slot) {
    seen_.resize(std::max<std::size_t>(seen_.size(), std::size_t{slot} + 1));
    return {slot, ++seen_[slot]};
  }
  void join(const vector_clock& other) {
    seen_.resize(std::max(seen_.size(), other.seen_.size()));
    for (std::size_t i = 0; i < other.seen_.size(); ++i) {
      seen_[i] = std::max(seen_[i], other.seen_[i]);
    }
  }

private:
  std::vector<std::uint64_t> seen_; ///< by slot
};

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
