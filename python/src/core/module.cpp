#include "python/src/core/module.hpp"

#include "saeta/base/version.hpp"

#include <cstddef>
#include <cstdlib>

namespace {

/// Makes glibc keep what is freed, up to 64 MiB, as it does in each program that has freed an array of this
/// size (mallopt(3), M_MMAP_THRESHOLD). Else the columns of a wide table go back to the system when it is
/// dropped, and the next table faults every page in again: more than half of the time of a read of 10,000
/// columns.
void keep_freed_memory() {
  constexpr std::size_t most_that_counts = (32u << 20) - 8192;
  void* const volatile block =
      std::malloc(most_that_counts); // volatile, or the compiler leaves both calls out
  std::free(block);
}

} // namespace

// nanobind keeps its state, and this library its devices and streams, once per process. A second interpreter
// in the process, as under mod_wsgi, would take them from the first. So PyInit__core refuses it before
// nanobind starts. The other modules import this one first.
#define PyInit__core nanobind_init_core
NB_MODULE(_core, m) {
  using namespace saeta::py;
  static nb::handle first;
  if (is_imported_again(m, first)) {
    return restore_errors();
  }
  // At a normal exit, modules and daemon threads still hold objects. This is not a leak.
  nb::set_leak_warnings(false);
  m.doc() = "The compiled part of Saeta: devices, memory, columns and the exchange protocols.";
  m.def("_version", [] { return nb::str(saeta::version.data(), saeta::version.size()); });
  keep_freed_memory();
  install_interrupts();
  install_reports();
  bind_errors();
  for (const auto bind : bind_functions) {
    bind(m);
  }
  complete_functions(m);
  first = nb::object(m).release();
}
#undef PyInit__core

extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) { // 0: the main interpreter
    PyErr_SetString(PyExc_ImportError,
                    "saeta works in the main interpreter of a process only, not in a subinterpreter: import "
                    "it there, or in a process of its own (in mod_wsgi: WSGIApplicationGroup %{GLOBAL})");
    return nullptr;
  }
  return nanobind_init_core();
}
