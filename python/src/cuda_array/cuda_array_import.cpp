// Imports through the CUDA Array Interface, whose fields saeta/_convert/from_cuda_array.py reads.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/interop/cuda_array/cuda_array_interface.hpp"

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

} // namespace

void bind_cuda_array(nb::module_& m) {
  m.def("_import_cuda_array", &from_cuda_array, nb::arg("where"), nb::arg("values"), nb::arg("mask").none(),
        nb::arg("copy").none(), nb::arg("name"),
        nb::sig("def _import_cuda_array(where: Context, values: tuple[int, bool, str, list[int], list[int] | "
                "None, int, int | None, object], mask: tuple[int, bool, str, list[int], list[int] | None, "
                "int, int | None, object] | None, copy: bool | None, name: str) -> Column"),
        "Takes an array of the CUDA Array Interface, field by field, and keeps its last field alive.");
}

} // namespace saeta::py
