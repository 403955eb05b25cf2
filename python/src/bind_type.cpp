// Data types, fields and schemas.
#include "capsules.hpp"
#include "module.hpp"
#include "objects.hpp"
#include "saeta/base/text.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

/// Name of the element type as NumPy spells it; absent where DLPack has none.
std::optional<std::string> tensor_dtype(const data_type& type) {
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
  default:
    return std::nullopt;
  }
}

nb::list metadata_pairs(const metadata_list& metadata) {
  nb::list result;
  for (const auto& [key, value] : metadata) {
    result.append(nb::make_tuple(nb::bytes(key.data(), key.size()), nb::bytes(value.data(), value.size())));
  }
  return result;
}

std::string describe(const field& f) {
  return concat(f.name, ": ", f.type.name(), f.nullable ? "" : " not null");
}

std::string describe_all(const schema& s) {
  std::string text;
  for (const field& f : s.fields) {
    text += concat(text.empty() ? "" : "\n", describe(f));
  }
  return text;
}

bool equals_type(const data_type& self, const nb::object& other) {
  if (nb::isinstance<nb::str>(other)) {
    return self.name() == nb::cast<std::string>(other);
  }
  return nb::isinstance<data_type>(other) && self == nb::cast<const data_type&>(other);
}

template <class T>
bool equals(const T& self, const nb::object& other) {
  return nb::isinstance<T>(other) && self == nb::cast<const T&>(other);
}

const field& field_at(const schema& self, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(self.fields.size());
  const std::int64_t found = index < 0 ? index + count : index;
  if (found < 0 || found >= count) {
    throw error(errc::out_of_range, concat("field ", index, " of a schema with ", count, " fields"));
  }
  return self.fields[static_cast<std::size_t>(found)];
}

std::vector<std::string> names_of(const schema& self) {
  std::vector<std::string> names;
  for (const field& f : self.fields) {
    names.push_back(f.name);
  }
  return names;
}

void bind_data_type(nb::module_& m) {
  nb::class_<data_type>(m, "DataType", "An Arrow data type. Equal to its name as text.")
      .def_prop_ro("name", &data_type::name, "In Arrow's words: \"timestamp[us, tz=UTC]\".")
      .def_prop_ro("format", &data_type::format,
                   "Format string of the Arrow C Data Interface; that of the indices for a dictionary.")
      .def_prop_ro("byte_width", &data_type::byte_width,
                   "Bytes of one value (of an index, for dictionaries); 0 for bits and variable lengths.")
      .def_prop_ro("dtype", &tensor_dtype,
                   "Name of the element type as NumPy spells it, None where a tensor has no such type.")
      .def_prop_ro("is_bool8", &data_type::is_bool8, "True for the extension arrow.bool8: one byte a value.")
      .def_prop_ro("ordered", &data_type::ordered)
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
          "Fields of the children of a nested type, as the Arrow format has them; the entries of a map are "
          "one struct.")
      .def_prop_ro("extension_name", &data_type::extension_name)
      .def("__eq__", &equals_type, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const data_type& self) { return std::hash<std::string>()(self.name()); })
      .def("__str__", &data_type::name)
      .def("__repr__", [](const data_type& self) { return concat("<saeta.DataType ", self.name(), ">"); })
      .def(
          "__arrow_c_schema__",
          [](const data_type& self) {
            return schema_capsule(field{"", self, true, {}});
          },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).");
}

void bind_field(nb::module_& m) {
  nb::class_<field>(m, "Field", "A name, a type and whether nulls are allowed.")
      .def_ro("name", &field::name)
      .def_ro("type", &field::type)
      .def_ro("nullable", &field::nullable)
      .def_prop_ro(
          "metadata", [](const field& self) { return metadata_pairs(self.metadata); },
          nb::sig("def metadata(self) -> list[tuple[bytes, bytes]]"), "Keys and values, in order.")
      .def("__eq__", &equals<field>, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const field& self) { return std::hash<std::string>()(describe(self)); })
      .def("__repr__", [](const field& self) { return concat("<saeta.Field ", describe(self), ">"); })
      .def(
          "__arrow_c_schema__", [](const field& self) { return schema_capsule(self); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).");
}

void bind_schema(nb::module_& m) {
  nb::class_<schema>(m, "Schema", "The fields of a table, in order. Names may repeat or be empty.")
      .def_prop_ro("names", &names_of)
      .def_prop_ro("fields", [](const schema& self) { return self.fields; })
      .def_prop_ro("types",
                   [](const schema& self) {
                     std::vector<data_type> types;
                     for (const field& f : self.fields) {
                       types.push_back(f.type);
                     }
                     return types;
                   })
      .def_prop_ro(
          "metadata", [](const schema& self) { return metadata_pairs(self.metadata); },
          nb::sig("def metadata(self) -> list[tuple[bytes, bytes]]"), "Keys and values, in order.")
      .def(
          "field",
          [](const schema& self, const std::string& name) { return self.fields[self.index_of(name)]; },
          nb::arg("name"),
          "The only field of that name; InvalidError when there is none or there are several.")
      .def("field", &field_at, nb::arg("index"),
           "The field of that number; negative numbers count from the end.")
      .def("__len__", [](const schema& self) { return self.fields.size(); })
      .def("__getitem__", &field_at, nb::arg("index"))
      .def("__eq__", &equals<schema>, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const schema& self) { return std::hash<std::string>()(describe_all(self)); })
      .def("__str__", &describe_all)
      .def("__repr__", [](const schema& self) { return concat("<saeta.Schema>\n", describe_all(self)); })
      .def(
          "__arrow_c_schema__", [](const schema& self) { return schema_capsule(self); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule of a struct (Arrow PyCapsule Interface).");
}

} // namespace

void bind_type(nb::module_& m) {
  bind_data_type(m);
  bind_field(m);
  bind_schema(m);
}

} // namespace saeta::py
