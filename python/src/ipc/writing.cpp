// The part of the module `_ipc` that writes.
#include "python/src/ipc/writing.hpp"

#include "python/src/core/gil.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/ipc/writer.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace saeta::py {
namespace {

/// A bytes object that is filled piece by piece, so that the data is never held twice. Constructed and taken
/// with the GIL held. `append` is called without it.
class growing_bytes {
public:
  /// @param expected  size in bytes; the object grows beyond it if needed.
  explicit growing_bytes(std::size_t expected) { resize(expected + slack); }
  growing_bytes(const growing_bytes&) = delete;
  growing_bytes& operator=(const growing_bytes&) = delete;
  ~growing_bytes() { Py_XDECREF(bytes_); }

  void append(std::span<const std::byte> piece) {
    if (piece.size() > room_ - size_) {
      const gil_acquire acquire;
      resize(std::max(size_ + piece.size(), room_ + room_ / 2));
    }
    std::memcpy(PyBytes_AsString(bytes_) + size_, piece.data(), piece.size());
    size_ += piece.size();
  }

  nanobind::object take() {
    resize(size_);
    return nanobind::steal(std::exchange(bytes_, nullptr));
  }

private:
  static constexpr std::size_t slack = std::size_t{4}
                                       << 10; ///< for the schema, metadata and footer of a narrow table

  /// @throws nb::python_error MemoryError; the object is then gone.
  void resize(std::size_t bytes) {
    const auto wanted = static_cast<Py_ssize_t>(bytes);
    if (bytes_ == nullptr) {
      bytes_ = PyBytes_FromStringAndSize(nullptr, wanted);
    } else {
      _PyBytes_Resize(&bytes_, wanted);
    }
    if (bytes_ == nullptr) {
      throw nanobind::python_error();
    }
    room_ = bytes;
  }

  PyObject* bytes_ = nullptr;
  std::size_t room_ = 0;
  std::size_t size_ = 0;
};

const std::uint64_t default_pending = ipc::write_options().pending_bytes;

/// Runs pending signal handlers, so that Ctrl-C works, then calls a Python callable with the progress.
void tell(const nb::object& callable, const ipc::progress& so_far) {
  const gil_acquire acquire;
  if (foreign_call([] { return PyErr_CheckSignals(); }) != 0) {
    throw nb::python_error();
  }
  if (!callable.is_none()) {
    foreign_call([&] { callable(so_far); });
  }
}

ipc::write_options writing(const std::string& compression, const std::string& format, int level,
                           std::int64_t batch_rows, bool durable = true, bool replace_read_only = false) {
  ipc::write_options options;
  options.level = level;
  options.batch_rows = batch_rows;
  options.durable = durable;
  options.replace_read_only = replace_read_only;
  options.body = ipc::parse_compression(compression);
  if (format != "file" && format != "stream") {
    throw error(errc::invalid_argument, "format '" + format + "': expected file or stream");
  }
  options.format = format == "file" ? ipc::container::file : ipc::container::stream;
  return options;
}

std::uint64_t write_file(const table_object& source, const std::filesystem::path& file,
                         const std::string& compression, const std::string& format, int level,
                         std::int64_t batch_rows, const nb::object& progress, bool durable,
                         bool replace_read_only) {
  const gil_release release;
  return ipc::write(*source.value, file,
                    writing(compression, format, level, batch_rows, durable, replace_read_only),
                    hook_of(progress));
}

/// Passes a bytes object to `put`, so that the callable may keep it.
void pass(const nb::object& put, std::span<const std::byte> piece) {
  const gil_acquire acquire;
  foreign_call([&] { put(nb::bytes(piece.data(), piece.size())); });
}

std::uint64_t write_sink(const table_object& source, const nb::object& put, const std::string& name,
                         const std::string& compression, const std::string& format, int level,
                         std::int64_t batch_rows, const nb::object& progress) {
  const gil_release release;
  return ipc::write(
      *source.value, [&put](std::span<const std::byte> piece) { pass(put, piece); }, name,
      writing(compression, format, level, batch_rows), hook_of(progress));
}

/// A writer. Its calls run without the GIL, because the writer's thread takes the GIL to call Python.
class writer_object {
public:
  explicit writer_object(std::unique_ptr<ipc::writer> of) : value_(std::move(of)) {}
  writer_object(const writer_object&) = delete;
  writer_object& operator=(const writer_object&) = delete;
  ~writer_object() {
    released_gil([this] { value_.reset(); });
  }

