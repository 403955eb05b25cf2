// Imports through the Arrow C interfaces. saeta/exchange.py chooses the protocol for an object.
#include "python/src/arrow/capsules.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string_view>
#include <variant>

namespace saeta::py {
namespace {

using imported = std::variant<table_object, column_object>;

import_options options_of(std::optional<bool> copy, bool as_column) {
  import_options options;
  options.copy = policy_of(copy);
  options.structs_as_column = as_column;
  options.upload.tag = "arrow";
  return options;
}

bool is_struct(const ArrowSchema& type) { return std::string_view(type.format ? type.format : "") == "+s"; }

nb::object cast(imported made) {
  return std::visit([](auto&& value) { return nb::cast(std::forward<decltype(value)>(value)); },
                    std::move(made));
}

imported imported_of(const std::shared_ptr<context>& ctx, imported_stream made) {
  if (made.of_structs) {
    return table_object(std::move(made.rows));
  }
  return column_object(made.rows.fields().fields.front(), ctx, made.rows.pieces(0));
}

template <class Stream, auto Import>
nb::object from_stream(const context_object& ctx, nb::handle capsule, std::optional<bool> copy,
                       bool as_column) {
  taken<Stream> stream(capsule);
  const import_options options = options_of(copy, as_column);
  return cast(
      without_gil([&] { return imported_of(ctx.value, Import(ctx.value, stream.get(), options, {})); }));
}

template <auto ImportColumn, auto ImportBatch, class Array>
imported import_one(const std::shared_ptr<context>& ctx, const ArrowSchema& type, Array& array,
                    const import_options& options) {
  if (options.structs_as_column || !is_struct(type)) {
    const field described = import_field(type);
    std::vector<column> piece{ImportColumn(ctx, described, array, options)};
    return column_object(saeta::resolve_symbols(described), ctx, std::move(piece));
  }
  schema fields = import_schema(type);
  dictionary_cache dictionaries;
  batch rows = ImportBatch(ctx, fields, array, dictionaries, options);
  return table_object(table::make(ctx, saeta::resolve_symbols(std::move(fields)), {std::move(rows)}));
}

nb::object from_array(const context_object& ctx, nb::handle type, nb::handle capsule,
                      std::optional<bool> copy, bool as_column) {
  const ArrowSchema& described = schema_of(type);
  taken<ArrowArray> array(capsule);
  const import_options options = options_of(copy, as_column);
  return cast(without_gil(
      [&] { return import_one<import_column, import_batch>(ctx.value, described, array.get(), options); }));
}

/// Wraps an array from a Python object so that its release runs with the GIL held. pylibcudf 26.10 drops
/// Python objects in the release without taking the GIL, and we call the release on any thread. After the
/// interpreter's end, the array is leaked.
class released_with_gil {
public:
  static void wrap(ArrowArray& array) {
    auto whole = std::make_unique<ArrowArray>(array);
    array.private_data = whole.release();
    array.release = &release;
  }

private:
  static void release(ArrowArray* array) {
    const std::unique_ptr<ArrowArray> whole(static_cast<ArrowArray*>(array->private_data));
    with_gil_or_leak([&] { whole->release(whole.get()); });
    array->release = nullptr;
  }
};

nb::object from_device_array(const context_object& ctx, nb::handle type, nb::handle capsule,
                             std::optional<bool> copy, bool as_column) {
  const ArrowSchema& described = schema_of(type);
  taken<ArrowDeviceArray> array(capsule);
  if (array.get().array.release != nullptr) { // otherwise the import reports that it was already released
    released_with_gil::wrap(array.get().array);
  }
  const import_options options = options_of(copy, as_column);
  return cast(without_gil([&] {
    return import_one<import_device_column, import_device_batch>(ctx.value, described, array.get(), options);
  }));
}

bool is_device_stream(nb::handle capsule) {
  return PyCapsule_IsValid(capsule.ptr(), "arrow_device_array_stream") != 0;
}

std::int32_t device_type_of_arrow_capsule(nb::handle capsule) {
  return is_device_stream(capsule) ? taken<ArrowDeviceArrayStream>(capsule).get().device_type
                                   : taken<ArrowDeviceArray>(capsule).get().device_type;
}

std::pair<std::int32_t, std::optional<std::int64_t>> device_of_arrow_capsule(nb::handle capsule) {
  if (is_device_stream(capsule)) {
    taken<ArrowDeviceArrayStream> stream(capsule);
    const std::int32_t type = stream.get().device_type;
    if (type == kDLCPU || type == kDLCUDAHost) { // host memory has no device number
      return {type, std::nullopt};
    }
    return {type, without_gil([&] { return device_number_of(stream.get()); })};
  }
  taken<ArrowDeviceArray> array(capsule);
  return {array.get().device_type, array.get().device_id};
}

nb::object from_schema(nb::handle capsule) {
  const ArrowSchema& described = schema_of(capsule);
  return is_struct(described) ? nb::cast(saeta::resolve_symbols(import_schema(described)))
                              : nb::cast(saeta::resolve_symbols(import_field(described)));
}

nb::object capsule_name(nb::handle object) {
  if (!PyCapsule_CheckExact(object.ptr())) {
    return nb::none();
  }
  const char* name = PyCapsule_GetName(object.ptr());
  const std::string_view text = name != nullptr ? name : "";
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

} // namespace

void bind_arrow(nb::module_& m) {
  m.def("_import_stream", &from_stream<ArrowArrayStream, import_any_stream>, nb::arg("where"),
        nb::arg("stream"), nb::arg("copy") = nb::none(), nb::arg("as_column") = false,
        nb::sig("def _import_stream(where: Context, stream: object, copy: bool | None = None, as_column: "
                "bool = False) -> Table | Column"),
        "Takes an \"arrow_array_stream\" capsule: a stream of structs becomes a table unless `as_column`, "
        "any other a column.");
  m.def("_import_array", &from_array, nb::arg("where"), nb::arg("type"), nb::arg("array"),
        nb::arg("copy") = nb::none(), nb::arg("as_column") = false,
        nb::sig("def _import_array(where: Context, type: object, array: object, copy: bool | None = None, "
                "as_column: bool = False) -> Table | Column"),
        "Takes an \"arrow_array\" capsule described by an \"arrow_schema\" one.");
  m.def("_import_device_stream", &from_stream<ArrowDeviceArrayStream, import_device_stream>, nb::arg("where"),
        nb::arg("stream"), nb::arg("copy") = nb::none(), nb::arg("as_column") = false,
        nb::sig("def _import_device_stream(where: Context, stream: object, copy: bool | None = None, "
                "as_column: bool = False) -> Table | Column"),
        "Takes an \"arrow_device_array_stream\" capsule, as `_import_stream`.");
  m.def("_import_device_array", &from_device_array, nb::arg("where"), nb::arg("type"), nb::arg("array"),
        nb::arg("copy") = nb::none(), nb::arg("as_column") = false,
        nb::sig("def _import_device_array(where: Context, type: object, array: object, copy: bool | None = "
                "None, as_column: bool = False) -> Table | Column"),
        "Takes an \"arrow_device_array\" capsule described by an \"arrow_schema\" one.");
  m.def(
      "_device_of_capsule", &device_of_arrow_capsule, nb::arg("capsule"),
      nb::sig("def _device_of_capsule(capsule: object) -> tuple[int, int | None]"),
      "Device type and number of a capsule with an Arrow device array or stream. The capsule stays "
      "unconsumed: the first array of a stream on a GPU, which has the number, is requested and kept in it. "
      "A stream of the host, or without arrays, has no number.");
  m.def("_device_type_of_capsule", &device_type_of_arrow_capsule, nb::arg("capsule"),
        nb::sig("def _device_type_of_capsule(capsule: object) -> int"),
        "Device type of such a capsule, which no array is requested for.");
  m.def(
      "_import_field",
      [](nb::handle capsule) { return saeta::resolve_symbols(import_field(schema_of(capsule))); },
      nb::arg("capsule"), nb::sig("def _import_field(capsule: object) -> Field"),
      "Reads an \"arrow_schema\" capsule as a Field, whatever its type.");
  m.def("_import_schema", &from_schema, nb::arg("capsule"),
        nb::sig("def _import_schema(capsule: object) -> Schema | Field"),
        "Reads an \"arrow_schema\" capsule: a struct becomes a Schema, any other type a Field.");
  m.def("_capsule_name", &capsule_name, nb::arg("object").none(),
        "The name of a capsule, None for anything else.");
}

} // namespace saeta::py
