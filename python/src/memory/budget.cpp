// Child budgets, reservations, and windows that measure a budget over a period.
#include "python/src/core/pickling.hpp"
#include "python/src/memory/memory_objects.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

namespace saeta::py {
namespace {

/// A window, which measures a budget over a period. A closed window keeps its last values.
class window_object {
public:
  explicit window_object(budget& measured) : open_(std::in_place, measured.open_window()) {}

  [[nodiscard]] budget_window::values read() const { return open_ ? open_->read() : last_; }
  [[nodiscard]] bool closed() const { return !open_; }
  void close() {
    last_ = read();
    open_.reset();
  }

private:
  std::optional<budget_window> open_;
  budget_window::values last_;
};

context_object child(const memory_view& self, std::string name, const std::optional<size_spec>& limit) {
  return without_gil([&] {
    const std::uint64_t bytes = limit ? to_bytes(*limit, *self.value) : budget::unlimited;
    return context_object{self.value->with_budget(std::move(name), bytes)};
  });
}

context_object reserve(const memory_view& self, const size_spec& bytes, bool overbook) {
  return without_gil([&] {
    const auto policy = overbook ? overbooking::allow : overbooking::refuse;
    return context_object{self.value->with_reservation(to_bytes(bytes, *self.value), policy)};
  });
}

nb::object reservation_of(const memory_view& self) {
  const reservation* from = self.value->drawn_from();
  if (from == nullptr) {
    return nb::none();
  }
  nb::dict result;
  result["bytes"] = from->bytes();
  result["left"] = from->left();
  result["overbooked"] = from->overbooked();
  return result;
}

template <std::uint64_t budget_window::values::*Value>
std::uint64_t value_of(const window_object& self) {
  return self.read().*Value;
}

std::string describe_window(const window_object& self) {
  const budget_window::values now = self.read();
  return concat("<saeta.MemoryWindow: ", human_bytes(now.current), " in use, ", human_bytes(now.start),
                " at the start, peak ", human_bytes(now.peak), ", ", now.requests, " requests, ", now.refused,
                " refused", self.closed() ? ", closed>" : ">");
}

void bind_window(nb::module_& m) {
  using values = budget_window::values;
  nb::class_<window_object>(m, "MemoryWindow",
                            "Counts of a budget since `memory.window()`. They change until the end of a "
                            "`with` block and stay fixed then. Windows may be nested."
                            "\n\nExample:\n"
                            "    >>> import saeta as sa\n"
                            "    >>> ctx = sa.context('host')\n"
                            "    >>> with ctx.memory.window() as window:\n"
                            "    ...     block = ctx.allocate('1KiB')\n"
                            "    >>> window.current - window.start, window.requests, window.refused\n"
                            "    (1024, 1, 0)")
      .def(made_by("Context.memory.window"))
      .def(not_pickled("make one where the work is"))
      .def("__repr__", &describe_window)
      .def_prop_ro("start", &value_of<&values::start>, "Bytes in use when the window was opened.")
      .def_prop_ro("current", &value_of<&values::current>, "Bytes in use now.")
      .def_prop_ro("peak", &value_of<&values::peak>, "Most bytes in use at one time inside the window.")
      .def_prop_ro("requests", &value_of<&values::requests>, "Accepted requests inside the window.")
      .def_prop_ro("refused", &value_of<&values::refused>, "Refused requests inside the window.")
      .def(with_block<&window_object::close>("def __enter__(self) -> MemoryWindow"));
}

} // namespace

void bind_budgets(nb::module_& m, memory_class& memory) {
  bind_window(m);
  memory
      .def("child", &child, nb::arg("name"), nb::arg("limit") = nb::none(),
           nb::sig("def child(self, name: str, limit: int | str | None = None) -> Context"),
           "A context of this device with a budget of its own (None: no limit), whose allocations count in "
           "this one, too. As a context manager it closes at the end; memory in use stays valid and charged."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> ctx = sa.context('host')\n"
           "    >>> query = ctx.memory.child('query 7', limit='1MiB')\n"
           "    >>> query.memory.limit\n"
           "    1048576")
      .def(
          "reserve", &reserve, nb::arg("nbytes"), nb::arg("overbook") = false,
          nb::sig("def reserve(self, nbytes: int | str, overbook: bool = False) -> Context"),
          "A context of this device whose allocations draw from bytes that are set aside now. No budget "
          "refuses them, and every request beyond them is refused. As a context manager it returns the "
          "bytes that were not drawn at the end. Room is made, and waited for in line, as for an "
          "allocation; BudgetExceeded if there is none. With `overbook`, bytes beyond the limit are promised "
          "at once, and drawing them may be refused."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> ctx = sa.context('host')\n"
          "    >>> with ctx.memory.reserve('1MiB') as promised:\n"
          "    ...     block = promised.allocate('512KiB')\n"
          "    >>> block.nbytes\n"
          "    524288")
      .def_prop_ro("reservation", &reservation_of,
                   nb::for_getter(nb::sig("def reservation(self) -> dict[str, int] | None")),
                   "The reservation that this context draws from: `bytes` reserved, `left`, and how many of "
                   "these are `overbooked`. None without a reservation."
                   "\n\nExample:\n"
                   "    >>> import saeta as sa\n"
                   "    >>> ctx = sa.context('host')\n"
                   "    >>> with ctx.memory.reserve('1MiB') as promised:\n"
                   "    ...     promised.memory.reservation['bytes']\n"
                   "    1048576")
      .def(
          "window", [](const memory_view& self) { return window_object(*self.value->memory_budget()); },
          "Measures peak, requests and refusals of the budget from now on.")
      .def(
          "reset_peak", [](const memory_view& self) { self.value->memory_budget()->reset_peak(); },
          "Resets the peak to the bytes in use now.");
}

} // namespace saeta::py
