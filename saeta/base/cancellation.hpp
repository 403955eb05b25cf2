// Cancellation: ends the waits of a thread when another thread closes the object that it waits for.
//
// What      Inside a scope, `check_interrupt` (base/interrupt.hpp) throws as soon as the flag is set. So
//           every wait of the thread ends, and work that is not a wait checks the flag as often as it checks
//           for an interrupt.
// Owner     The flag must outlive the scope.
// Thread    A scope applies to the thread that made it. Scopes nest, and the innermost one counts. Any thread
//           may set the flag.
// Failure   error closed, from the call that waits or works.
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
