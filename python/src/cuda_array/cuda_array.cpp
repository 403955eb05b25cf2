// The CUDA Array Interface: imports, whose fields saeta/_convert/from_tensors.py reads, and exports.
#include "python/src/column/column_class.hpp"
#include "python/src/core/gil.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/interop/cuda_array/cuda_array_interface.hpp"
#include "saeta/interop/dlpack/types.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace saeta::py {
namespace {

/// Pointer, read-only flag, typestr, shape, strides in bytes, version, stream, and the object that keeps the
/// memory alive.
using array_fields = std::tuple<std::uintptr_t, bool, std::string, std::vector<std::int64_t>,
                                std::optional<std::vector<std::int64_t>>, std::int32_t,
                                std::optional<std::int64_t>, nb::object>;

cuda_array array_of(const array_fields& given) {
  const auto& [data, read_only, typestr, shape, strides, version, stream, owner] = given;
  cuda_array made;
  made.data = data;
  made.read_only = read_only;
  made.typestr = typestr;
  made.shape = shape;
  made.strides = strides;
  made.version = version;
  made.stream = stream;
  made.owner = std::shared_ptr<void>(owner.inc_ref().ptr(), [](void* object) {
    with_gil_or_leak([object] { Py_DECREF(static_cast<PyObject*>(object)); });
  });
  return made;
}

column_object from_cuda_array(const context_object& ctx, const array_fields& values,
                              const std::optional<array_fields>& mask, std::optional<bool> copy,
                              std::string name) {
  const cuda_array array = array_of(values);
  const std::optional<cuda_array> valid = mask ? std::optional(array_of(*mask)) : std::nullopt;
  std::vector<column> piece{without_gil(
      [&] { return import_cuda_array(ctx.value, array, valid ? &*valid : nullptr, policy_of(copy)); })};
  const data_type type = piece.front().type();
  return {field{std::move(name), type, mask.has_value(), {}}, ctx.value, std::move(piece)};
}

/// Drops the hold of an exported array when the Python object that exported it is destroyed.
void drop_hold(void* hold) noexcept {
  released_gil([&] { delete static_cast<std::shared_ptr<void>*>(hold); });
}

nb::tuple tuple_of(const std::vector<std::int64_t>& numbers) {
  nb::list made;
  for (const std::int64_t each : numbers) {
    made.append(each);
  }
  return nb::tuple(made);
}

/// The type of the innermost values. Fixed-size lists and structs become dimensions of an array.
const data_type& innermost(const data_type& type) {
  const bool dimension = type.id() == type_id::fixed_size_list || type.id() == type_id::struct_;
  return dimension && !type.children().empty() ? innermost(type.children().front().type) : type;
}

nb::dict array_interface(nb::handle self) {
  auto& source = nb::cast<column_object&>(self);
  if (source.ctx->on_host()) {
    throw nb::attribute_error(
        "__cuda_array_interface__ shows memory of a GPU, and the column is on the host");
  }
  try {
    const data_type& shown = innermost(source.described->type);
    to_tensor_type(shown);
    if (narrow_float_of(shown) != nullptr) {
      throw error(errc::exchange,
                  concat("type ", shown.name(), " has no typestr of __cuda_array_interface__"));
    }
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
  interface["shape"] = tuple_of(shown.shape);
  interface["typestr"] = shown.typestr;
  interface["data"] = nb::make_tuple(shown.data, shown.read_only);
  interface["strides"] = shown.strides ? nb::object(tuple_of(*shown.strides)) : nb::none();
  interface["version"] = shown.version;
  interface["stream"] = shown.stream;
  return interface;
}

} // namespace

void bind_cuda_array(nb::module_& m) {
  m.def("_import_cuda_array", &from_cuda_array, nb::arg("where"), nb::arg("values"), nb::arg("mask").none(),
        nb::arg("copy").none(), nb::arg("name"),
        nb::sig("def _import_cuda_array(where: Context, values: tuple[int, bool, str, list[int], list[int] | "
                "None, int, int | None, object], mask: tuple[int, bool, str, list[int], list[int] | None, "
                "int, int | None, object] | None, copy: bool | None, name: str) -> Column"),
        "Takes an array of the CUDA Array Interface, field by field, and keeps its last field alive.");
  auto c = nb::borrow<column_class>(nb::type<column_object>());
  c.def_prop_ro("__cuda_array_interface__", &array_interface,
                nb::for_getter(nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]")),
                "The CUDA Array Interface, version 3, of a column on a GPU: zero-copy and read-only, ordered "
                "by the stream that it names. The memory stays while this object lives, and until all work "
                "of the device that was queued by then is done. BufferError for nulls (consumers drop masks) "
                "and for several chunks.");
}

} // namespace saeta::py
