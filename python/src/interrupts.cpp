// Ctrl-C ends the waits of the library.
#include "gil.hpp"
#include "module.hpp"
#include "saeta/base/interrupt.hpp"

namespace saeta::py {
namespace {

/// Runs Python's signal handlers, which it does on its main thread alone, and throws what they raise. Threads that Python does
/// not know are left alone: they have no handlers to run.
void run_signal_handlers() {
  if (!interpreter_alive() || PyGILState_GetThisThreadState() == nullptr) {
    return;
  }
  const gil_acquire acquire;
  if (foreign_call([] { return PyErr_CheckSignals(); }) != 0) {
    throw nb::python_error();
  }
}

} // namespace

void install_interrupts() { set_interrupt_hook(&run_signal_handlers); }

} // namespace saeta::py
