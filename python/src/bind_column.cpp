// Columns.
#include "capsules.hpp"
#include "module.hpp"
#include "pieces.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/interop/cuda_array_interface.hpp"
#include "values.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

using device_pair = std::pair<std::int32_t, std::int32_t>;
using version_pair = std::pair<std::uint32_t, std::uint32_t>;

column_object with_pieces(const column_object& self, std::vector<column> pieces) {
  return {self.described, self.home, std::move(pieces)};
}

std::vector<column_object> chunks(const column_object& self) {
  std::vector<column_object> result;
  for (const column& piece : *self.pieces) {
    result.push_back(with_pieces(self, {piece}));
  }
  return result;
}

column_object from_chunks(const std::vector<column_object>& given, const std::optional<std::string>& name) {
  if (given.empty()) {
    throw error(errc::invalid_argument, "no chunks: at least one is needed to know the type");
  }
  field described = given.front().described;
  described.name = name.value_or(described.name);
  std::vector<column> pieces;
  for (const column_object& each : given) {
    if (!(each.described.type == described.type)) {
      throw error(errc::type_mismatch, concat("chunk of type ", each.described.type.name(), " beside one of ",
                                              described.type.name()));
    }
    if (!each.home->shares_with(*given.front().home)) {
      throw error(errc::invalid_argument, concat("chunk on ", to_string(each.home->device()),
                                                 " beside one on ", to_string(given.front().home->device())));
    }
    described.nullable = described.nullable || each.described.nullable;
    pieces.insert(pieces.end(), each.pieces->begin(), each.pieces->end());
  }
  return {std::move(described), given.front().home, std::move(pieces)};
}

column_object renamed(const column_object& self, std::string name) {
  column_object result = self;
  result.described.name = std::move(name);
  return result;
}

column_object sliced(const column_object& self, std::int64_t offset, std::optional<std::int64_t> length) {
  const std::int64_t rows = total_rows(*self.pieces);
  return with_pieces(self, slice_pieces(*self.pieces, offset, length.value_or(rows - offset)));
}

std::int64_t null_count(const column_object& self) {
  std::int64_t nulls = 0;
  for (const column& piece : *self.pieces) {
    nulls += piece.null_count();
  }
  return nulls;
}

std::uint64_t byte_size(const column_object& self) {
  std::uint64_t bytes = 0;
  for (const column& piece : *self.pieces) {
    bytes += piece.byte_size();
  }
  return bytes;
}

/// Address of the first row's value, index or offset; of the byte that holds its bit for booleans.
std::uintptr_t address(const column_object& self) {
  const column piece = single_piece(self, "an address");
  const auto row = static_cast<std::uint64_t>(piece.offset());
  switch (piece.type().layout()) {
  case layout_kind::none:
    return 0;
  case layout_kind::bits:
    return piece.values().address() + row / 8;
  case layout_kind::fixed:
    return piece.values().address() + row * static_cast<std::uint64_t>(piece.type().byte_width());
  case layout_kind::offsets32:
    return piece.offsets().address() + row * sizeof(std::int32_t);
  case layout_kind::offsets64:
    return piece.offsets().address() + row * sizeof(std::int64_t);
  }
  return 0;
}

column_object converted(const column_object& self, column (*convert)(const column&)) {
  field described = self.described;
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(convert(piece));
  }
  described.type = convert == &unpack_bool ? data_type::bool8() : data_type(type_id::boolean);
  return {std::move(described), self.home, std::move(pieces)};
}

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
  return {field{self.described.name, data_type::bool8(), false, {}}, self.home, std::move(pieces)};
}

device_pair device_of(const column_object& self) {
  const device_id own = self.home->device();
  const tensor_device found =
      self.pieces->empty() ? to_tensor_device(own, own_kind(own)) : dlpack_device(self.pieces->front());
  return {found.type, found.ordinal};
}

nb::list raw_list(const column_object& self) {
  nb::list result;
  for (const column& piece : *self.pieces) {
    result.extend(raw_values(self.home, batch{piece.length(), {piece}}).front());
  }
  return result;
}

