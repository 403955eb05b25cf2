// Pressure hooks written in Python.
//
// Owner     The core owns an installed hook until `remove()` or the end of the device's context. The Python
//           handle only refers to the hook, so dropping the handle does not remove it. Neither owns a
//           context.
// Thread    A hook runs with the GIL held, on the thread whose request did not fit. Once the interpreter
//           begins to end, the hook is neither called nor dropped.
// Failure   An exception goes to sys.unraisablehook and counts as 0 bytes. A KeyboardInterrupt ends the wait
//           of the request.
#include "python/src/core/pickling.hpp"
#include "python/src/memory/memory_objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/string.h>

namespace saeta::py {
namespace {

struct installed_hook {
  installed_hook(nb::object hook, std::string named) : ask(hook.release().ptr()), name(std::move(named)) {}
  installed_hook(const installed_hook&) = delete;
  installed_hook& operator=(const installed_hook&) = delete;
  ~installed_hook() {
    with_gil_or_leak([this] { Py_DECREF(ask); });
  }

  PyObject* ask;
  std::string name;
  hook_registration registration;
};

/// Converts a hook's result, which is bytes or None for 0.
std::uint64_t to_freed(const nb::object& returned) {
  if (returned.is_none()) {
    return 0;
  }
  const nb::object number = nb::steal(PyNumber_Index(returned.ptr()));
  const std::uint64_t bytes = number.is_valid() ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (PyErr_Occurred() != nullptr) {
    throw nb::python_error();
  }
  return bytes;
}

std::uint64_t call(const installed_hook& hook, std::uint64_t bytes) {
  if (!interpreter_alive()) {
    return 0;
  }
  const gil_acquire acquire;
  try {
    return foreign_call([&] { return to_freed(nb::handle(hook.ask)(bytes)); });
  } catch (nb::python_error& raised) {
    if (raised.matches(PyExc_KeyboardInterrupt)) {
      // Ctrl-C is meant for the request: its wait or the code after it raises KeyboardInterrupt again
      PyErr_SetInterrupt();
      return 0;
    }
    foreign_call(
        [&] { raised.discard_as_unraisable(nb::str(("the memory hook '" + hook.name + "'").c_str())); });
    return 0;
  }
}

class hook_object {
public:
  explicit hook_object(const std::shared_ptr<installed_hook>& names) : name_(names->name), hook_(names) {}

  void remove() {
    if (const auto hook = hook_.lock()) {
      hook_registration ended = std::move(hook->registration);
      without_gil([&] { ended.remove(); });
    }
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

private:
  std::string name_;
  std::weak_ptr<installed_hook> hook_;
};

hook_object add_hook(const memory_view& self, nb::object ask, std::string name, int priority) {
  if (PyCallable_Check(ask.ptr()) == 0) {
    throw error(errc::type_mismatch, "the hook '" + name + "' is not callable");
  }
  const auto hook = std::make_shared<installed_hook>(std::move(ask), name);
  hook->registration = without_gil([&] {
    return self.value->add_pressure_hook(std::move(name), priority,
                                         [hook](std::uint64_t bytes) { return call(*hook, bytes); });
  });
  return hook_object(hook);
}

} // namespace

void bind_hooks(nb::module_& m, memory_class& memory) {
  nb::class_<hook_object>(m, "MemoryHook",
                          "A hook of `memory.add_hook`; stays until it is removed."
                          "\n\nExample:\n"
                          "    >>> import saeta as sa\n"
                          "    >>> ctx = sa.context('host')\n"
                          "    >>> hook = ctx.memory.add_hook(lambda missing: 0, name='cache')\n"
                          "    >>> hook.remove()")
      .def(made_by("Context.memory.add_hook"))
      .def(not_pickled("make one where the work is"))
      .def(
          "__repr__",
          [](const hook_object& self) { return printable(concat("<saeta.MemoryHook '", self.name(), "'>")); })
      .def_prop_ro("name", &hook_object::name, "The name under which it was added.")
      .def("remove", &hook_object::remove, "Removes the hook. Does nothing the second time.")
      .def(with_block<&hook_object::remove>("def __enter__(self) -> MemoryHook"));

  memory.def("add_hook", &add_hook, nb::arg("fn"), nb::kw_only(), nb::arg("name"), nb::arg("priority") = 0,
             nb::sig("def add_hook(self, fn: collections.abc.Callable[[int], int | None], *, name: str, "
                     "priority: int = 0) -> MemoryHook"),
             "Asks `fn(bytes_needed)` to make room when a request on this device does not fit; it returns "
             "the bytes that it freed, None for 0. Hooks of higher priority are called earlier, on the "
             "thread of the request. An exception goes to sys.unraisablehook and counts as 0."
             "\n\nExample:\n"
             "    >>> import saeta as sa\n"
             "    >>> ctx = sa.context('host')\n"
             "    >>> with ctx.memory.add_hook(lambda missing: 0, name='cache') as hook:\n"
             "    ...     hook.name\n"
             "    'cache'");
}

} // namespace saeta::py
