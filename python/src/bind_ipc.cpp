// The module `_ipc`: Arrow IPC files and streams. It needs the libarrow that it was built with; saeta/ipc.py loads it.
#include "module.hpp"
#include "objects.hpp"
#include "python_bytes.hpp"
#include "saeta/base/interruptible_lock.hpp"
#include "saeta/ipc/inspect.hpp"
#include "saeta/ipc/reader.hpp"
#include "saeta/ipc/writer.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

namespace saeta::py {
namespace {

/// Calls a Python callable with the progress so far, and lets Ctrl-C through.
ipc::progress_hook hook_of(const nb::object& callable) {
  return [&callable](const ipc::progress& so_far) {
    const gil_acquire acquire;
    if (foreign_call([] { return PyErr_CheckSignals(); }) != 0) {
      throw nb::python_error();
    }
    if (!callable.is_none()) {
      foreign_call([&] { callable(so_far); });
    }
  };
}

/// One thread a reader: other threads that use it meanwhile wait.
struct reader_object {
  explicit reader_object(std::unique_ptr<ipc::reader> of) : value(std::move(of)) {}
  std::unique_ptr<ipc::reader> value;
  std::timed_mutex turn;
};

ipc::read_options options_of(std::optional<std::vector<std::string>> columns,
                             std::optional<std::pair<std::int64_t, std::int64_t>> batches,
                             std::optional<bool> copy, bool validate) {
  ipc::read_options options;
  options.columns = std::move(columns);
  options.batches = batches;
  options.copy = !copy ? copy_policy::when_needed : *copy ? copy_policy::always : copy_policy::never;
  options.check = validate ? validation::full : validation::structure;
  return options;
}

using range = std::optional<std::pair<std::int64_t, std::int64_t>>;
using names = std::optional<std::vector<std::string>>;

std::unique_ptr<reader_object> open_file(const std::filesystem::path& file, names columns,
                                         const range& batches, std::optional<bool> copy, bool validate) {
  const gil_release release;
  return std::make_unique<reader_object>(
      ipc::reader::open(file, options_of(std::move(columns), batches, copy, validate)));
}

std::unique_ptr<reader_object> open_bytes(nb::handle source, names columns, const range& batches,
                                          std::optional<bool> copy, bool validate) {
  auto bytes = std::make_shared<python_bytes>(source);
  const gil_release release;
  const auto span = bytes->span();
  return std::make_unique<reader_object>(
      ipc::reader::open(span, std::move(bytes), options_of(std::move(columns), batches, copy, validate)));
}

table_object read_all(reader_object& self, const context_object& home, const nb::object& progress) {
  const gil_release release;
  const auto lock = lock_interruptibly(self.turn);
  return table_object(self.value->read_all(home.value, hook_of(progress)));
}

std::optional<table_object> next(reader_object& self, const context_object& home) {
  const gil_release release;
  const auto lock = lock_interruptibly(self.turn);
  auto rows = self.value->next(home.value);
  if (!rows) {
    return std::nullopt;
  }
  return table_object(table::make(home.value, self.value->fields(), {std::move(*rows)}));
}

const char* name_of_container(ipc::container format) {
  return format == ipc::container::file ? "file" : "stream";
}

ipc::write_options writing(const std::string& compression, const std::string& format) {
  ipc::write_options options;
  options.body = ipc::parse_compression(compression);
  if (format != "file" && format != "stream") {
    throw error(errc::invalid_argument, "format '" + format + "': expected file or stream");
  }
  options.format = format == "file" ? ipc::container::file : ipc::container::stream;
  return options;
}

std::uint64_t write_file(const table_object& source, const std::filesystem::path& file,
                         const std::string& compression, const std::string& format,
                         const nb::object& progress) {
  const gil_release release;
  return ipc::write(*source.value, file, writing(compression, format), hook_of(progress));
}

nb::bytes write_memory(const table_object& source, const std::string& compression,
                       const std::string& format) {
  const std::string written =
      without_gil([&] { return ipc::write_bytes(*source.value, writing(compression, format)); });
  return nb::bytes(written.data(), written.size());
}

nb::dict summary_of(const std::filesystem::path& file) {
  const ipc::file_summary found = without_gil([&] { return ipc::inspect(file); });
  nb::list columns;
  for (const ipc::column_summary& each : found.columns) {
    nb::dict column;
    column["name"] = each.name;
    column["type"] = each.type;
    column["nullable"] = each.nullable;
    column["supported"] = each.supported;
    column["nulls"] = each.nulls;
    column["dictionary_values"] =
        each.dictionary_values < 0 ? nb::none() : nb::object(nb::int_(each.dictionary_values));
    columns.append(column);
  }
  nb::dict metadata;
  for (const auto& [key, value] : found.metadata) {
    metadata[nb::bytes(key.data(), key.size())] = nb::bytes(value.data(), value.size());
  }
  nb::dict result;
  result["format"] = name_of_container(found.format);
  result["bytes"] = found.bytes;
  result["compression"] = found.compression;
  result["metadata_version"] = found.metadata_version;
  result["batch_rows"] = found.batch_rows;
  result["metadata"] = metadata;
  result["columns"] = columns;
  return result;
}

} // namespace
} // namespace saeta::py

