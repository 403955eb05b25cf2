// Interrupts from Python: Ctrl-C ends waits of the library, one thread can end the waits of another, and
// clean-up code runs to its end although Ctrl-C arrives.
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/core/python_bytes.hpp"
#include "saeta/base/interrupt.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace saeta::py {
namespace {

/// A `with` block around a consumer of a C stream. The errors of C streams are only text, so an exception
/// that a signal handler raised in the producer reaches the caller as an error of the consumer.
class signal_scope {
public:
  void enter() { outer_ = std::exchange(innermost, this); }
  /// If the block ended with an error of the consumer, raises the handler's exception in its place.
  void leave(nb::handle failure) {
    innermost = outer_;
    const std::optional<nb::python_error> raised = std::exchange(raised_, std::nullopt);
    if (raised && !failure.is_none()) {
      throw *raised;
    }
  }
  static void note(const nb::python_error& raised) {
    if (innermost != nullptr) {
      innermost->raised_.emplace(raised);
    }
  }

private:
  static inline thread_local signal_scope* innermost = nullptr;
  signal_scope* outer_ = nullptr;
  std::optional<nb::python_error> raised_;
};

/// Runs Python's signal handlers and throws what they raise. Python runs handlers only on its main thread.
/// Does nothing on threads that Python does not know.
void run_signal_handlers() {
  if (!interpreter_alive() || PyGILState_GetThisThreadState() == nullptr) {
    return;
  }
  const gil_acquire acquire;
  if (foreign_call([] { return PyErr_CheckSignals(); }) != 0) {
    nb::python_error raised;
    signal_scope::note(raised);
    throw raised;
  }
}

/// A `with` block, for one thread at a time. Waits inside the block end when another thread cancels it.
class cancellation {
public:
  void enter() { scope_ = std::make_unique<cancellation_scope>(cancelled_); }
  void leave() { scope_.reset(); }
  void cancel() noexcept { cancelled_ = true; }

private:
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<cancellation_scope> scope_;
};

/// Calls a Python function, and calls it again each time that Ctrl-C, or another exception that is not
/// derived from Exception, interrupts it. Returns the first such exception, or nullopt.
/// @throws nb::python_error for other exceptions
std::optional<nb::python_error> run_to_the_end(const nb::object& action) {
  std::optional<nb::python_error> interrupt;
  while (true) {
    try {
      action();
      return interrupt;
    } catch (nb::python_error& failure) {
      if (failure.matches(PyExc_Exception)) {
        throw;
      }
      if (!interrupt) {
        interrupt.emplace(std::move(failure));
      }
    }
  }
}

void call_to_the_end(const nb::object& action) {
  foreign_call([&] {
    if (std::optional<nb::python_error> interrupt = run_to_the_end(action)) {
      throw std::move(*interrupt);
    }
  });
}

/// Calls a Python function where there is no caller to raise an exception to, such as in a destructor. If
/// Ctrl-C arrives meanwhile, the interrupt is sent again, so that the program gets it afterwards.
void run_unheard(const nb::object& action) {
  foreign_call([&] {
    try {
      if (run_to_the_end(action)) {
        PyErr_SetInterrupt();
      }
    } catch (nb::python_error& failure) {
      failure.discard_as_unraisable(action);
    }
  });
}

/// Runs a clean-up function of Python once: when `run` is called, at destruction, or when the program ends.
class ending {
public:
  explicit ending(nb::object action) : action_(std::move(action)) { all().insert(this); }
  ending(const ending&) = delete;
  ending& operator=(const ending&) = delete;
  ~ending() {
    if (!interpreter_alive()) {
      action_.release(); // leaked, because a finished interpreter must not be touched
      return;
    }
    all().erase(this);
    if (action_.is_valid()) {
      const nb::error_scope during; // the object may be destroyed while an exception propagates
      run_unheard(action_);
    }
  }

  void run() {
    if (const nb::object action = action_; action.is_valid()) { // another thread may detach it meanwhile
      call_to_the_end(action);
      detach();
    }
  }
  void detach() { action_.reset(); }

  static void run_all() {
    while (!all().empty()) {
      ending& next = **all().begin();
      all().erase(&next);
      const nb::object action = std::move(next.action_); // dropping it may destroy `next`
      if (action.is_valid()) {
        run_unheard(action);
      }
    }
  }

private:
  /// All live objects, guarded by the GIL. The set is never destroyed, because threads may outlive the
  /// interpreter.
  static std::set<ending*>& all() {
    static auto* const alive = new std::set<ending*>;
    return *alive;
  }

