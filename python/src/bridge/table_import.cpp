// Imports pyarrow's tables as our tables.
#include "saeta/bridge/table_import.hpp"

#include "python/src/bridge/bridge_objects.hpp"
#include "python/src/core/copy_argument.hpp"
#include "python/src/core/objects.hpp"

#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <variant>

namespace saeta::py {
namespace {

using pyarrow_rows = std::variant<std::shared_ptr<arrow::RecordBatch>, std::shared_ptr<arrow::Table>>;

pyarrow_rows rows_of(nb::handle source) {
  if (saeta::foreign_call([&] { return arrow::py::is_batch(source.ptr()); })) {
    return unwrap(foreign_call([&] { return arrow::py::unwrap_batch(source.ptr()); }));
  }
  return unwrap(foreign_call([&] { return arrow::py::unwrap_table(source.ptr()); }));
}

bool is_on_cpu(nb::handle source) {
  const pyarrow_rows rows = rows_of(source);
  return without_gil([&] { return std::visit([](const auto& of) { return on_cpu(*of); }, rows); });
}

table_object import_rows(const context_object& ctx, nb::handle source, std::optional<bool> copy) {
  const pyarrow_rows rows = rows_of(source);
  import_options options;
  options.copy = policy_of(copy);
  options.upload.tag = "arrow";
  return without_gil([&] {
    return table_object(
        std::visit([&](const auto& of) { return import_table(ctx.value, of, options); }, rows));
  });
}

} // namespace

void bind_tables(nb::module_& m) {
  m.def("on_cpu", &is_on_cpu, nb::arg("source"),
        nb::sig("def on_cpu(source: pyarrow.Table | pyarrow.RecordBatch) -> bool"),
        "True if all memory of the table is the CPU's. `table` takes no other table.");
  m.def("table", &import_rows, nb::arg("where"), nb::arg("source"), nb::arg("copy").none(),
        nb::sig("def table(where: saeta._core.Context, source: pyarrow.Table | pyarrow.RecordBatch, copy: "
                "bool | None) -> saeta._core.Table"),
        "The table in a context, as `saeta.from_arrow` takes it.");
}

} // namespace saeta::py
