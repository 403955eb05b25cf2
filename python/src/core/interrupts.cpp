// Lets Ctrl-C end waits of the library, and lets one thread end the waits of another.
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "saeta/base/cancellation.hpp"
#include "saeta/base/interrupt.hpp"

#include <memory>

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

/// A `with` block of one thread at a time, whose waits end when another thread cancels it.
class cancellation {
public:
  void enter() { scope_ = std::make_unique<cancellation_scope>(cancelled_); }
  void leave() { scope_.reset(); }
  void cancel() noexcept { cancelled_ = true; }

private:
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<cancellation_scope> scope_;
};

} // namespace

void install_interrupts() { set_interrupt_hook(&run_signal_handlers); }

void bind_cancellation(nb::module_& m) {
  nb::class_<cancellation>(m, "_Cancellation",
                           "A `with` block of one thread at a time. After `cancel` its waits for memory and "
                           "work end with ClosedError within 50 ms, and so do those of later blocks.")
      .def(nb::init<>())
      .def("cancel", &cancellation::cancel, "Ends the waits. Any thread may call it.")
      .def("__enter__", &cancellation::enter)
      .def(
          "__exit__", [](cancellation& self, const nb::args&) { self.leave(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

} // namespace saeta::py
