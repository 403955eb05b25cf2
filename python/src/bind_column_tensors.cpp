// Columns as tensors: DLPack, the CUDA Array Interface, and the arrays of libraries.
#include "capsules.hpp"
#include "column_class.hpp"
#include "gil.hpp"
#include "pieces.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/cuda_array_interface.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

using device_pair = std::pair<std::int32_t, std::int32_t>;
using version_pair = std::pair<std::uint32_t, std::uint32_t>;

/// What `__dlpack__` was asked for.
dlpack_export asked(std::optional<std::int64_t> stream, std::optional<device_pair> device,
                    std::optional<bool> copy) {
  dlpack_export how;
  how.stream = stream;
  how.copy = !copy ? copy_policy::when_needed : *copy ? copy_policy::always : copy_policy::never;
  if (device) {
    how.target = tensor_device{device->first, device->second};
  }
  return how;
}

nb::object tensor(const column_object& self, std::optional<version_pair> max_version,
                  const dlpack_export& how) {
  if (max_version && max_version->first >= DLPACK_MAJOR_VERSION) {
    return dlpack_capsule(
        without_gil([&] { return export_dlpack_versioned(single_piece(self, "DLPack"), how); }));
  }
  return dlpack_capsule(without_gil([&] { return export_dlpack(single_piece(self, "DLPack"), how); }));
}

nb::object dlpack(const column_object& self, std::optional<std::int64_t> stream,
                  std::optional<version_pair> max_version, std::optional<device_pair> device,
                  std::optional<bool> copy) {
  return tensor(self, max_version, asked(stream, device, copy));
}

nb::object chosen_dlpack(const column_object& self, std::optional<std::int64_t> stream,
                         std::optional<version_pair> max_version, std::optional<device_pair> device,
                         std::optional<bool> copy, const std::string& nulls, tensor_fill fill,
                         bool reinterpret, bool codes) {
  dlpack_export how = asked(stream, device, copy);
  how.nulls = nulls == "nan"      ? tensor_nulls::nan
              : nulls == "fill"   ? tensor_nulls::fill
              : nulls == "masked" ? tensor_nulls::masked
                                  : tensor_nulls::refuse;
  how.fill = fill;
  how.reinterpret = reinterpret;
  how.codes = codes;
  return tensor(self, max_version, how);
}

column_object valid(const column_object& self) {
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(is_valid(piece));
  }
  return {field{self.described->name, data_type::byte_bool(), false, {}}, self.home, std::move(pieces)};
}

device_pair device_of(const column_object& self) {
  const device_id own = self.home->device();
  const tensor_device found =
      self.pieces->empty() ? to_tensor_device(own, own_kind(own)) : dlpack_device(self.pieces->front());
  return {found.type, found.ordinal};
}

/// Drops the hold of an exported array, at the end of the Python object that was asked for it.
void drop_hold(void* hold) noexcept {
  released_gil([&] { delete static_cast<std::shared_ptr<void>*>(hold); });
}

nb::dict array_interface(nb::handle self) {
  auto& source = nb::cast<column_object&>(self);
  if (source.home->on_host()) {
    throw nb::attribute_error(
        "__cuda_array_interface__ shows memory of a GPU, and the column is on the host");
  }
  try {
    to_tensor_type(source.described->type);
  } catch (const error& none) {
    throw nb::attribute_error(none.message().c_str());
  }
  cuda_array shown =
      without_gil([&] { return export_cuda_array(single_piece(source, "__cuda_array_interface__")); });
  if (source.lent.first()) {
    auto hold = std::make_unique<std::shared_ptr<void>>(shown.owner);
    nb::keep_alive_cb(self, hold.get(), drop_hold);
    static_cast<void>(hold.release());
  }
  nb::dict interface;
  interface["shape"] = nb::make_tuple(shown.shape.front());
  interface["typestr"] = shown.typestr;
  interface["data"] = nb::make_tuple(shown.data, shown.read_only);
  interface["strides"] = nb::none();
  interface["version"] = shown.version;
  interface["stream"] = shown.stream;
  return interface;
}

