// The parts of the module `_core`, one function each.
#pragma once

#include "gil.hpp"

#include <nanobind/nanobind.h>

namespace saeta::py {

namespace nb = nanobind;

void install_interrupts();
void bind_errors();
void bind_device(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_type(nb::module_& m);
void bind_column(nb::module_& m);
void bind_table(nb::module_& m);
void bind_interop(nb::module_& m);
void bind_lent(nb::module_& m);
void bind_graph_pool(nb::module_& m);
void bind_measure(nb::module_& m);
void bind_use(nb::module_& m);

/// A method whose body is the Python function `function` of `module`, imported when it is first called: what needs NumPy,
/// pyarrow or a framework, or is text for people.
inline auto in_python(const char* module, const char* function) {
  return [module, function](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) -> nb::object {
    return foreign_call(
        [&]() -> nb::object { return nb::module_::import_(module).attr(function)(self, *args, **kwargs); });
  };
}

} // namespace saeta::py
