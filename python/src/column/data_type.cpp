// The class DataType.
#include "python/src/arrow/capsules.hpp"
#include "python/src/column/type_objects.hpp"
#include "python/src/core/keys.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/base/text.hpp"
#include "saeta/interop/dlpack/types.hpp"
#include "saeta/symbols/symbols.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace saeta::py {
namespace {

std::optional<std::string> element_dtype(const data_type& type);

/// The element type's name in NumPy. Empty if DLPack has no such type, and for booleans stored as bits.
std::optional<std::string> tensor_dtype(const data_type& type) {
  if (code_type(type) != nullptr) {
    return std::nullopt;
  }
  switch (type.id()) {
  case type_id::int8:
    return type.is_bool8() ? "bool" : "int8";
  case type_id::uint8:
    return "uint8";
  case type_id::int16:
    return "int16";
  case type_id::uint16:
    return "uint16";
  case type_id::int32:
    return "int32";
  case type_id::uint32:
    return "uint32";
  case type_id::int64:
    return "int64";
  case type_id::uint64:
    return "uint64";
  case type_id::half_float:
    return "float16";
  case type_id::float32:
    return "float32";
  case type_id::float64:
    return "float64";
  case type_id::fixed_size_binary: {
    const narrow_float* const narrow = narrow_float_of(type);
    return narrow == nullptr ? std::nullopt : std::optional(std::string(narrow->name()));
  }
  case type_id::fixed_size_list:
    return element_dtype(type.children().front().type);
  case type_id::struct_: {
    const std::span<const field> fields = type.children();
    const bool alike = !fields.empty() && std::ranges::all_of(fields, [&](const field& each) {
      return each.type == fields.front().type && each.type.children().empty();
    });
    return alike ? element_dtype(fields.front().type) : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

std::optional<std::string> element_dtype(const data_type& type) {
  return type.id() == type_id::boolean ? "bool" : tensor_dtype(type);
}

bool equals_type(const data_type& self, const nb::object& other) {
  if (nb::isinstance<nb::str>(other)) {
    return self.name() == name_of(other);
  }
  return nb::isinstance<data_type>(other) && self == nb::cast<const data_type&>(other);
}

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::object type_or_none(const data_type* type) { return type == nullptr ? nb::none() : nb::cast(*type); }

/// The arguments of `restored`. Symbols of any table are restored as symbols of the receiving process.
nb::tuple state_of(const data_type& self) {
  const char* const special = self.is_symbol() ? "symbol" : self.is_byte_bool() ? "bool8" : "";
  return nb::make_tuple(special, bytes_of(self.format()),
                        std::vector<field>(self.children().begin(), self.children().end()),
                        self.keys_sorted(), type_or_none(self.index_type()), type_or_none(self.value_type()),
                        self.ordered(), bytes_of(self.extension_name()), bytes_of(self.extension_metadata()));
}

data_type restore_type(const std::string& special, const nb::bytes& format, std::vector<field> children,
                       bool keys_sorted, const std::optional<data_type>& index,
                       const std::optional<data_type>& value, bool ordered, const nb::bytes& extension,
                       const nb::bytes& metadata) {
  if (!special.empty()) {
    return special == "symbol" ? symbol_type() : data_type::byte_bool();
  }
  const std::string_view text(format.c_str(), format.size());
  const data_type storage = index && value ? data_type::dictionary(*index, *value, ordered)
                            : text.starts_with('+')
                                ? data_type::nested(text, std::move(children), keys_sorted)
                                : data_type::parse(text);
  return extension.size() == 0 ? storage
                               : storage.with_extension(std::string(extension.c_str(), extension.size()),
                                                        std::string(metadata.c_str(), metadata.size()));
}

void bind_data_type(nb::module_& m) {
  nb::class_<data_type>(
      m, "DataType",
      "An Arrow data type, made from its Arrow name (\"int64\", \"timestamp[us, tz=UTC]\"), from a type of "
      "another Arrow library such as pyarrow, or from a dtype of NumPy or torch. Python's `float` is "
      "float64, as in NumPy, while Arrow's name \"float\" is float32. Compares equal to its name as text."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> sa.DataType('timestamp[us, tz=UTC]').byte_width\n"
      "    8\n"
      "    >>> codes = sa.DataType('dictionary<values=string, indices=int32>')\n"
      "    >>> codes.index_type.name, codes.value_type.name, codes.ordered\n"
      "    ('int32', 'string', False)")
      .def(
          "__init__", [](data_type* self, nb::handle type) { new (self) data_type(type_from(type)); },
          nb::arg("type").none(), nb::sig("def __init__(self, type: DataType | str | object) -> None"),
          "InvalidError for text that is not a type. A schema is taken for a struct.")
      .def_prop_ro("name", &data_type::name, "The Arrow name: \"timestamp[us, tz=UTC]\".")
      .def_prop_ro("format", &data_type::format,
                   "Format string of the Arrow C Data Interface; that of the indices for a dictionary.")
      .def_prop_ro("byte_width", &data_type::byte_width,
                   "Bytes of one value (of an index, for dictionaries); 0 for bits and variable lengths.")
      .def_prop_ro("dtype", &tensor_dtype,
                   "NumPy's name of the element type. For fixed-size lists and structs of one type, that of "
                   "their numbers. None if tensors have no such type.")
      .def_prop_ro("is_bool8", &data_type::is_bool8,
                   "True for booleans of one byte: bool8, as in tensors, and the extension arrow.bool8.")
      .def_prop_ro("is_symbol", &data_type::is_symbol, "True for symbols: numbers that stand for names.")
      .def_prop_ro(
          "symbol_table",
          [](const data_type& self) {
            return self.is_symbol() ? std::optional(symbol_table_object{self.symbols()}) : std::nullopt;
          },
          "The SymbolTable of symbols, else None.")
      .def_prop_ro("ordered", &data_type::ordered, "Whether the values of a dictionary are in order.")
      .def_prop_ro(
          "index_type",
          [](const data_type& self) {
            return self.index_type() ? std::optional(*self.index_type()) : std::nullopt;
          },
          "Type of the indices of a dictionary, else None.")
      .def_prop_ro(
          "value_type",
          [](const data_type& self) {
            return self.value_type() ? std::optional(*self.value_type()) : std::nullopt;
          },
          "Type of the values of a dictionary, else None.")
      .def_prop_ro(
          "fields",
          [](const data_type& self) {
            return std::vector<field>(self.children().begin(), self.children().end());
          },
          "Fields of the children of a nested type, as in the Arrow format; the entries of a map are one "
          "struct.")
      .def_prop_ro("extension_name", &data_type::extension_name,
                   "Name of the Arrow extension type, empty without one.")
      .def("__eq__", &equals_type, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const data_type& self) { return std::hash<std::string>()(self.name()); })
      .def(copied_as_itself())
      .def(pickled_by("reduce_type"))
      .def("__str__", &data_type::name)
      .def("__repr__",
           [](const data_type& self) { return printable(concat("<saeta.DataType ", self.name(), ">")); })
      .def(
          "__arrow_c_schema__",
          [](const data_type& self) {
            return schema_capsule(field{"", self, true, {}});
          },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).");
}

} // namespace

data_type type_from(nb::handle given) {
  if (nb::isinstance<data_type>(given)) {
    return nb::cast<data_type>(given);
  }
  return foreign_call([&] {
    return nb::cast<data_type>(nb::module_::import_("saeta._convert.types").attr("data_type")(given));
  });
}

void bind_type(nb::module_& m) {
  bind_data_type(m);
  m.def(
      "_type_of_format", [](const std::string& format) { return data_type::parse(format); },
      nb::arg("format"), "A type from a format string of the Arrow C Data Interface.");
  m.def(
      "_nested_type",
      [](const std::string& format, std::vector<field> fields, bool keys_sorted) {
        return data_type::nested(format, std::move(fields), keys_sorted);
      },
      nb::arg("format"), nb::arg("fields"), nb::arg("keys_sorted") = false,
      "A nested type by the format string of the Arrow C Data Interface and its children.");
  m.def("_dictionary_type", &data_type::dictionary, nb::arg("indices"), nb::arg("values"),
        nb::arg("ordered"));
  m.def("_type_state", &state_of, nb::arg("type"),
        nb::sig("def _type_state(type: DataType) -> tuple[typing.Any, ...]"),
        "The state from which `_type_of_state` makes the type again.");
  m.def("_type_of_state", &restore_type, nb::arg("special"), nb::arg("format"), nb::arg("fields"),
        nb::arg("keys_sorted"), nb::arg("index").none(), nb::arg("value").none(), nb::arg("ordered"),
        nb::arg("extension"), nb::arg("metadata"));
  m.def("_bool8_type", &data_type::bool8);
  m.def("_byte_bool_type", &data_type::byte_bool);
  m.def(
      "_narrow_float_type", [](const std::string& name) { return narrow_float_type(name); }, nb::arg("name"),
      "A float for which Arrow has no type, such as \"bfloat16\"; None for other names.");
  bind_field(m);
  bind_schema(m);
}

} // namespace saeta::py