/// A `to_...` call that gives an array of a library: with a mask a pair of them, which is an overload of its own.
void bind_tensor(column_class& c, const char* name, const char* in_convert, const char* array,
                 const char* first, const char* doc) {
  constexpr const char* choices =
      "nulls: typing.Literal['nan'] | None = None, fill: float | None = None, reinterpret: bool = False, "
      "codes: bool = False";
  const std::string one = concat("def ", name, "(self, *, ", first, choices,
                                 ", with_mask: typing.Literal[False] = False) -> ", array);
  const std::string pair = concat("def ", name, "(self, *, ", first, choices,
                                  ", with_mask: typing.Literal[True]) -> tuple[", array, ", ", array, "]");
  c.def(name, in_python("saeta._convert", in_convert), nb::sig(one.c_str()))
      .def(name, in_python("saeta._convert", in_convert), nb::sig(pair.c_str()), doc);
}

void bind_arrays(column_class& c) {
  bind_tensor(
      c, "to_numpy", "column_to_numpy", "numpy.typing.NDArray[typing.Any]", "copy: bool | None = None, ",
      "A NumPy array. `copy=None` copies only where it must (device memory, several chunks, types that NumPy "
      "does not have) and gives a read-only view elsewhere; False raises ExchangeError instead of copying; "
      "True always copies. Nulls and types without a tensor type: as for `to_torch`; without `reinterpret` "
      "and `codes`, times and dictionaries are what pyarrow makes of them.");
  bind_tensor(
      c, "to_torch", "column_to_torch", "torch.Tensor", "",
      "A torch tensor on the column's device, without a copy. It must not be written to.\n\n"
      "Nulls are ExchangeError unless one of three says what becomes of them. `nulls='nan'` (floats) and "
      "`fill=value` copy where there are nulls, with one kernel, into memory under the budget. "
      "`with_mask=True` gives a pair (values, mask): the values without a copy, with anything where a null "
      "is, and a bool tensor that is True where the value is valid. `reinterpret=True` gives the integers of "
      "dates, times, timestamps and durations, `codes=True` the indices of a dictionary.");
  bind_tensor(
      c, "to_cupy", "column_to_cupy", "cupy.ndarray", "",
      "A CuPy array on the column's device, without a copy. It must not be written to. Keywords as for "
      "`to_torch`.");
  bind_tensor(c, "to_jax", "column_to_jax", "jax.Array", "",
              "A JAX array on the column's device, without a copy. Keywords as for `to_torch`.");
}

} // namespace

void bind_tensors(column_class& c) {
  bind_arrays(c);
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
      .def("_dlpack", &chosen_dlpack, nb::arg("stream").none(), nb::arg("max_version").none(),
           nb::arg("dl_device").none(), nb::arg("copy").none(), nb::arg("nulls"), nb::arg("fill"),
           nb::arg("reinterpret"), nb::arg("codes"),
           nb::sig("def _dlpack(self, stream: int | None, max_version: tuple[int, int] | None, dl_device: "
                   "tuple[int, int] | None, copy: bool | None, nulls: str, fill: float, reinterpret: bool, "
                   "codes: bool) -> typing_extensions.CapsuleType"),
           "`__dlpack__` with what its keywords have no room for.")
      .def_prop_ro(
          "__cuda_array_interface__", &array_interface,
          nb::for_getter(nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]")),
          "The CUDA Array Interface, version 3, of a column on a GPU: zero-copy and read-only, ordered "
          "by the stream that it names. The memory stays while this object lives, and until all work "
          "of the device that was queued by then is done. BufferError for nulls (consumers drop masks) "
          "and for several chunks.")
      .def("__dlpack_device__", &device_of, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
           "Device type and number, as DLPack numbers them.")
      .def("is_valid", &valid, nb::call_guard<gil_release>(),
           "A column of bool8, one byte a row: 1 where a value is not null, 0 where it is. One kernel a "
           "chunk.");
}

} // namespace saeta::py