NB_MODULE(_ipc, m) {
  using namespace saeta;
  using namespace saeta::py;
  m.doc() = "Arrow IPC files and streams, on libarrow.";

  nb::class_<ipc::progress>(m, "Progress", "How far a read or a write has come.")
      .def_ro("batches", &ipc::progress::batches)
      .def_ro("total_batches", &ipc::progress::total_batches, "-1 for a stream, whose number is not known.")
      .def_ro("rows", &ipc::progress::rows)
      .def_ro("bytes", &ipc::progress::bytes, "Bytes of batch bodies.");

  nb::class_<reader_object>(m, "Reader", "An open Arrow IPC file or stream.")
      .def_prop_ro(
          "format", [](const reader_object& self) { return name_of_container(self.value->format()); },
          "\"file\" or \"stream\".")
      .def_prop_ro(
          "schema", [](const reader_object& self) { return self.value->fields(); },
          nb::sig("def schema(self) -> saeta._core.Schema"))
      .def_prop_ro(
          "num_batches", [](const reader_object& self) { return self.value->batch_count(); },
          "Batches in the range asked for; -1 for a stream.")
      .def("read_all", &read_all, nb::arg("where"), nb::arg("progress") = nb::none(),
           nb::sig("def read_all(self, where: saeta._core.Context, progress: "
                   "collections.abc.Callable[[Progress], object] | None = None) -> saeta._core.Table"),
           "All batches from here on, as a table of the context. `progress` is called after each.")
      .def("next", &next, nb::arg("where"),
           nb::sig("def next(self, where: saeta._core.Context) -> saeta._core.Table | None"),
           "The next batch as a table, None at the end.");

  m.def(
      "open_file", &open_file, nb::arg("path"), nb::arg("columns") = nb::none(),
      nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("validate") = true,
      nb::sig(
          "def open_file(path: str | os.PathLike[str], columns: collections.abc.Sequence[str] | None = None, "
          "batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool = True) -> "
          "Reader"),
      "Opens a file, memory-mapped.");
  m.def("open_bytes", &open_bytes, nb::arg("source"), nb::arg("columns") = nb::none(),
        nb::arg("batches") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("validate") = true,
        nb::sig(
            "def open_bytes(source: bytes | bytearray | memoryview, columns: collections.abc.Sequence[str] | "
            "None = None, "
            "batches: tuple[int, int] | None = None, copy: bool | None = None, validate: bool = True) -> "
            "Reader"),
        "Opens bytes, which columns of a host context may view for as long as they live.");
  m.def("write_file", &write_file, nb::arg("source"), nb::arg("path"), nb::arg("compression") = "none",
        nb::arg("format") = "file", nb::arg("progress") = nb::none(),
        nb::sig("def write_file(source: saeta._core.Table, path: str | os.PathLike[str], compression: str = "
                "'none', "
                "format: str = 'file', progress: collections.abc.Callable[[Progress], object] | None = None) "
                "-> int"),
        "Writes a table, atomically; returns the bytes of the file.");
  m.def("write_bytes", &write_memory, nb::arg("source"), nb::arg("compression") = "none",
        nb::arg("format") = "file",
        nb::sig("def write_bytes(source: saeta._core.Table, compression: str = 'none', format: str = 'file') "
                "-> bytes"));
  m.def("inspect", &summary_of, nb::arg("path"),
        nb::sig("def inspect(path: str | os.PathLike[str]) -> dict[str, typing.Any]"),
        "What a file says about itself.");
  m.def("built_arrow_version", &ipc::built_arrow_version,
        "Release of libarrow that this module was built with.");
  m.def("loaded_arrow_version", &ipc::loaded_arrow_version, "Release of libarrow that is loaded.");
  complete_functions(m);
}
