// Ending what another thread waits for: an object is closed while a thread reads for it.
//
// What      Inside a scope `check_interrupt` (base/interrupt.hpp) throws as soon as the flag is set: every wait of the thread ends, and
//           work that goes on looks as often as for an interrupt.
// Owner     The flag outlives the scope.
// Thread    A scope is the thread's own, and the inner one counts; any thread sets the flag.
// Failure   error closed, from whatever waits.
#pragma once

#include <atomic>

namespace saeta {

class cancellation_scope {
public:
  explicit cancellation_scope(const std::atomic<bool>& cancelled) noexcept;
  cancellation_scope(const cancellation_scope&) = delete;
  cancellation_scope& operator=(const cancellation_scope&) = delete;
  ~cancellation_scope();

private:
  const std::atomic<bool>* outer_;
};

} // namespace saeta
