// Checks for an interrupt from time to time in work that is not a wait (base/interrupt.hpp).
#pragma once

#include "saeta/base/interruptible_wait.hpp"

namespace saeta {

/// The hook may wait for a lock of its own (Python's GIL), so long work calls it no more often than needed.
class interrupt_pace {
public:
  /// Calls `check_interrupt` if the last call, or the start, was at least half of `interrupt_interval` ago.
  void check_if_due() {
    const auto now = wait_now();
    if (now - last_ >= interrupt_interval / 2) {
      last_ = now;
      check_interrupt();
    }
  }

private:
  std::chrono::steady_clock::time_point last_ = wait_now();
};

} // namespace saeta
