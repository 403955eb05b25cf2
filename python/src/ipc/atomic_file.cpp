// Files that Python writes and that appear when they are complete.
#include "python/src/core/gil.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/ipc/writing.hpp"
#include "saeta/ipc/writer.hpp"

#include <nanobind/stl/filesystem.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace saeta::py {
namespace {

void make_file(ipc::file_target* at, std::filesystem::path path, bool durable, bool replace_read_only) {
  ipc::write_options options;
  options.durable = durable;
  options.replace_read_only = replace_read_only;
  const gil_release release;
  new (at) ipc::file_target(std::move(path), options);
}

void put(ipc::file_target& self, const nb::bytes& piece) {
  const std::span bytes(static_cast<const std::byte*>(piece.data()), piece.size());
  const gil_release release;
  self.put(bytes);
}

} // namespace

void bind_atomic_file(nb::module_& m) {
  nb::class_<ipc::file_target>(
      m, "AtomicFile", "A file that appears under its name when it is complete. One thread at a time.")
      .def("__init__", &make_file, nb::arg("path"), nb::arg("durable") = true,
           nb::arg("replace_read_only") = false,
           nb::sig("def __init__(self, path: str | os.PathLike[str], durable: bool = True, "
                   "replace_read_only: bool = False) -> None"))
      .def(not_pickled("write there to a file of its own"))
      .def("put", &put, nb::arg("piece"), nb::sig("def put(self, piece: bytes) -> None"),
           "Writes the next bytes.")
      .def(
          "commit",
          [](ipc::file_target& self) {
            const gil_release release;
            self.commit();
          },
          "Gives the file its name.")
      .def(
          "discard",
          [](ipc::file_target& self) {
            const gil_release release;
            self.discard();
          },
          "Drops the file. Does nothing after `commit`.");
}

} // namespace saeta::py
