// The class CountedTable: tables whose row count is on the device.
#include "python/src/arrow/capsules.hpp"
#include "python/src/core/pickling.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/table.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace saeta::py {
namespace {

struct counted_object {
  explicit counted_object(counted_table of) : value(std::move(of)) {}

  unlocked<counted_table> value;
};

counted_object make_counted(const table_object& capacity, const column_object& count,
                            std::optional<std::int64_t> known) {
  if (count.pieces->size() != 1) {
    throw error(errc::invalid_argument,
                concat("a row count is one number, not ", count.pieces->size(), " chunks"));
  }
  return counted_object(counted_table::make(*capacity.value, count.pieces->front(), known));
}

table_object valid_rows(const counted_object& self) { return table_object(self.value->rows_of_table()); }

} // namespace

void bind_counted_table(nb::module_& m) {
  nb::class_<counted_object> c(m, "CountedTable",
                               "A table with room for more rows than there are, and a number on the device "
                               "that says how many are valid: the result of a kernel that can't know in "
                               "advance how many rows it finds. The number is read once, on request."
                               "\n\nExample:\n"
                               "    >>> import saeta as sa\n"
                               "    >>> counted = sa.counted_table(sa.table({'a': [7, 8, 9]}, 'host'), "
                               "sa.column([2], 'host', name='n', type='uint32'))\n"
                               "    >>> counted.capacity.num_rows, counted.num_rows\n"
                               "    (3, 2)\n"
                               "    >>> counted.to_table()['a'].to_pylist()\n"
                               "    [7, 8]",
                               nb::is_weak_referenceable());
  c.def(made_by("saeta.counted_table"));
  c.def(copied_as_itself());
  c.def(not_pickled("pickle the Table that to_table() makes of its rows"));
  c.def_prop_ro(
       "capacity", [](const counted_object& self) { return table_object(self.value->capacity()); },
       "The Table of all rows that there is room for. Those beyond the count are undefined.")
      .def_prop_ro(
          "count",
          [](const counted_object& self) {
            const column& count = self.value->count();
            return column_object(field{"rows", count.type(), false, {}}, count.ctx(), {count});
          },
          "The number on the device, a Column of one row.")
      .def_prop_ro(
          "num_rows",
          [](const counted_object& self) {
            const gil_release release;
            return self.value->rows();
          },
          "Number of valid rows; one number is copied from the device the first time. OutOfRange if it "
          "exceeds the capacity.")
      .def_prop_ro(
          "known_num_rows", [](const counted_object& self) { return self.value->known_rows(); },
          "The number of valid rows if it was read before, else None. Copies nothing.")
      .def_prop_ro(
          "schema", [](const counted_object& self) { return self.value->capacity().fields(); },
          "Names, types, nullability and metadata; a copy.")
      .def("__len__",
           [](const counted_object& self) {
             const gil_release release;
             return self.value->rows();
           })
      .def("to_table", &valid_rows, nb::call_guard<gil_release>(),
           "The valid rows as a Table, over the same memory. Reads the count. OutOfRange if it exceeds the "
           "capacity.")
      .def("__repr__", in_python("saeta._report.display", "counted_text"),
           nb::sig("def __repr__(self) -> str"))
      .def(
          "__arrow_c_schema__",
          [](const counted_object& self) { return schema_capsule(self.value->capacity().fields()); },
          nb::sig("def __arrow_c_schema__(self) -> typing_extensions.CapsuleType"),
          "An \"arrow_schema\" capsule of a struct (Arrow PyCapsule Interface).")
      .def(
          "__arrow_c_stream__",
          [](const counted_object& self, nb::handle requested, const nb::kwargs&) {
            return stream_capsule(as_requested(*valid_rows(self).value, requested));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "As that of Table, of the valid rows. Reads the count.")
      .def(
          "__arrow_c_device_stream__",
          [](const counted_object& self, nb::handle requested, const nb::kwargs&) {
            return device_stream_capsule(as_requested(*valid_rows(self).value, requested));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> typing_extensions.CapsuleType"),
          "As that of Table, of the valid rows. Reads the count.")
      .def(
          "__arrow_c_device_array__",
          [](const counted_object& self, nb::handle requested, const nb::kwargs&) {
            return device_array_capsules(as_requested(*valid_rows(self).value, requested));
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_array__(self, requested_schema: object | None = None, **kwargs: "
                  "typing.Any) -> tuple[typing_extensions.CapsuleType, typing_extensions.CapsuleType]"),
          "A pair of capsules (\"arrow_schema\", \"arrow_device_array\") of the valid rows, which are "
          "joined to one batch. Reads the count.");
  m.def("_counted_table", &make_counted, nb::arg("capacity"), nb::arg("count"),
        nb::arg("num_rows") = nb::none());
}

} // namespace saeta::py
