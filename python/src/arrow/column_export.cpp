// Exports columns through the Arrow PyCapsule interface.
#include "python/src/arrow/capsules.hpp"
#include "python/src/column/column_class.hpp"

namespace saeta::py {

void bind_protocols(column_class& c) {
  c.def(
       "__arrow_c_schema__", [](const column_object& self) { return schema_capsule(*self.described); },
       nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
       "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_array__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            const column_object shown = as_requested(self, requested);
            return array_capsules(*shown.described, single_piece(shown, "__arrow_c_array__"));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_array__(self, requested_schema: object | None = None, **kwargs: typing.Any) "
                  "-> tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "Capsules of schema and array, in host memory: zero-copy from a host column, downloaded from a "
          "device. BufferError for several chunks.")
      .def(
          "__arrow_c_stream__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            const column_object shown = as_requested(self, requested);
            return stream_capsule(*shown.described, *shown.pieces);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule of a stream of the chunks, in host memory.")
      .def(
          "__arrow_c_device_array__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            const column_object shown = as_requested(self, requested);
            return device_array_capsules(*shown.described, single_piece(shown, "__arrow_c_device_array__"));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "Capsules of schema and array where the memory is, without a copy. The array's sync_event is "
          "behind our last write. BufferError for several chunks.")
      .def(
          "__arrow_c_device_stream__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            const column_object shown = as_requested(self, requested);
            return device_stream_capsule(*shown.described, *shown.pieces);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "A capsule of a stream of the chunks where their memory is, without a copy.");
}

} // namespace saeta::py
