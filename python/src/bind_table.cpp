// Tables.
#include "capsules.hpp"
#include "module.hpp"
#include "pieces.hpp"
#include "saeta/base/text.hpp"
#include "values.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

namespace saeta::py {
namespace {

column_object column_at(const table& self, std::size_t index) {
  return {self.fields().fields[index], self.home(), self.pieces(index)};
}

std::vector<column_object> columns_of(const table& self) {
  std::vector<column_object> columns;
  for (std::size_t i = 0; i < self.column_count(); ++i) {
    columns.push_back(column_at(self, i));
  }
  return columns;
}

column_object column_by_name(const table_object& self, const std::string& name) {
  return column_at(*self.value, self.value->fields().index_of(name));
}

column_object column_by_number(const table_object& self, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(self.value->column_count());
  const std::int64_t found = index < 0 ? index + count : index;
  if (found < 0 || found >= count) {
    throw error(errc::out_of_range, concat("column ", index, " of a table with ", count, " columns"));
  }
  return column_at(*self.value, static_cast<std::size_t>(found));
}

table_object rows_by_slice(const table_object& self, const nb::slice& range) {
  const auto [start, stop, step, length] = range.compute(static_cast<std::size_t>(self.value->rows()));
  static_cast<void>(stop);
  if (step != 1) {
    throw error(errc::invalid_argument, concat("slice with step ", step, ": a view has step 1"));
  }
  return table_object(self.value->slice(static_cast<std::int64_t>(start), static_cast<std::int64_t>(length)));
}

table_object sliced(const table_object& self, std::int64_t offset, std::optional<std::int64_t> length) {
  return table_object(self.value->slice(offset, length.value_or(self.value->rows() - offset)));
}

table_object head(const table_object& self, std::int64_t rows) {
  return table_object(self.value->slice(0, std::min(rows, self.value->rows())));
}

table_object selected(const table_object& self, const std::vector<std::string>& names) {
  std::vector<std::size_t> columns;
  for (const std::string& name : names) {
    columns.push_back(self.value->fields().index_of(name));
  }
  return table_object(self.value->select(columns));
}

table_object dropped(const table_object& self, const std::vector<std::string>& names) {
  std::vector<std::size_t> columns(self.value->column_count());
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  for (const std::string& name : names) {
    std::erase(columns, self.value->fields().index_of(name));
  }
  return table_object(self.value->select(columns));
}

std::vector<std::string> names_of(const table_object& self) {
  std::vector<std::string> names;
  for (const field& f : self.value->fields().fields) {
    names.push_back(f.name);
  }
  return names;
}

std::vector<table_object> batches_of(const table_object& self) {
  std::vector<table_object> result;
  for (const batch& each : self.value->batches()) {
    result.emplace_back(table::make(self.value->home(), self.value->fields(), {each}));
  }
  return result;
}

table_object from_columns(const context_object& home, const std::vector<column_object>& columns) {
  return table_object(assemble(home.value, columns, {}));
}

/// The table with one more column, or with one in the place of column `index`.
table_object with_column(const table_object& self, const column_object& added,
                         std::optional<std::size_t> index) {
  std::vector<column_object> columns = columns_of(*self.value);
  if (columns.empty() && total_rows(*added.pieces) != self.value->rows()) {
    throw error(errc::invalid_argument,
                concat("column '", added.described.name, "' has ", total_rows(*added.pieces),
                       " rows, the table has ", self.value->rows()));
  }
  if (!index) {
    columns.push_back(added);
    return table_object(assemble(self.value->home(), columns, self.value->fields().metadata));
  }
  std::vector<column_object> replaced;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    replaced.push_back(i == *index ? added : columns[i]);
  }
  return table_object(assemble(self.value->home(), replaced, self.value->fields().metadata));
}

/// One list a column.
nb::list raw_columns(const table_object& self) {
  std::vector<nb::list> columns(self.value->column_count());
  for (const batch& rows : self.value->batches()) {
    const std::vector<nb::list> values = raw_values(self.value->home(), rows);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      columns[i].extend(values[i]);
    }
  }
  nb::list result;
  for (nb::list& column : columns) {
    result.append(std::move(column));
  }
  return result;
}

