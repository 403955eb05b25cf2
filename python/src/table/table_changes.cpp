// Tables with other columns, names or metadata. saeta/_convert/build.py and tables.py read the arguments.
#include "python/src/column/column_class.hpp"
#include "python/src/core/python_bytes.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/transfer/upload.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>

namespace saeta::py {
namespace {

/// @param name_of  the name of what has the schema of this number
template <class NameOf>
schema united(const std::vector<const schema*>& schemas, NameOf name_of) {
  schema together = *schemas.at(0);
  for (std::size_t i = 1; i < schemas.size(); ++i) {
    if (*schemas[i] != together) {
      together = united_schema(together, name_of(0), *schemas[i], name_of(i));
    }
  }
  return together;
}

table_object from_columns(const context_object& ctx, const std::vector<column_object>& columns) {
  return table_object(assemble(ctx.value, columns, {}));
}

table_object from_bytes(const context_object& ctx, const schema& fields, const nb::sequence& columns) {
  std::deque<python_bytes> held;
  for (const nb::handle each : columns) {
    held.emplace_back(each);
  }
  if (held.size() != fields.fields.size()) {
    throw error(errc::invalid_argument, concat("got ", held.size(), " columns of bytes, the schema has ",
                                               fields.fields.size(), " fields"));
  }
  std::vector<host_values> given;
  for (std::size_t i = 0; i < held.size(); ++i) {
    given.push_back({fields.fields[i], held[i].span()});
  }
  const gil_release release;
  const table made = table_of_values(ctx.value, given);
  const auto batches = made.batches();
  return table_object(
      table::make(made.ctx(), fields, {batches.begin(), batches.end()})); // sets the schema's metadata
}

/// A table of `columns` with this table's metadata.
table_object with_columns(const table_object& self, const std::vector<column_object>& columns) {
  if (self.value->column_count() == 0 && !columns.empty() &&
      total_rows(*columns.front().pieces) != self.value->rows()) {
    throw error(errc::invalid_argument,
                concat("column '", columns.front().described->name, "' has ",
                       total_rows(*columns.front().pieces), " rows, the table has ", self.value->rows()));
  }
  return table_object(assemble(self.value->ctx(), columns, self.value->fields().metadata));
}

/// The same rows with another schema, whose types they can have.
table_object with_schema(const table_object& self, const schema& fields) {
  const gil_release release;
  return table_object(conform(*self.value, std::make_shared<const schema_index>(fields)));
}

/// @param tables  pointers, because a copy of a table copies all of its columns
table_object concatenate(const std::vector<const table_object*>& tables) {
  const gil_release release;
  std::vector<const schema*> schemas;
  schemas.reserve(tables.size());
  for (const table_object* const each : tables) {
    schemas.push_back(&each->value->fields());
  }
  const schema together = united(schemas, [](std::size_t number) { return concat("table ", number); });
  std::vector<batch> batches;
  batches.reserve(tables.size());
  for (const table_object* const each : tables) {
    for (const batch& piece : each->value->batches()) {
      if (piece.rows > 0) {
        batches.push_back(conform(piece, together));
      }
    }
  }
  return table_object(table::make(tables.front()->value->ctx(), together, std::move(batches)));
}

/// The common schema of all tables, or `meant`, which must allow the rows of all of them.
schema united_of(const std::vector<const schema*>& schemas, const std::vector<std::string>& names,
                 const schema* meant) {
  if (meant == nullptr) {
    return united(schemas, [&](std::size_t number) { return names.at(number); });
  }
  for (std::size_t i = 0; i < schemas.size(); ++i) {
    require_fits(*schemas[i], names.at(i), *meant);
  }
  return *meant;
}

table_object combined_table(const table_object& self) { return table_object(combine_chunks(*self.value)); }

} // namespace

void bind_changes(nb::module_& m, table_class& c) {
  c.def("to_batches", in_python("saeta._convert.tables", "to_batches"),
        nb::sig("def to_batches(self, max_chunksize: int | None = None) -> list[Table]"),
        "The batches, each as a table, cut to at most `max_chunksize` rows; no copy.")
      .def("append_column", in_python("saeta._convert.build", "append_column"),
           nb::sig("def append_column(self, name: str | Field, values: typing.Any) -> Table"),
           "The table with one more column at the end, even if the name exists; no copy of columns on its "
           "device. `values` is what `saeta.column` takes. A Field also gives type, nullability and metadata."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.append_column('tip', [1, 2, 3]).column_names\n"
           "    ['city', 'fare', 'tip']")
      .def("add_column", in_python("saeta._convert.build", "add_column"),
           nb::sig("def add_column(self, index: int, name: str | Field, values: typing.Any) -> Table"),
           "The table with one more column before column `index`."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.add_column(0, 'tip', [1, 2, 3]).column_names\n"
           "    ['tip', 'city', 'fare']")
      .def("set_column", in_python("saeta._convert.build", "set_column"),
           nb::sig("def set_column(self, index: int | str, name: str | Field, values: typing.Any) -> Table"),
           "The table with another column instead of column `index`, a number or a name."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern'], 'fare': [12.5, 8.0]}, 'host')\n"
           "    >>> table.set_column('fare', 'euros', [13, 9]).to_pydict()\n"
           "    {'city': ['Lyon', 'Bern'], 'euros': [13, 9]}")
      .def("rename_columns", in_python("saeta._convert.tables", "rename_columns"),
           nb::sig("def rename_columns(self, names: collections.abc.Sequence[str] | "
                   "collections.abc.Mapping[str, str]) -> Table"),
           "The same columns under other names: a name for each, or a mapping from old names to new ones. "
           "InvalidError for another number of names, or for an unknown old name."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.rename_columns({'fare': 'price'}).column_names\n"
           "    ['city', 'price']")
      .def("replace_schema_metadata", in_python("saeta._convert.tables", "replace_schema_metadata"),
           nb::sig("def replace_schema_metadata(self, metadata: collections.abc.Mapping[typing.Any, "
                   "typing.Any] | None = None) -> Table"),
           "The same table with this metadata of the schema and no other."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.replace_schema_metadata({'source': 'meter'}).schema.metadata\n"
           "    {b'source': b'meter'}")
      .def("combine_chunks", &combined_table, nb::call_guard<gil_release>(),
           "The same rows in one batch, so that each column is one piece of memory: one kernel on the device "
           "for the whole table, into memory under the budget. A table of one batch is returned unchanged. "
           "More than one batch is left only if 32-bit offsets, run ends or dictionary indices can't count "
           "the rows. Dictionaries that differ become one.")
      .def("_with_columns", &with_columns, nb::arg("columns"),
           nb::sig("def _with_columns(self, columns: collections.abc.Sequence[Column]) -> Table"))
      .def("_with_schema", &with_schema, nb::arg("schema"));
  m.def("_from_columns", &from_columns, nb::arg("where"), nb::arg("columns"),
        "A table of columns of one length and one context; no copy.");
  m.def("_from_bytes", &from_bytes, nb::arg("where"), nb::arg("schema"), nb::arg("columns"),
        nb::sig("def _from_bytes(where: Context, schema: Schema, columns: collections.abc.Sequence[object]) "
                "-> Table"),
        "A table of raw little-endian values, one object with the buffer protocol per field; one transfer.");
  m.def("_concat_tables", &concatenate, nb::arg("tables"),
        "The batches of several tables one after the other; no copy.");
  m.def(
      "_united_schema", &united_of, nb::arg("schemas"), nb::arg("names"),
      nb::arg("meant").none() = nb::none(),
      "The schema of the rows of all of these, which messages call by `names`. With `meant` this one, which "
      "must allow them.");
}

} // namespace saeta::py
