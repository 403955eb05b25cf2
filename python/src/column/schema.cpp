// The classes Field and Schema.
#include "saeta/column/schema.hpp"

#include "python/src/arrow/capsules.hpp"
#include "python/src/column/type_objects.hpp"
#include "python/src/core/keys.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/base/closest.hpp"
#include "saeta/base/text.hpp"
#include "saeta/transfer/display.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace saeta::py {
namespace {

/// Metadata as a Python mapping.
nb::object metadata_mapping(const metadata_list& metadata) {
  nb::list pairs;
  for (const auto& [key, value] : metadata) {
    pairs.append(nb::make_tuple(nb::bytes(key.data(), key.size()), nb::bytes(value.data(), value.size())));
  }
  return foreign_call([&] { return nb::module_::import_("saeta._metadata").attr("Metadata")(pairs); });
}

metadata_list metadata_from(nb::handle given) {
  metadata_list result;
  foreign_call([&] {
    for (const nb::handle pair : nb::module_::import_("saeta._metadata").attr("pairs_of")(given)) {
      const auto key = nb::cast<nb::bytes>(pair[0]);
      const auto value = nb::cast<nb::bytes>(pair[1]);
      result.emplace_back(std::string(key.c_str(), key.size()), std::string(value.c_str(), value.size()));
    }
  });
  return result;
}

/// @param metadata  None: the metadata of `fields`.
schema schema_from(nb::handle fields, nb::handle metadata) {
  return foreign_call([&] {
    const nb::object parts = nb::module_::import_("saeta._convert.types").attr("parts_of")(fields);
    const nb::object brought = parts[1];
    return schema{nb::cast<std::vector<field>>(parts[0]),
                  metadata_from(metadata.is_none() ? nb::handle(brought) : metadata)};
  });
}

template <class T>
bool equals(const T& self, const nb::object& other) {
  return nb::isinstance<T>(other) && self == nb::cast<const T&>(other);
}

/// The place of a field, by its name or number. Negative numbers count from the end.
std::size_t place_in(const schema& self, nb::handle key) {
  if (nb::isinstance<nb::str>(key)) {
    return self.index_of(name_of(key));
  }
  if (PyBool_Check(key.ptr()) || !PyIndex_Check(key.ptr())) {
    throw error(errc::type_mismatch,
                concat("a field is selected by its name or number, not by an object of type ",
                       nb::type_name(key.type()).c_str()));
  }
  return place_of_number(key, self.fields.size(), "field", "schema");
}

field field_of(const schema& self, nb::handle key) { return self.fields[place_in(self, key)]; }

bool contains(const schema& self, nb::handle key) {
  return std::ranges::any_of(self.fields, [&](const field& f) {
    return nb::isinstance<nb::str>(key) ? f.name == name_of(key) : equals(f, nb::borrow(key));
  });
}

std::int64_t place_of_field(const schema& self, const std::string& name) {
  std::int64_t found = -1;
  for (std::size_t i = 0; i < self.fields.size(); ++i) {
    if (self.fields[i].name == name) {
      if (found >= 0) {
        return -1;
      }
      found = static_cast<std::int64_t>(i);
    }
  }
  return found;
}

/// A copy of the field with one member changed.
template <auto Member, class Value>
field with(const field& self, Value value) {
  field changed = self;
  changed.*Member = std::move(value);
  return changed;
}

schema with_metadata(const schema& self, nb::handle metadata) {
  return {self.fields, metadata_from(metadata)};
}

constexpr const char* mapping_doc =
    "A mapping of bytes to bytes; its `pairs` has repeated keys too."
    "\n\nExample:\n"
    "    >>> import saeta as sa\n"
    "    >>> sa.schema([('a', 'int8')], metadata={'source': 'meter'}).metadata\n"
    "    {b'source': b'meter'}";
constexpr const char* field_doc = "The only field of that name (InvalidError when there is none or there are "
                                  "several), or the one of that number; negative numbers count from the end.";
constexpr const char* metadata_sig_field =
    "def with_metadata(self, metadata: collections.abc.Mapping[typing.Any, typing.Any] | None) -> Field";
constexpr const char* metadata_sig_schema =
    "def with_metadata(self, metadata: collections.abc.Mapping[typing.Any, typing.Any] | None) -> Schema";

std::vector<std::string> names_of(const schema& self) {
  std::vector<std::string> names;
  for (const field& f : self.fields) {
    names.push_back(f.name);
  }
  return names;
}

} // namespace

