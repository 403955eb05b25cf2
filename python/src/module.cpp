#include "module.hpp"

#include "saeta/base/version.hpp"

NB_MODULE(_core, m) {
  using namespace saeta::py;
  m.doc() = "The compiled part of Saeta: devices, memory, columns and the exchange protocols.";
  m.def("_version", [] { return nb::str(saeta::version.data(), saeta::version.size()); });
  bind_errors();
  bind_device(m);
  bind_memory(m);
  bind_type(m);
  bind_column(m);
  bind_use(m);
  bind_table(m);
  bind_interop(m);
  bind_lent(m);
  bind_measure(m);
}
