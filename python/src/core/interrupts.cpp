// Lets Ctrl-C end waits of the library.
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "saeta/base/interrupt.hpp"

namespace saeta::py {
namespace {

/// Runs Python's signal handlers and throws what they raise. Python runs handlers only on its main thread.
/// Does nothing on threads that Python does not know.
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
