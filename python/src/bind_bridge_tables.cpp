// Tables of pyarrow as streams for `_core`.
#include "bridge_objects.hpp"
#include "filled_capsule.hpp"
#include "saeta/bridge/table_stream.hpp"

namespace saeta::py {
namespace {

nb::object stream_of(nb::handle source) {
  bool on_cpu = false;
  nb::object capsule;
  if (saeta::foreign_call([&] { return arrow::py::is_batch(source.ptr()); })) {
    const auto rows = taken(foreign_call([&] { return arrow::py::unwrap_batch(source.ptr()); }));
    capsule = filled_capsule<ArrowArrayStream>(
        [&](ArrowArrayStream& target) { on_cpu = stream_batch(rows, target); });
  } else {
    const auto rows = taken(foreign_call([&] { return arrow::py::unwrap_table(source.ptr()); }));
    capsule = filled_capsule<ArrowArrayStream>(
        [&](ArrowArrayStream& target) { on_cpu = stream_table(rows, target); });
  }
  return on_cpu ? capsule : nb::none();
}

} // namespace

void bind_tables(nb::module_& m) {
  m.def("stream", &stream_of, nb::arg("source"),
        nb::sig("def stream(source: pyarrow.Table | pyarrow.RecordBatch) -> typing.Any"),
        "An \"arrow_array_stream\" capsule of the batches for an import of ours; None where some memory is "
        "not the CPU's.");
}

} // namespace saeta::py
