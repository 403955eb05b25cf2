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

#include <chrono>

namespace saeta {

/// Returns to go on waiting, throws to end the wait.
using interrupt_hook = void (*)();

/// Installs the hook; null removes it. Returns the previous hook. A wait that began without a hook is not
/// interrupted.
interrupt_hook set_interrupt_hook(interrupt_hook hook) noexcept;

/// Calls the hook. @throws what the hook throws; error closed in a cancelled scope (base/cancellation.hpp).
void check_interrupt();

/// The longest time between two calls of `check_interrupt` in a wait.
inline constexpr std::chrono::milliseconds interrupt_interval{50};

} // namespace saeta
