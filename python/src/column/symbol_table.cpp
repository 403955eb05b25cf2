// The class SymbolTable.
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/base/text.hpp"
#include "saeta/symbols/symbols.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <string_view>

namespace saeta::py {
namespace {

/// The view is valid as long as the text lives.
std::string_view utf8_of(nb::handle text) {
  if (!nb::isinstance<nb::str>(text)) {
    throw error(errc::type_mismatch, concat("the name of a symbol is text, not an object of type ",
                                            nb::type_name(text.type()).c_str()));
  }
  Py_ssize_t bytes = 0;
  const char* const found = PyUnicode_AsUTF8AndSize(text.ptr(), &bytes);
  if (found == nullptr) { // the text has a lone surrogate
    throw nb::python_error();
  }
  return {found, static_cast<std::size_t>(bytes)};
}

nb::str text_of(std::string_view name) { return nb::str(name.data(), name.size()); }

symbol intern(const symbol_table_object& self, nb::handle name) {
  const std::string_view text = utf8_of(name);
  return without_gil([&] { return self.value->intern(text); });
}

/// A list keeps the texts alive while their bytes are read without the GIL.
std::vector<symbol> intern_all(const symbol_table_object& self, nb::handle given) {
  if (nb::isinstance<nb::str>(given)) {
    throw error(errc::type_mismatch, "intern_all takes a sequence of names: use intern for one name");
  }
  const nb::object names = nb::steal(PySequence_List(given.ptr()));
  if (!names.is_valid()) {
    throw nb::python_error();
  }
  std::vector<std::string_view> texts;
  for (const nb::handle each : nb::borrow<nb::list>(names)) {
    texts.push_back(utf8_of(each));
  }
  std::vector<symbol> found(texts.size());
  without_gil([&] { self.value->intern(texts, found); });
  return found;
}

/// Empty for a number that can't be a symbol of any table.
std::optional<symbol> symbol_of(std::int64_t number) {
  return number >= 0 && std::cmp_less(number, symbol_table::most_symbols)
             ? std::optional(static_cast<symbol>(number))
             : std::nullopt;
}

nb::str name_of_symbol(const symbol_table_object& self, std::int64_t number) {
  const auto of = symbol_of(number);
  if (!of) {
    throw error(errc::out_of_range, concat("symbol ", number, " is not in the symbol table, which has ",
                                           self.value->size(), " names"));
  }
  return text_of(self.value->name(*of));
}

nb::object lookup(const symbol_table_object& self, std::int64_t number) {
  const auto of = symbol_of(number);
  const auto found = of ? self.value->lookup(*of) : std::nullopt;
  return found ? nb::object(text_of(*found)) : nb::none();
}

std::string shown_symbols(const symbol_table_object& self) {
  const symbol_table& table = *self.value;
  return concat("<saeta.SymbolTable ", table.number(), ": ", table.size(),
                table.size() == 1 ? " name" : " names", ", ", human_bytes(table.byte_size()), ">");
}

} // namespace

void bind_symbols(nb::module_& m) {
  nb::class_<symbol_table_object>(
      m, "SymbolTable",
      "Names and their symbols: numbers from 0 on, in the order in which names were added. Names are never "
      "removed. The process has one, `SymbolTable.default()`; others are made with `SymbolTable()`.\n\n"
      "Safe to use from any thread: look-ups of known names don't wait. The memory belongs to no context and "
      "no budget counts it."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> table = sa.SymbolTable()\n"
      "    >>> table.intern('Lyon'), table.intern('Bern'), table.intern('Lyon')\n"
      "    (0, 1, 0)\n"
      "    >>> table.name(1), table.lookup(2), table.find('Rome')\n"
      "    ('Bern', None, None)",
      nb::is_weak_referenceable())
      .def(
          "__init__",
          [](symbol_table_object* self, std::optional<std::uint64_t> limit) {
            new (self) symbol_table_object{symbol_table::make(limit.value_or(symbol_table::most_symbols))};
          },
          nb::arg("limit") = nb::none(), "`limit`: the maximum number of names, 2**32 by default.")
      .def_static(
          "default", [] { return symbol_table_object{process_symbols()}; },
          "The symbol table of the process.")
      .def_prop_ro(
          "type", [](const symbol_table_object& self) { return symbol_type(self.value); },
          "The type of this table's symbols. The text \"symbol\" names that of the default table."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> names = sa.SymbolTable()\n"
          "    >>> sa.column(['Lyon', None], 'host', type=names.type).to_pylist()\n"
          "    ['Lyon', None]")
      .def("intern", &intern, nb::arg("name"), nb::sig("def intern(self, name: str) -> int"),
           "The symbol of a name, which is added if it is new. SizeOverflow if the table is full.")
      .def("intern_all", &intern_all, nb::arg("names"),
           nb::sig("def intern_all(self, names: collections.abc.Iterable[str]) -> list[int]"),
           "The symbols of many names, in their order.")
      .def("name", &name_of_symbol, nb::arg("symbol"), nb::sig("def name(self, symbol: int) -> str"),
           "The name of a symbol. OutOfRange for one that the table does not have.")
      .def("lookup", &lookup, nb::arg("symbol"), nb::sig("def lookup(self, symbol: int) -> str | None"),
           "The name of a symbol, None for one that the table does not have.")
      .def(
          "find",
          [](const symbol_table_object& self, nb::handle name) { return self.value->find(utf8_of(name)); },
          nb::arg("name"), nb::sig("def find(self, name: str) -> int | None"),
          "The symbol of a name, None for one that the table does not have. Adds nothing."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> table = sa.SymbolTable()\n"
          "    >>> number = table.intern('Lyon')\n"
          "    >>> table.find('Lyon') == number, table.find('Bern') is None\n"
          "    (True, True)")
      .def(
          "__contains__",
          [](const symbol_table_object& self, nb::handle name) {
            return nb::isinstance<nb::str>(name) && self.value->find(utf8_of(name)).has_value();
          },
          nb::arg("name"), nb::sig("def __contains__(self, name: object) -> bool"),
          "Whether the table has the name.")
      .def("__len__", [](const symbol_table_object& self) { return self.value->size(); })
      .def_prop_ro(
          "limit", [](const symbol_table_object& self) { return self.value->limit(); },
          "The maximum number of names.")
      .def_prop_ro(
          "nbytes", [](const symbol_table_object& self) { return self.value->byte_size(); },
          "Bytes of host memory in use.")
      .def(
          "__eq__",
          [](const symbol_table_object& self, nb::handle other) {
            return nb::isinstance<symbol_table_object>(other) &&
                   nb::cast<const symbol_table_object&>(other).value == self.value;
          },
          nb::arg().none(), nb::sig("def __eq__(self, other: object, /) -> bool"),
          "True if both are the same table.")
      .def("__hash__", [](const symbol_table_object& self) { return self.value->number(); })
      .def(copied_as_itself())
      .def(not_pickled("the other process has a table of its own. Columns of symbols are pickled with their "
                       "names, and a list of the names is pickled as it is"))
      .def("__repr__", &shown_symbols);
}

} // namespace saeta::py
