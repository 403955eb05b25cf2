// Vector clocks: which operations of each stream precede an operation or are known to the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace saeta::sim {

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

} // namespace saeta::sim
