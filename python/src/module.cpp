#include "module.hpp"

#include "saeta/base/version.hpp"

NB_MODULE(_core, m) {
  using namespace saeta::py;
  // At a normal exit modules and daemon threads still hold objects: nothing is wrong with that.
  nb::set_leak_warnings(false);
  m.doc() = "The compiled part of Saeta: devices, memory, columns and the exchange protocols.";
  m.def("_version", [] { return nb::str(saeta::version.data(), saeta::version.size()); });
  install_interrupts();
  install_reports();
  bind_errors();
  bind_device(m);
  bind_memory(m);
  bind_symbols(m);
  bind_type(m);
  bind_column(m);
  bind_use(m);
  bind_table(m);
  bind_counted_table(m);
  bind_interop(m);
  bind_lent(m);
  bind_bytes(m);
  bind_sharing(m);
  bind_graph_pool(m);
  bind_measure(m);
  complete_functions(m);
}
