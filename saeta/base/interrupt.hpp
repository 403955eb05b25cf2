// Interrupts: how a program ends a wait of the library, as a Python program does with Ctrl-C.
//
// What      A wait that may be long calls `check_interrupt` before it begins and at least every
//           `interrupt_interval` until it ends. `check_interrupt` calls the hook of the process. The hook
//           returns to let the wait continue, or throws to end it. The wait then undoes what it has done and
//           passes the exception on.
// Owner     The program that embeds the library installs the hook, once. The default is null: waits are not
//           interrupted.
// Thread    The hook runs on the thread that waits, with no lock of the library held. It may take locks of
//           its own (Python's GIL) and may call the library. It must not block for long, because that delays
//           the wait.

#pragma once

#include "saeta/base/export.hpp"

#include <atomic>
#include <chrono>

namespace SAETA_EXPORT saeta {

/// Returns to go on waiting, throws to end the wait.
using interrupt_hook = void (*)();

/// Installs the hook; null removes it. Returns the previous hook. A wait that began without a hook is not
/// interrupted.
interrupt_hook set_interrupt_hook(interrupt_hook hook) noexcept;

/// Calls the hook. @throws what the hook throws; error closed in a cancelled scope (base/interrupt.hpp).
void check_interrupt();

/// The longest time between two calls of `check_interrupt` in a wait.
inline constexpr std::chrono::milliseconds interrupt_interval{50};

// Cancellation: ends the waits of a thread when another thread closes the object that it waits for.
//
// What      Inside a scope, `check_interrupt` throws as soon as the flag is set. So
//           every wait of the thread ends, and work that is not a wait checks the flag as often as it checks
//           for an interrupt.
// Owner     The flag must outlive the scope.
// Thread    A scope applies to the thread that made it. Scopes nest, and the innermost one counts. Any thread
//           may set the flag.
// Failure   error closed, from the call that waits or works.
//
// @code
// std::atomic<bool> closing = false; // another thread sets it; it outlives the scope
// const cancellation_scope scope(closing);
// const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
// if (ctx->memory_budget()->charge_by(4096, deadline)) { // error closed soon after `closing` is set
//   ctx->memory_budget()->refund(4096);
// }
// @endcode
class cancellation_scope {
public:
  explicit cancellation_scope(const std::atomic<bool>& cancelled) noexcept : cancellation_scope(&cancelled) {}
  /// @param cancelled  null: nothing ends the waits
  explicit cancellation_scope(const std::atomic<bool>* cancelled) noexcept;
  cancellation_scope(const cancellation_scope&) = delete;
  cancellation_scope& operator=(const cancellation_scope&) = delete;
  ~cancellation_scope();
  /// The flag of the calling thread; null outside of a scope.
  [[nodiscard]] static const std::atomic<bool>* current() noexcept;

private:
  const std::atomic<bool>* outer_;
};

} // namespace saeta
