// The class Table.
#include "python/src/arrow/capsules.hpp"
#include "python/src/column/column_class.hpp"
#include "python/src/column/values.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/compute/equals.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

std::vector<std::string> column_names(const table_object& self) {
  std::vector<std::string> names;
  for (const field& f : self.value->fields().fields) {
    names.push_back(f.name);
  }
  return names;
}

std::vector<table_object> batches_of(const table_object& self) {
  std::vector<table_object> result;
  for (const batch& each : self.value->batches()) {
    result.emplace_back(table::make(self.value->ctx(), self.value->fields(), {each}));
  }
  return result;
}

/// One list of raw values per column.
nb::list raw_columns(const table_object& self, std::int64_t most) {
  std::vector<nb::list> columns(self.value->column_count());
  for (const batch& rows : self.value->batches()) {
    const std::vector<nb::list> values =
        raw_values(self.value->ctx(), rows, self.value->fields().fields, most);
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

/// True if both are views of the same rows of the same memory, false if the schemas or the row counts differ.
bool equal_tables(const table_object& a, const table_object& b) {
  if (!(a.value->fields() == b.value->fields()) || a.value->rows() != b.value->rows()) {
    return false;
  }
  for (std::size_t i = 0; i < a.value->column_count(); ++i) {
    if (!same_view(a.value->pieces(i), b.value->pieces(i))) {
      refuse_comparison("tables");
    }
  }
  return true;
}

bool table_has_equal_data(const table_object& self, const table_object& other, bool check_metadata) {
  return equals(*self.value, *other.value, check_metadata);
}

void bind_objects(table_class& c) {
  c.def("__eq__", &equal_tables, nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"),
        "True if both show the same rows of the same memory under the same schema, False if schemas or "
        "numbers of rows differ. Otherwise UnsupportedError: `equals` compares values.")
      .def("equals", &table_has_equal_data, nb::arg("other"), nb::kw_only(),
           nb::arg("check_metadata") = false, nb::call_guard<gil_release>(),
           "Whether both tables have the same data: names, types and nullability of the columns in order, "
           "the number of rows, and the columns as `Column.equals` compares them. The tables are compared on "
           "their device, all columns at once; only the answer leaves it.\n\n"
           "Args:\n"
           "    other: a Table of the same context.\n"
           "    check_metadata: metadata of the schema and of the fields, and the names of the values of "
           "lists, count as well.\n\n"
           "Raises InvalidError for a table of another context or device, and TypeMismatch for anything that "
           "is not a Table: `saeta.from_arrow` makes one."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.equals(table.select(['city', 'fare']))\n"
           "    True")
      .def(copied_as_itself()) // `saeta.from_arrow(table, ctx, copy=True)` makes a real copy
      .def(pickled_by("reduce_table"))
      .def("_ipython_key_completions_", &column_names, "Names for tab completion.")
      .def("__repr__", in_python("saeta._report.display", "table_text"), nb::sig("def __repr__(self) -> str"))
      .def("__dir__", in_python("saeta._report.display", "public_names"),
           nb::sig("def __dir__(self) -> list[str]"))
      .def("_repr_html_", in_python("saeta._report.html", "table_html"),
           nb::sig("def _repr_html_(self) -> str"));
  c.attr("__reversed__") = nb::none(); // defined like __iter__
  // Like the classes of other Arrow libraries that do not compare by identity.
  c.attr("__hash__") = nb::none();
}

void bind_values(table_class& c) {
  c.def("to_pydict", in_python("saeta._convert.tables", "to_pydict"),
        nb::sig("def to_pydict(self) -> dict[str, list[typing.Any]]"),
        "A list of Python values for each name. A device table is downloaded. InvalidError if names repeat.")
      .def("to_pylist", in_python("saeta._convert.tables", "to_pylist"),
           nb::sig("def to_pylist(self) -> list[dict[str, typing.Any]]"),
           "A dict from names to Python values for each row. A device table is downloaded. InvalidError if "
           "names repeat.")
      .def("_raw_values", &raw_columns, nb::arg("most"),
           nb::sig("def _raw_values(self, most: int) -> list[list[bytes | bool | None]]"),
           "The result of `Column._raw_values` for each column.");
}

void bind_conversions(table_class& c) {
  c.def("to_arrow", in_python("saeta._convert.to_libraries", "table_to_arrow"),
        nb::sig("def to_arrow(self) -> pyarrow.Table"),
        "A pyarrow Table: views of a host table, a download of a device table.")
      .def("__dataframe__", in_python("saeta._convert.to_libraries", "table_to_dataframe"),
           nb::sig(
               "def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> typing.Any"),
           "The table for libraries that take any DataFrame, such as seaborn and plotly (DataFrame "
           "interchange "
           "protocol), through pyarrow.")
      .def("to_pandas", in_python("saeta._convert.to_libraries", "table_to_pandas"),
           nb::sig("def to_pandas(self) -> pandas.DataFrame"), "A pandas DataFrame, through pyarrow.")
      .def("to_polars", in_python("saeta._convert.to_libraries", "table_to_polars"),
           nb::sig("def to_polars(self) -> polars.DataFrame"),
           "A polars DataFrame, through the Arrow C stream.")
      .def("write_ipc", in_python("saeta.ipc", "write_ipc"),
           nb::sig("def write_ipc(self, path: str | os.PathLike[str] | typing.IO[bytes], *, compression: "
                   "typing.Literal['lz4', 'zstd'] | None = None, compression_level: int | None = None, "
                   "batch_size: int | None = None, format: typing.Literal['file', 'stream'] | "
                   "None = None, progress: bool | collections.abc.Callable[[saeta._ipc.Progress], object] | "
                   "None = None, durable: bool = True, replace_read_only: bool = False, filesystem: "
                   "typing.Any = None, storage_options: collections.abc.Mapping[str, typing.Any] | None = "
                   "None) -> int"),
           "Writes the table as an Arrow IPC file, to a path, a URL or an object with `write()`; see "
           "`saeta.write_ipc`."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> size = table.write_ipc('trips.arrow', compression='zstd')\n"
           "    >>> sa.read_ipc('trips.arrow', 'host').equals(table)\n"
           "    True")
      .def("write_parquet", in_python("saeta._files.parquet_writer", "write_parquet"),
           nb::sig("def write_parquet(self, path: str | os.PathLike[str] | typing.IO[bytes], *, "
                   "row_group_size: int | None = None, compression: typing.Literal['none', 'snappy', 'zstd', "
                   "'lz4', 'gzip', 'brotli'] = 'snappy', compression_level: int | None = None, "
                   "use_dictionary: bool | collections.abc.Sequence[str] = True, engine: "
                   "typing.Literal['device', 'host'] | None = None, progress: bool | "
                   "collections.abc.Callable[[saeta._ipc.Progress], object] | None = None, durable: bool = "
                   "True, replace_read_only: bool = False, filesystem: typing.Any = None, storage_options: "
                   "collections.abc.Mapping[str, typing.Any] | None = None) -> int"),
           "Writes the table as a Parquet file and returns its size in bytes. The arguments are those of "
           "`saeta.parquet_writer`. A table of a device is encoded there with pylibcudf installed, or "
           "downloaded one row group at a time.\n\n"
           "UnsupportedError names a column of a type that Parquet can't hold; nothing is written."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> size = table.write_parquet('trips.parquet', compression='zstd')\n"
           "    >>> sa.read_parquet('trips.parquet', 'host').equals(table)\n"
           "    True")
      .def("to_ipc_bytes", in_python("saeta.ipc", "to_ipc_bytes"),
           nb::sig("def to_ipc_bytes(self, *, compression: typing.Literal['lz4', 'zstd'] | None = None, "
                   "compression_level: int | None = None, batch_size: int | None = None, "
                   "format: typing.Literal['file', 'stream'] = 'file') -> bytes"),
           "The table as the bytes of an Arrow IPC file, or with format='stream' of a stream, with the "
           "arguments of `saeta.write_ipc`. A device table is downloaded. The bytes are not charged to a "
           "budget.")
      .def("pack", in_python("saeta._share.packed", "pack"),
           nb::sig("def pack(self) -> saeta._share.packed.Packed"),
           "The table in the packed form: metadata, which is an Arrow IPC stream without bodies, and one "
           "contiguous body in the memory of the table, as a Column of uint8. `saeta.unpack` makes the table "
           "again, without a copy.\n\n"
           "A table that is packed already, as after every whole read, shares its memory with the body: "
           "nothing is copied and no kernel runs. Its body may have unused bytes between the columns: up to "
           "an eighth of it, or 4 KiB. Other tables are gathered by one kernel into memory of their context, "
           "under its budget. Of slices only the rows are copied; dictionaries and the bytes behind views "
           "are copied as a whole. Symbols become dictionaries of their names.\n\n"
           "Raises UnsupportedError for types that the IPC format can't describe, as `write_ipc` does."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> metadata, body = table.pack()\n"
           "    >>> sa.unpack(metadata, body).equals(table)\n"
           "    True")
      .def(
          "share", in_python("saeta._share.tables", "share"),
          nb::sig("def share(self) -> saeta._share.tables.SharedTable"),
          "Shares the table with other processes of the same user on this machine. Returns a token that can "
          "be pickled; `saeta.open_shared` opens it.\n\n"
          "A host table is copied once into an unnamed file in memory that nobody can change, and the copy "
          "is charged to its context. A table on a GPU is shared where it is, packed, if its context has an "
          "exportable pool (`saeta.context('cuda:0', exportable_pool=True)`); otherwise a copy on the GPU is "
          "shared and charged. Every call for a table that is still shared returns a token for the same "
          "memory. The memory is kept as long as this process has a token, or another process has the table "
          "open."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
          "    >>> token = table.share()\n"
          "    >>> sa.open_shared(token).equals(table)\n"
          "    True")
      .def(
          "__arrow_c_schema__", [](const table_object& self) { return schema_capsule(self.value->fields()); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule of a struct (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_stream__",
          [](const table_object& self, nb::handle requested, const nb::kwargs&) {
            return stream_capsule(as_requested(*self.value, requested));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule of a stream of the batches in host memory; a device table downloads each batch on "
          "request.")
      .def(
          "__arrow_c_device_stream__",
          [](const table_object& self, nb::handle requested, const nb::kwargs&) {
            return device_stream_capsule(as_requested(*self.value, requested));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule of a stream of the batches where their memory is, without a copy. The sync_event of "
          "each array is behind our last write.")
      .def(
          "__arrow_c_device_array__",
          [](const table_object& self, nb::handle requested, const nb::kwargs&) {
            const table shown = as_requested(*self.value, requested);
            if (shown.batches().size() > 1) {
              throw error(errc::exchange, concat("the table has ", shown.batches().size(),
                                                 " batches, and __arrow_c_device_array__ exports one: "
                                                 "combine_chunks() joins them, a stream exports them all"));
            }
            return device_array_capsules(shown);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "Capsules of the schema and of a struct array of the one batch where its memory is, without a "
          "copy, as `pyarrow.record_batch` takes it. ExchangeError for a table of several batches.")
      .def(
          "_device_array", [](const table_object& self) { return device_array_capsules(*self.value); },
          nb::sig("def _device_array(self) -> tuple[typing_extensions.CapsuleType, "
                  "typing_extensions.CapsuleType]"),
          "Schema and device array of the table as one struct array. No protocol of its own: consumers take "
          "an object with `__arrow_c_device_array__` for a column of structs.");
}

} // namespace

void bind_table(nb::module_& m) {
  table_class c(
      m, "Table",
      "Columns of equal length on one device, in batches. Slices and selections share the memory."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
      "    >>> table.shape, table.column_names, table.device\n"
      "    ((3, 2), ['city', 'fare'], 'host')\n"
      "    >>> table['fare'].to_pylist()\n"
      "    [12.5, None, 8.0]\n"
      "    >>> table.head(2).drop_columns('fare').to_pydict()\n"
      "    {'city': ['Lyon', 'Bern']}\n"
      "    >>> sa.concat_tables([table, table]).num_batches\n"
      "    2",
      nb::is_weak_referenceable());
  c.def(made_by("saeta.table, saeta.from_arrow and saeta.read_ipc"));
  c.def_prop_ro(
       "schema", [](const table_object& self) { return self.value->fields(); },
       "Names, types, nullability and metadata; a copy.")
      .def_prop_ro(
          "num_rows", [](const table_object& self) { return self.value->rows(); }, "Number of rows.")
      .def_prop_ro(
          "shape",
          [](const table_object& self) { return std::pair(self.value->rows(), self.value->column_count()); },
          nb::for_getter(nb::sig("def shape(self) -> tuple[int, int]")),
          "Rows and columns."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
          "    >>> table.shape\n"
          "    (3, 2)")
      .def_prop_ro(
          "num_columns", [](const table_object& self) { return self.value->column_count(); },
          "Number of columns.")
      .def_prop_ro("column_names", &column_names, "Names of the columns, in order.")
      .def_prop_ro(
          "columns", [](const table_object& self) { return columns_of(*self.value); },
          "The columns, in order; no copy of their memory.")
      .def_prop_ro(
          "nbytes", [](const table_object& self) { return self.value->byte_size(); },
          nb::call_guard<gil_release>(),
          "Bytes that the rows refer to, as `Column.nbytes` counts them; bytes that columns share count "
          "once. "
          "The slices of a table sum to about its size.")
      .def_prop_ro(
          "context", [](const table_object& self) { return context_object{self.value->ctx()}; },
          "The context that holds the memory.")
      .def_prop_ro(
          "device", [](const table_object& self) { return to_string(self.value->ctx()->device()); },
          "\"host\" or \"cuda:0\".")
      .def_prop_ro("batches", &batches_of, "The pieces in memory, each as a table of one batch; no copy.")
      .def_prop_ro(
          "num_batches", [](const table_object& self) { return self.value->batches().size(); },
          "Number of pieces in memory.");
  bind_objects(c);
  bind_access(c);
  bind_rows(c);
  bind_values(c);
  bind_changes(m, c);
  bind_conversions(c);
  bind_tensors(c);
}

} // namespace saeta::py