  nb::object action_;
};

/// An iterator for the producer side of a C stream, whose errors are only text: KeyboardInterrupt becomes an
/// error message there. The interrupt is sent again when the stream is released. Sent earlier, it would be
/// lost in the Python code that makes the message.
class iterator_of_stream {
public:
  explicit iterator_of_stream(nb::object inner) : inner_(std::move(inner)) {}
  iterator_of_stream(const iterator_of_stream&) = delete;
  iterator_of_stream& operator=(const iterator_of_stream&) = delete;
  ~iterator_of_stream() {
    if (interrupted_ && interpreter_alive()) {
      PyErr_SetInterrupt();
    }
  }

  nb::object next() {
    return foreign_call([this] {
      nb::object found = nb::steal(PyIter_Next(inner_.ptr()));
      if (!found.is_valid() && PyErr_Occurred() == nullptr) {
        throw nb::stop_iteration();
      }
      if (!found.is_valid()) {
        interrupted_ = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
        throw nb::python_error();
      }
      return found;
    });
  }

private:
  nb::object inner_;
  bool interrupted_ = false;
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
  nb::class_<signal_scope>(
      m, "_SignalScope",
      "A `with` block around a consumer of a stream of this library. If a signal handler "
      "raised meanwhile, as for Ctrl-C, the block raises that in place of the error that "
      "the consumer made of it.")
      .def(nb::init<>())
      .def("__enter__", &signal_scope::enter)
      .def(
          "__exit__",
          [](signal_scope& self, nb::handle /*type*/, nb::handle failure, nb::handle /*traceback*/) {
            self.leave(failure);
          },
          nb::arg("type").none(), nb::arg("failure").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, failure: object, traceback: object) -> None"));
  m.def(
      "_copy_bytes",
      [](nb::handle target, nb::handle content) {
        const writable_bytes to(target);
        const python_bytes from(content);
        if (to.span().size() != from.span().size()) {
          throw error(errc::invalid_argument,
                      concat("a target of ", to.span().size(), " bytes for ", from.span().size(), " bytes"));
        }
        const gil_release release;
        if (!from.span().empty()) { // std::ranges::copy was a loop over bytes, and six times as slow
          std::memcpy(to.span().data(), from.span().data(), from.span().size());
        }
      },
      nb::arg("target"), nb::arg("content"),
      nb::sig("def _copy_bytes(target: memoryview, content: memoryview) -> None"),
      "Copies bytes while other threads run Python.");
  m.def(
      "_check_interrupt",
      [] {
        const gil_release release;
        check_interrupt();
      },
      "Runs signal handlers, and raises ClosedError if what this thread reads was closed. For waits in "
      "Python "
      "that the library is in.");
  m.def("_call_to_the_end", &call_to_the_end, nb::arg("action"),
        nb::sig("def _call_to_the_end(action: collections.abc.Callable[[], object]) -> None"),
        "Calls a function, and again when Ctrl-C ended it early. KeyboardInterrupt comes afterwards.");
  nb::class_<ending>(
      m, "_Ending",
      "Calls a function once, and to its end: when it is called, when it is dropped, or at the "
      "end of the program. Ctrl-C that comes meanwhile is raised in the program afterwards, not "
      "lost in a destructor; the function may be begun several times for that. The function "
      "must not own the object.")
      .def(nb::init<nb::object>(), nb::arg("action"),
           nb::sig("def __init__(self, action: collections.abc.Callable[[], object]) -> None"))
      .def("__call__", &ending::run)
      .def("detach", &ending::detach, "Forgets the function.")
      .def(not_pickled("it belongs to an object of this process"));
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&ending::run_all));
  nb::class_<iterator_of_stream>(m, "_IteratorOfStream",
                                 "The values of an iterator, for callers that turn KeyboardInterrupt into an "
                                 "error of their own: the program gets it afterwards.")
      .def(nb::init<nb::object>(), nb::arg("inner"),
           nb::sig("def __init__(self, inner: collections.abc.Iterator[object]) -> None"))
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> _IteratorOfStream"))
      .def("__next__", &iterator_of_stream::next, nb::sig("def __next__(self) -> object"))
      .def(not_pickled("it belongs to a stream of this process"));
}

} // namespace saeta::py