  [[nodiscard]] ipc::writer* operator->() const noexcept { return value_.get(); }

private:
  std::unique_ptr<ipc::writer> value_;
};

ipc::write_options writing_tables(const std::string& compression, const std::string& format, int level,
                                  std::int64_t batch_rows, std::uint64_t pending_bytes, bool durable,
                                  bool replace_read_only) {
  ipc::write_options options = writing(compression, format, level, batch_rows, durable, replace_read_only);
  options.pending_bytes = pending_bytes;
  options.dictionary_deltas = true;
  return options;
}

/// The hook keeps the callable. Without one there is no reason to take the GIL.
ipc::progress_hook kept_hook_of(const nb::object& callable) {
  if (callable.is_none()) {
    return {};
  }
  return [kept = kept_callable(callable)](const ipc::progress& so_far) { tell(*kept, so_far); };
}

std::unique_ptr<writer_object>
create_file(const std::filesystem::path& file, const std::optional<schema>& fields,
            const std::string& compression, const std::string& format, int level, std::int64_t batch_rows,
            const nb::object& progress, std::uint64_t pending_bytes, bool durable, bool replace_read_only) {
  auto hook = kept_hook_of(progress);
  const auto options =
      writing_tables(compression, format, level, batch_rows, pending_bytes, durable, replace_read_only);
  const gil_release release;
  return std::make_unique<writer_object>(
      std::make_unique<ipc::writer>(file, fields, options, std::move(hook)));
}

std::unique_ptr<writer_object> create_sink(const nb::object& put, const std::string& name,
                                           const std::optional<schema>& fields,
                                           const std::string& compression, const std::string& format,
                                           int level, std::int64_t batch_rows, const nb::object& progress,
                                           std::uint64_t pending_bytes) {
  auto hook = kept_hook_of(progress);
  const auto options = writing_tables(compression, format, level, batch_rows, pending_bytes, true, false);
  ipc::byte_sink sink = [kept = kept_callable(put)](std::span<const std::byte> piece) { pass(*kept, piece); };
  const gil_release release;
  return std::make_unique<writer_object>(
      std::make_unique<ipc::writer>(std::move(sink), name, fields, options, std::move(hook)));
}

nb::object write_memory(const table_object& source, const std::string& compression, const std::string& format,
                        int level, std::int64_t batch_rows) {
  growing_bytes made(source.value->byte_size());
  without_gil([&] {
    ipc::write(
        *source.value, [&](std::span<const std::byte> piece) { made.append(piece); }, "bytes",
        writing(compression, format, level, batch_rows));
  });
  return made.take();
}

} // namespace

ipc::progress_hook hook_of(const nb::object& callable) {
  return [&callable](const ipc::progress& so_far) { tell(callable, so_far); };
}

std::shared_ptr<nb::object> kept_callable(const nb::object& callable) {
  return {new nb::object(callable), [](nb::object* held) {
            PyObject* const object = held->release().ptr();
            delete held;
            with_gil_or_leak([object] { Py_DECREF(object); });
          }};
}

