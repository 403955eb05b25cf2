// A wait on a condition variable that ends at a deadline and can be interrupted (base/interrupt.hpp).

#pragma once

#include "saeta/base/export.hpp"
#include "saeta/base/interrupt.hpp"

#include <chrono>

namespace SAETA_EXPORT saeta {

/// The clock that waits compare their deadlines with: the steady clock, unless a test has replaced it.
using wait_clock = std::chrono::steady_clock::time_point (*)();
[[nodiscard]] std::chrono::steady_clock::time_point wait_now();
/// Null restores the steady clock. Returns the previous clock.
wait_clock set_wait_clock(wait_clock clock) noexcept;

/// Whether a wait of this thread may be interrupted.
[[nodiscard]] bool has_interrupt_hook() noexcept;
/// How long this thread may wait between two checks. Shorter inside a cancellation scope, because another
/// thread may be waiting for this wait to end (base/interrupt.hpp).
[[nodiscard]] std::chrono::milliseconds wait_interval() noexcept;

/// Waits on the condition variable `changed` until `done()` or `deadline`. Returns `done()`.
/// @param lock  held by the caller. It is released while the hook runs and held again on return, also after
/// an exception.
/// @throws what the hook throws.
template <class Changed, class Lock, class Done>
bool wait_interruptibly(Changed& changed, Lock& lock, std::chrono::steady_clock::time_point deadline,
                        Done done) {
  struct unlocked {
    Lock& lock;
    explicit unlocked(Lock& held) : lock(held) { lock.unlock(); }
    unlocked(const unlocked&) = delete;
    unlocked& operator=(const unlocked&) = delete;
    ~unlocked() { lock.lock(); }
  };
  while (!done()) {
    const auto started = wait_now();
    if (started >= deadline) {
      return false;
    }
    const bool may_be_interrupted = has_interrupt_hook();
    if (may_be_interrupted) {
      const unlocked for_the_hook(lock);
      check_interrupt();
    }
    if (!done()) { // if it became true while the hook ran, no notification follows
      const auto part = wait_interval();
      const bool in_parts = may_be_interrupted && deadline - started > part;
      changed.wait_until(lock, in_parts ? started + part : deadline);
    }
  }
  return true;
}

/// Waits until `done()`, without a deadline.
template <class Changed, class Lock, class Done>
void wait_interruptibly(Changed& changed, Lock& lock, Done done) {
  wait_interruptibly(changed, lock, std::chrono::steady_clock::time_point::max(), done);
}

/// Checks for an interrupt from time to time in work that is not a wait. The hook may wait for a lock of its
/// own (Python's GIL), so long work calls it no more often than needed.
///
/// @code
/// interrupt_pace pace;
/// std::int64_t rows = 0;
/// for (const batch& part : orders.batches()) {
///   pace.check_if_due(); // throws what the interrupt hook throws
///   rows += part.rows;
/// }
/// @endcode
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