void bind_values(nb::class_<column_object>& c) {
  c.def("__getitem__", in_python("saeta._values", "column_item"),
        nb::sig("def __getitem__(self, index: int) -> typing.Any"))
      .def("__getitem__", in_python("saeta._values", "column_item"),
           nb::sig("def __getitem__(self, index: slice) -> Column"),
           "One value (None for a null), which a device column downloads, or a slice with step 1, which is "
           "free.")
      .def("__iter__", in_python("saeta._values", "column_iter"),
           nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"))
      .def("to_pylist", in_python("saeta._values", "column_list"),
           nb::sig("def to_pylist(self) -> list[typing.Any]"),
           "All values as Python objects, None for nulls. A device column is downloaded.")
      .def("_raw_values", &raw_list, nb::sig("def _raw_values(self) -> list[bytes | bool | None]"),
           "Values as the Arrow layout holds them; dictionaries give their values.")
      .def("slice", &sliced, nb::arg("offset"), nb::arg("length") = nb::none(),
           nb::sig("def slice(self, offset: int, length: int | None = None) -> Column"),
           "Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the "
           "column.");
}

/// A `to_...` call that gives an array of a library: with a mask a pair of them, which is an overload of its own.
void bind_tensor(nb::class_<column_object>& c, const char* name, const char* in_convert, const char* array,
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

void bind_tensors(nb::class_<column_object>& c) {
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

void bind_conversions(nb::class_<column_object>& c) {
  c.def(
       "as_bool8", [](const column_object& self) { return converted(self, &unpack_bool); },
       nb::call_guard<gil_release>(),
       "Booleans of one bit as booleans of one byte (arrow.bool8), which tensors can view: one kernel a "
       "chunk.")
      .def(
          "as_bool", [](const column_object& self) { return converted(self, &pack_bool); },
          nb::call_guard<gil_release>(),
          "Booleans of one byte (or any int8 or uint8, where not 0 is true) as booleans of one bit.")
      .def("to_arrow", in_python("saeta._convert", "column_to_arrow"),
           nb::sig("def to_arrow(self) -> pyarrow.ChunkedArray"),
           "A pyarrow ChunkedArray: views of a host column, a download of a device column.")
      .def("is_valid", &valid, nb::call_guard<gil_release>(),
           "A column of bool8, one byte a row: 1 where a value is not null, 0 where it is. One kernel a "
           "chunk.")
      .def("__array__", in_python("saeta._convert", "column_array"),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "numpy.typing.NDArray[typing.Any]"));
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
    to_tensor_type(source.described.type);
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

void bind_protocols(nb::class_<column_object>& c) {
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
      .def(
          "__arrow_c_schema__", [](const column_object& self) { return schema_capsule(self.described); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_array__",
          [](const column_object& self, nb::handle requested, const nb::kwargs&) {
            check_requested_schema(requested, 0);
            return array_capsules(self.described, single_piece(self, "__arrow_c_array__"));
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
            check_requested_schema(requested, 0);
            return stream_capsule(self.described, *self.pieces);
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig(
              "def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: typing.Any) -> "
              "typing_extensions.CapsuleType"),
          "A capsule of a stream of the chunks, in host memory.");
}

} // namespace

void bind_column(nb::module_& m) {
  nb::class_<column_object> c(
      m, "Column",
      "A named, typed, immutable column on a device, in one or several chunks. Slices and "
      "selections share its memory.");
  bind_values(c);
  c.def_prop_ro("name", [](const column_object& self) { return self.described.name; })
      .def_prop_ro("type", [](const column_object& self) { return self.described.type; })
      .def_prop_ro("field", [](const column_object& self) { return self.described; })
      .def_prop_ro("context", [](const column_object& self) { return context_object{self.home}; })
      .def_prop_ro("device", [](const column_object& self) { return to_string(self.home->device()); })
      .def_prop_ro("chunks", &chunks, "The pieces in memory, each as a column of one chunk; no copy.")
      .def_prop_ro("num_chunks", [](const column_object& self) { return self.pieces->size(); })
      .def_prop_ro("null_count", &null_count, nb::call_guard<gil_release>(),
                   "Number of nulls; counted on the device where it is not known yet, then remembered.")
      .def_prop_ro("nbytes", &byte_size, "Bytes that the rows refer to, dictionary included.")
      .def_prop_ro(
          "address", &address,
          "Address of the first row's value (index of a dictionary, offset of a string), to prove that "
          "memory is shared. BufferError for several chunks.")
      .def("__len__", [](const column_object& self) { return total_rows(*self.pieces); })
      .def("with_name", &renamed, nb::arg("name"), "The same column under another name.")
      .def_static(
          "from_chunks", &from_chunks, nb::arg("chunks"), nb::arg("name") = nb::none(),
          nb::sig("def from_chunks(chunks: collections.abc.Sequence[Column], name: str | None = None) -> "
                  "Column"),
          "One column of the chunks of several, in order; no copy. TypeMismatch where their types differ.")
      .def("__repr__", in_python("saeta._display", "column_text"), nb::sig("def __repr__(self) -> str"));
  bind_conversions(c);
  bind_tensors(c);
  bind_protocols(c);
}

} // namespace saeta::py