void bind_writing(nb::module_& m) {
  m.def("write_file", &write_file, nb::arg("source"), nb::arg("path"), nb::arg("compression") = "none",
        nb::arg("format") = "file", nb::arg("level") = 0, nb::arg("batch_rows") = 0,
        nb::arg("progress") = nb::none(), nb::arg("durable") = true, nb::arg("replace_read_only") = false,
        nb::sig("def write_file(source: saeta._core.Table, path: str | os.PathLike[str], compression: str = "
                "'none', format: str = 'file', level: int = 0, batch_rows: int = 0, progress: "
                "collections.abc.Callable[[Progress], object] | None "
                "= None, durable: bool = True, replace_read_only: bool = False) -> int"),
        "Writes a table, atomically; returns the bytes of the file.");
  m.def("write_sink", &write_sink, nb::arg("source"), nb::arg("put"), nb::arg("name"),
        nb::arg("compression") = "none", nb::arg("format") = "file", nb::arg("level") = 0,
        nb::arg("batch_rows") = 0, nb::arg("progress") = nb::none(),
        nb::sig("def write_sink(source: saeta._core.Table, put: collections.abc.Callable[[bytes], object], "
                "name: str, compression: str = 'none', format: str = 'file', level: int = 0, batch_rows: int "
                "= 0, progress: "
                "collections.abc.Callable[[Progress], object] | None = None) -> int"),
        "Writes a table by calls of `put` with the next bytes, a few MiB at most; returns how many there "
        "were.");
  nb::class_<writer_object>(m, "Writer", "An Arrow IPC file or stream that is written table by table.")
      .def(not_pickled("write there to a file of its own"))
      .def(
          "write",
          [](writer_object& self, const table_object& rows) {
            const gil_release release;
            self->write(*rows.value);
          },
          nb::arg("rows"), nb::sig("def write(self, rows: saeta._core.Table) -> None"),
          "Takes a table, and waits while those that are not written have too many bytes.")
      .def(
          "flush",
          [](writer_object& self) {
            const gil_release release;
            self->flush();
          },
          "Waits until everything is in the file or was passed on.")
      .def(
          "close",
          [](writer_object& self) {
            const gil_release release;
            return self->close();
          },
          "Writes the end and gives a file its name; returns its bytes.")
      .def(
          "abort",
          [](writer_object& self) {
            const gil_release release;
            self->abandon();
          },
          "Ends the writer without a file.");

  m.def("create_file", &create_file, nb::arg("path"), nb::arg("schema") = nb::none(),
        nb::arg("compression") = "none", nb::arg("format") = "file", nb::arg("level") = 0,
        nb::arg("batch_rows") = 0, nb::arg("progress") = nb::none(),
        nb::arg("pending_bytes") = default_pending, nb::arg("durable") = true,
        nb::arg("replace_read_only") = false,
        nb::sig(
            "def create_file(path: str | os.PathLike[str], schema: saeta._core.Schema | None = None, "
            "compression: str = 'none', format: str = 'file', level: int = 0, batch_rows: int = 0, progress: "
            "collections.abc.Callable[[Progress], object] | None = None, pending_bytes: int = 268435456, "
            "durable: bool = True, replace_read_only: bool = False) -> Writer"),
        "Begins a file, which appears when the writer is closed.");
  m.def("create_sink", &create_sink, nb::arg("put"), nb::arg("name"), nb::arg("schema") = nb::none(),
        nb::arg("compression") = "none", nb::arg("format") = "file", nb::arg("level") = 0,
        nb::arg("batch_rows") = 0, nb::arg("progress") = nb::none(),
        nb::arg("pending_bytes") = default_pending,
        nb::sig("def create_sink(put: collections.abc.Callable[[bytes], object], name: str, schema: "
                "saeta._core.Schema | None = None, compression: str = 'none', format: str = 'file', level: "
                "int = 0, batch_rows: int = 0, "
                "progress: collections.abc.Callable[[Progress], object] | None = None, pending_bytes: int = "
                "268435456) -> Writer"),
        "Begins a file or stream whose bytes `put` gets, on the thread of the writer.");
  m.def("write_bytes", &write_memory, nb::arg("source"), nb::arg("compression") = "none",
        nb::arg("format") = "file", nb::arg("level") = 0, nb::arg("batch_rows") = 0,
        nb::sig("def write_bytes(source: saeta._core.Table, compression: str = 'none', format: str = 'file', "
                "level: int = 0, batch_rows: int = 0) "
                "-> bytes"),
        "The bytes of a file or stream of the table.");
}

} // namespace saeta::py
