// Interrupts: how a program ends a wait of the library, as a Python program does with Ctrl-C.
//
// What      A wait that may last calls `check_interrupt` before it begins to wait and at least every `interrupt_interval`
//           until it ends. That calls the hook, one for the process. The hook returns to let the wait go on, or throws to
//           end it: the wait undoes what it has done so far and passes the exception on.
// Owner     Whoever embeds the library installs the hook, once. Null, the default: waits are not interrupted.
// Thread    The hook is called on the thread that waits, whichever that is, without a lock of the library held. It may take
//           locks of its own (Python's GIL), may call the library, and must not wait for long: it adds to the wait.
#pragma once

#include <chrono>

namespace saeta {

/// Returns to go on waiting, throws to end the wait.
using interrupt_hook = void (*)();

/// Installs the hook; null removes it. Returns the previous one. A wait that began without a hook is not interrupted.
interrupt_hook set_interrupt_hook(interrupt_hook hook) noexcept;

/// Calls the hook. @throws whatever the hook throws.
void check_interrupt();

/// The longest time between two calls of `check_interrupt` in a wait.
inline constexpr std::chrono::milliseconds interrupt_interval{50};

} // namespace saeta
