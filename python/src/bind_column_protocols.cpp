// Columns for others: DLPack and the Arrow PyCapsule interface.
#include "capsules.hpp"
#include "column_class.hpp"
#include "pieces.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

namespace saeta::py {
namespace {

using device_pair = std::pair<std::int32_t, std::int32_t>;
using version_pair = std::pair<std::uint32_t, std::uint32_t>;

nb::object dlpack(const column_object& self, std::optional<std::int64_t> stream,
                  std::optional<version_pair> max_version, std::optional<device_pair> device,
                  std::optional<bool> copy) {
  dlpack_export how;
  how.stream = stream;
  how.copy = !copy ? copy_policy::when_needed : *copy ? copy_policy::always : copy_policy::never;
  if (device) {
    how.target = tensor_device{device->first, device->second};
  }
  if (max_version && max_version->first >= DLPACK_MAJOR_VERSION) {
    return dlpack_capsule(
        without_gil([&] { return export_dlpack_versioned(single_piece(self, "DLPack"), how); }));
  }
  return dlpack_capsule(without_gil([&] { return export_dlpack(single_piece(self, "DLPack"), how); }));
}

device_pair device_of(const column_object& self) {
  const device_id own = self.home->device();
  const tensor_device found =
      self.pieces->empty() ? to_tensor_device(own, own_kind(own)) : dlpack_device(self.pieces->front());
  return {found.type, found.ordinal};
}

} // namespace

void bind_protocols(column_class& c) {
  c.def("__dlpack__", &dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
        nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
        nb::sig(
            "def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
            "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> "
            "typing_extensions.CapsuleType"),
        "A DLPack capsule of a 1-D tensor, zero-copy and read-only. The consumer's stream waits for our last "
        "write: "
        "None and 1 the legacy default stream, 2 the per-thread one, -1 no ordering, above 2 a handle; on "
        "the host "
        "it must be None. BufferError for nulls, for types without a DLPack type, for several chunks and for "
        "a copy "
        "that copy=False forbids.")
      .def("__dlpack_device__", &device_of, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
           "Device type and number, as DLPack numbers them.")
      .def(
          "__arrow_c_schema__", [](const column_object& self) { return schema_capsule(*self.described); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_array__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, self.described->type.children().size());
            return array_capsules(*self.described, single_piece(self, "__arrow_c_array__"));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig(
              "def __arrow_c_array__(self, requested_schema: object | None = None, **kwargs: typing.Any) -> "
              "tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "Capsules of schema and array, in host memory: zero-copy from a host column, downloaded from a "
          "device. "
          "BufferError for several chunks.")
      .def(
          "__arrow_c_stream__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, self.described->type.children().size());
            return stream_capsule(*self.described, *self.pieces);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig(
              "def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: typing.Any) -> "
              "typing_extensions.CapsuleType"),
          "A capsule of a stream of the chunks, in host memory.")
      .def(
          "__arrow_c_device_array__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, self.described->type.children().size());
            return device_array_capsules(*self.described, single_piece(self, "__arrow_c_device_array__"));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "Capsules of schema and array where the memory is, without a copy. The array's sync_event is "
          "behind our last "
          "write. BufferError for several chunks.")
      .def(
          "__arrow_c_device_stream__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, self.described->type.children().size());
            return device_stream_capsule(*self.described, *self.pieces);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule of a stream of the chunks where their memory is, without a copy.");
}

} // namespace saeta::py