void bind_field(nb::module_& m) {
  nb::class_<field>(m, "Field",
                    "A name, a type, whether nulls are allowed, and metadata."
                    "\n\nExample:\n"
                    "    >>> import saeta as sa\n"
                    "    >>> fare = sa.Field('fare', 'float64', nullable=False, metadata={'unit': 'EUR'})\n"
                    "    >>> fare.name, fare.type.name, fare.nullable, fare.metadata\n"
                    "    ('fare', 'double', False, {b'unit': b'EUR'})\n"
                    "    >>> fare.with_name('price') == fare.with_type('float32')\n"
                    "    False")
      .def(
          "__init__",
          [](field* self, std::string name, nb::handle type, bool nullable, nb::handle metadata) {
            new (self) field{std::move(name), type_from(type), nullable, metadata_from(metadata)};
          },
          nb::arg("name"), nb::arg("type"), nb::arg("nullable") = true,
          nb::arg("metadata").none() = nb::none(),
          nb::sig("def __init__(self, name: str, type: DataType | str | object, nullable: bool = True, "
                  "metadata: collections.abc.Mapping[typing.Any, typing.Any] | None = None) -> None"),
          "`type` is what `DataType` takes; `metadata` maps text or bytes to text or bytes.")
      .def_ro("name", &field::name, "Its name; may be empty.")
      .def_ro("type", &field::type, "Its data type.")
      .def_ro("nullable", &field::nullable, "Whether nulls are allowed.")
      .def_prop_ro(
          "metadata", [](const field& self) { return metadata_mapping(self.metadata); },
          nb::for_getter(nb::sig("def metadata(self) -> saeta._metadata.Metadata")), mapping_doc)
      .def("with_name", &with<&field::name, std::string>, nb::arg("name"),
           "The same field under another name.")
      .def(
          "with_type",
          [](const field& self, nb::handle type) {
            return field{self.name, type_from(type), self.nullable, self.metadata};
          },
          nb::arg("type"), nb::sig("def with_type(self, type: DataType | str | object) -> Field"),
          "The same field with another type.")
      .def("with_nullable", &with<&field::nullable, bool>, nb::arg("nullable"),
           "The same field, which may or may not have nulls.")
      .def(
          "with_metadata",
          [](const field& self, nb::handle metadata) {
            return field{self.name, self.type, self.nullable, metadata_from(metadata)};
          },
          nb::arg("metadata").none(), nb::sig(metadata_sig_field),
          "The same field with this metadata and no other.")
      .def("equals", &equals<field>, nb::arg("other").none(),
           nb::sig("def equals(self, other: object) -> bool"), "As ==: name, type, nullability and metadata.")
      .def("__eq__", &equals<field>, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const field& self) { return std::hash<std::string>()(to_string(self)); })
      .def(copied_as_itself())
      .def(pickled_by("reduce_field"))
      .def("__repr__", [](const field& self) { return concat("<saeta.Field ", to_string(self), ">"); })
      .def(
          "__arrow_c_schema__", [](const field& self) { return schema_capsule(self); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule (Arrow PyCapsule Interface).");
}

void bind_schema(nb::module_& m) {
  nb::class_<schema>(m, "Schema",
                     "The fields of a table, in order. Names may repeat or be empty."
                     "\n\nExample:\n"
                     "    >>> import saeta as sa\n"
                     "    >>> schema = sa.schema([('city', 'string'), ('fare', 'float64')])\n"
                     "    >>> schema['fare'].type.name\n"
                     "    'double'\n"
                     "    >>> len(schema)\n"
                     "    2")
      .def(
          "__init__",
          [](schema* self, nb::handle fields, nb::handle metadata) {
            new (self) schema(schema_from(fields, metadata));
          },
          nb::arg("fields"), nb::arg("metadata").none() = nb::none(),
          nb::sig("def __init__(self, fields: object, metadata: collections.abc.Mapping[typing.Any, "
                  "typing.Any] | None = None) -> None"),
          "`fields` is a sequence of Field objects, of fields of another Arrow library or of pairs (name, "
          "type), a mapping of names to types, or an object with `__arrow_c_schema__`, whose metadata is "
          "kept unless `metadata` is given.")
      .def_prop_ro("names", &names_of, "Names of the fields, in order.")
      .def_prop_ro(
          "fields", [](const schema& self) { return self.fields; }, "The fields, in order.")
      .def_prop_ro(
          "types",
          [](const schema& self) {
            std::vector<data_type> types;
            for (const field& f : self.fields) {
              types.push_back(f.type);
            }
            return types;
          },
          "Types of the fields, in order.")
      .def_prop_ro(
          "metadata", [](const schema& self) { return metadata_mapping(self.metadata); },
          nb::for_getter(nb::sig("def metadata(self) -> saeta._metadata.Metadata")), mapping_doc)
      .def_prop_ro(
          "_has_pandas_metadata",
          [](const schema& self) {
            return std::ranges::any_of(self.metadata,
                                       [](const auto& each) { return each.first == "pandas"; });
          },
          "Whether the metadata has an entry of pandas, which may name columns of an index.")
      .def("field", &field_of, nb::arg("key"), nb::sig("def field(self, key: str | int) -> Field"), field_doc)
      .def("with_metadata", &with_metadata, nb::arg("metadata").none(), nb::sig(metadata_sig_schema),
           "The same fields with this metadata of the schema and no other.")
      .def("get_field_index", &place_of_field, nb::arg("name"),
           "Number of the only field of that name, -1 when there is none or there are several.")
      .def("equals", &equals<schema>, nb::arg("other").none(),
           nb::sig("def equals(self, other: object) -> bool"), "As ==: fields in order, and metadata.")
      .def("__len__", [](const schema& self) { return self.fields.size(); })
      .def("__getitem__", &field_of, nb::arg("key"),
           nb::sig("def __getitem__(self, key: str | int) -> Field"), field_doc)
      .def(
          "__iter__", [](const schema& self) { return nb::iter(nb::cast(self.fields)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Field]"), "The fields, in order.")
      .def("__contains__", &contains, nb::arg("key"),
           nb::sig("def __contains__(self, key: str | Field) -> bool"),
           "Whether a field has that name, or equals that Field.")
      .def("_ipython_key_completions_", &names_of, "Names for tab completion.")
      .def("__eq__", &equals<schema>, nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const schema& self) { return std::hash<std::string>()(to_string(self)); })
      .def(copied_as_itself())
      .def(pickled_by("reduce_schema"))
      .def("__str__", [](const schema& self) { return to_string(self); })
      .def("__repr__", [](const schema& self) { return concat("<saeta.Schema>\n", to_string(self)); })
      .def(
          "__arrow_c_schema__", [](const schema& self) { return schema_capsule(self); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule of a struct (Arrow PyCapsule Interface).");
  m.def(
      "_unknown_column",
      [](nb::handle name, const std::vector<nb::object>& names) {
        std::vector<std::string> kept;
        for (const nb::object& each : names) {
          kept.push_back(name_of(each));
        }
        const std::vector<std::string_view> known(kept.begin(), kept.end());
        return unknown_column_text(name_of(nb::str(name)), known);
      },
      nb::arg("name"), nb::arg("names"),
      nb::sig("def _unknown_column(name: object, names: collections.abc.Sequence[str]) -> str"),
      "The text of an error about an unknown column: the closest name, and all names.");
  m.def(
      "_closest",
      [](const std::string& wanted, const std::vector<std::string>& names) {
        const std::vector<std::string_view> known(names.begin(), names.end());
        return std::string(closest(wanted, known));
      },
      nb::arg("wanted"), nb::arg("names"),
      nb::sig("def _closest(wanted: str, names: collections.abc.Sequence[str]) -> str"),
      "The name that was meant; empty if none is close.");
}

} // namespace saeta::py