void bind_access(nb::class_<table_object>& c) {
  c.def("__getitem__", &column_by_name, nb::arg("name"))
      .def("__getitem__", &column_by_number, nb::arg("index"))
      .def("__getitem__", &rows_by_slice, nb::arg("rows"),
           "A column by its name (which must be the only one of that name) or number, or rows by a slice "
           "with step 1; "
           "no copy.")
      .def("__len__", [](const table_object& self) { return self.value->rows(); })
      .def("slice", &sliced, nb::arg("offset"), nb::arg("length") = nb::none(),
           nb::sig("def slice(self, offset: int, length: int | None = None) -> Table"),
           "Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the "
           "table.")
      .def("head", &head, nb::arg("rows") = 5, "The first rows; no copy.")
      .def("select", &selected, nb::arg("columns"),
           nb::sig("def select(self, columns: collections.abc.Sequence[str]) -> Table"),
           "These columns, in this order; no copy.")
      .def("drop", &dropped, nb::arg("columns"),
           nb::sig("def drop(self, columns: collections.abc.Sequence[str]) -> Table"),
           "All columns but these; no copy.")
      .def("with_column", in_python("saeta._build", "with_column"),
           nb::sig("def with_column(self, name: str, values: typing.Any) -> Table"),
           "The table with a column in the place of the one of that name, or at the end; no copy of columns "
           "on its "
           "device. `values` is what `saeta.table` takes.")
      .def("append_column", in_python("saeta._build", "append_column"),
           nb::sig("def append_column(self, name: str, values: typing.Any) -> Table"),
           "The table with one more column at the end, even where the name is there already.")
      .def("_raw_values", &raw_columns, nb::sig("def _raw_values(self) -> list[list[bytes | bool | None]]"),
           "For each column the values as the Arrow layout holds them; dictionaries give their values.")
      .def("_with_column", &with_column, nb::arg("column"), nb::arg("index") = nb::none());
}

void bind_conversions(nb::class_<table_object>& c) {
  c.def("to_arrow", in_python("saeta._convert", "table_to_arrow"),
        nb::sig("def to_arrow(self) -> pyarrow.Table"),
        "A pyarrow Table: views of a host table, a download of a device table.")
      .def("to_pandas", in_python("saeta._convert", "table_to_pandas"),
           nb::sig("def to_pandas(self) -> pandas.DataFrame"), "A pandas DataFrame, through pyarrow.")
      .def("to_polars", in_python("saeta._convert", "table_to_polars"),
           nb::sig("def to_polars(self) -> polars.DataFrame"),
           "A polars DataFrame, through the Arrow C stream.")
      .def("write_ipc", in_python("saeta.ipc", "write_ipc"),
           nb::sig("def write_ipc(self, path: str | os.PathLike[str], *, compression: str | None = None, "
                   "format: str = 'file', progress: typing.Any = None) -> int"),
           "Writes the table as an Arrow IPC file; see `saeta.write_ipc`.")
      .def(
          "__arrow_c_schema__", [](const table_object& self) { return schema_capsule(self.value->fields()); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule of a struct (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_stream__",
          [](const table_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, self.value->column_count());
            return stream_capsule(*self.value);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig(
              "def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: typing.Any) -> "
              "typing_extensions.CapsuleType"),
          "A capsule of a stream of the batches in host memory; a device table downloads each when it is "
          "asked for.");
}

} // namespace

void bind_table(nb::module_& m) {
  nb::class_<table_object> c(
      m, "Table",
      "Columns of equal length on one device, in batches. Slices and selections share the "
      "memory.");
  c.def_prop_ro("schema", [](const table_object& self) { return self.value->fields(); })
      .def_prop_ro("num_rows", [](const table_object& self) { return self.value->rows(); })
      .def_prop_ro("num_columns", [](const table_object& self) { return self.value->column_count(); })
      .def_prop_ro("column_names", &names_of)
      .def_prop_ro("columns", [](const table_object& self) { return columns_of(*self.value); })
      .def_prop_ro(
          "nbytes", [](const table_object& self) { return self.value->byte_size(); },
          "Bytes that the rows refer to; shared dictionaries count once.")
      .def_prop_ro("context", [](const table_object& self) { return context_object{self.value->home()}; })
      .def_prop_ro("device", [](const table_object& self) { return to_string(self.value->home()->device()); })
      .def_prop_ro("batches", &batches_of, "The pieces in memory, each as a table of one batch; no copy.")
      .def_prop_ro("num_batches", [](const table_object& self) { return self.value->batches().size(); })
      .def("__repr__", in_python("saeta._display", "table_text"), nb::sig("def __repr__(self) -> str"))
      .def("_repr_html_", in_python("saeta._display", "table_html"), nb::sig("def _repr_html_(self) -> str"));
  bind_access(c);
  bind_conversions(c);
  m.def("_from_columns", &from_columns, nb::arg("where"), nb::arg("columns"),
        "A table of columns of one length and one context; no copy.");
}

} // namespace saeta::py
