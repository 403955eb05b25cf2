// Access to rows and columns of a table by name, number and slice.
#include "python/src/column/column_class.hpp"
#include "python/src/column/type_objects.hpp"
#include "python/src/core/keys.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/base/text.hpp"
#include "saeta/compute/take.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

namespace saeta::py {
namespace {

/// The place of a column, by its name or number. Rejects a bool, although it is an int in Python.
std::size_t place_of(const table& self, nb::handle key) {
  if (PyUnicode_Check(key.ptr())) {
    return self.index_of(name_of(key));
  }
  if (PyIndex_Check(key.ptr()) && !PyBool_Check(key.ptr())) {
    try {
      return place_of_number(key, self.column_count(), "column", "table");
      // NumPy raises it for an array of several elements, which is not a number.
    } catch (nb::python_error& failure) {
      if (!failure.matches(PyExc_TypeError)) {
        throw;
      }
    }
  }
  throw error(errc::type_mismatch,
              concat("a column is selected by its name or number, not by an object of type ",
                     nb::type_name(key.type()).c_str(),
                     ": a list of names selects several, Table.filter and Table.take select rows"));
}

table_object rows_by_slice(const table_object& self, const nb::slice& range) {
  const slice_bounds rows = bounds_of(range, static_cast<std::size_t>(self.value->rows()));
  const table& source = *self.value;
  if (rows.step == 1) {
    return table_object(source.slice(rows.start, rows.length));
  }
  return without_gil([&] {
    return table_object(take(
        source, rows_of_slice(source.ctx(), rows_of_pieces(source), rows.start, rows.step, rows.length)));
  });
}

/// The places of one name or number, or of a sequence of them.
std::vector<std::size_t> places_of(const table& self, nb::handle keys) {
  if (nb::isinstance<nb::str>(keys) || PyIndex_Check(keys.ptr())) {
    return {place_of(self, keys)};
  }
  std::vector<std::size_t> places;
  foreign_call([&] {
    for (const nb::handle key : nb::iter(keys)) {
      places.push_back(place_of(self, key));
    }
  });
  return places;
}

table_object select_columns(const table_object& self, nb::handle keys) {
  return table_object(self.value->select(places_of(*self.value, keys)));
}

table_object drop_columns(const table_object& self, nb::handle keys) {
  std::vector<std::size_t> columns(self.value->column_count());
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  for (const std::size_t place : places_of(*self.value, keys)) {
    std::erase(columns, place);
  }
  return table_object(self.value->select(columns));
}

nb::object item(const table_object& self, nb::handle key) {
  if (PySlice_Check(key.ptr())) {
    return nb::cast(rows_by_slice(self, nb::borrow<nb::slice>(key)));
  }
  if (PyList_Check(key.ptr())) {
    return nb::cast(select_columns(self, key));
  }
  return nb::cast(column_at(*self.value, place_of(*self.value, key)));
}

table_object sliced_table(const table_object& self, std::int64_t offset, std::optional<std::int64_t> length) {
  return table_object(self.value->slice(offset, length.value_or(self.value->rows() - offset)));
}

/// `wanted` rows, at most all. A negative `wanted` means all rows except that many.
std::int64_t count_of(const table_object& self, std::int64_t wanted) {
  const std::int64_t rows = self.value->rows();
  return wanted < 0 ? std::max(rows + wanted, std::int64_t{0}) : std::min(wanted, rows);
}

table_object head(const table_object& self, std::int64_t rows) {
  return table_object(self.value->slice(0, count_of(self, rows)));
}

table_object tail(const table_object& self, std::int64_t rows) {
  const std::int64_t count = count_of(self, rows);
  return table_object(self.value->slice(self.value->rows() - count, count));
}

bool has_column(const table_object& self, nb::handle name) {
  if (!nb::isinstance<nb::str>(name)) {
    throw error(errc::type_mismatch,
                concat("`in` looks for the name of a column, not for an object of type ",
                       nb::type_name(name.type()).c_str(), ": look for a value in one of its columns"));
  }
  const std::string wanted = name_of(name);
  return std::ranges::any_of(self.value->fields().fields, [&](const field& f) { return f.name == wanted; });
}

constexpr const char* item_doc =
    "A column by its name (which must be the only one of that name) or number, "
    "columns by a list of names, or rows by a slice; no copy. A slice with a step "
    "other than 1 is a copy, as `take` makes it.";

} // namespace

column_object column_at(const table& self, std::size_t index) {
  return {self.shared_field(index), self.ctx(), self.pieces(index)};
}

std::vector<column_object> columns_of(const table& self) {
  std::vector<column_object> columns;
  for (std::size_t i = 0; i < self.column_count(); ++i) {
    columns.push_back(column_at(self, i));
  }
  return columns;
}

void bind_access(table_class& c) {
  c.def("__getitem__", &item, nb::sig("def __getitem__(self, key: str | int) -> Column"), item_doc)
      .def("__getitem__", &item, nb::sig("def __getitem__(self, key: slice | list[str]) -> Table"), item_doc)
      .def(
          "column",
          [](const table_object& self, nb::handle key) {
            return column_at(*self.value, place_of(*self.value, key));
          },
          nb::arg("key"), nb::sig("def column(self, key: str | int) -> Column"),
          "A column by its name, which must be the only one of that name, or number; no copy.")
      .def(
          "field",
          [](const table_object& self, nb::handle key) {
            return self.value->fields().fields[place_of(*self.value, key)];
          },
          nb::arg("key"), nb::sig("def field(self, key: str | int) -> Field"),
          "The field of a column by its name or number.")
      .def("__contains__", &has_column, nb::arg("name"), nb::sig("def __contains__(self, name: str) -> bool"),
           "Whether a column has that name. TypeMismatch for anything but text.")
      .def(
          "__iter__",
          [](const table_object&) -> nb::object {
            throw error(errc::type_mismatch,
                        "a table can't be iterated: use .columns, .column_names, .batches or .to_pylist()");
          },
          nb::sig("def __iter__(self) -> typing.Never"),
          "Raises TypeMismatch, which names columns, column_names, batches and to_pylist instead.")
      .def(
          "__setitem__",
          [](const table_object&, nb::handle, nb::handle) {
            throw error(errc::type_mismatch, "a table can't be changed: Table.append_column and set_column "
                                             "return one with the new column");
          },
          nb::sig("def __setitem__(self, key: typing.Never, value: typing.Never) -> typing.Never"),
          "Raises TypeMismatch, which names append_column and set_column instead.")
      .def(
          "__delitem__",
          [](const table_object&, nb::handle) {
            throw error(errc::type_mismatch,
                        "a table can't be changed: Table.drop_columns returns one without the column");
          },
          nb::sig("def __delitem__(self, key: typing.Never) -> typing.Never"),
          "Raises TypeMismatch, which names drop_columns instead.")
      .def("__len__", [](const table_object& self) { return self.value->rows(); })
      .def("slice", &sliced_table, nb::arg("offset") = 0, nb::arg("length") = nb::none(),
           nb::sig("def slice(self, offset: int = 0, length: int | None = None) -> Table"),
           "Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the "
           "table.")
      .def("head", &head, nb::arg("rows") = 5,
           "The first `rows` rows; a negative number leaves out as many at the end. No copy.")
      .def("tail", &tail, nb::arg("rows") = 5,
           "The last `rows` rows; a negative number leaves out as many at the beginning. No copy.")
      .def("select", &select_columns, nb::arg("columns"),
           nb::sig("def select(self, columns: str | int | collections.abc.Iterable[str | int]) -> Table"),
           "These columns, by name or number, in this order; no copy."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.select(['fare']).column_names\n"
           "    ['fare']")
      .def("drop_columns", &drop_columns, nb::arg("columns"),
           nb::sig(
               "def drop_columns(self, columns: str | int | collections.abc.Iterable[str | int]) -> Table"),
           "All columns but these, by name or number; no copy.");
}

} // namespace saeta::py
