// The class Column.
#include "python/src/column/column_class.hpp"
#include "python/src/column/values.hpp"
#include "python/src/core/pickling.hpp"
#include "saeta/base/text.hpp"
#include "saeta/column/same_type.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/combine.hpp"
#include "saeta/compute/equals.hpp"
#include "saeta/compute/nulls.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

column_object with_pieces(const column_object& self, std::vector<column> pieces) {
  return {self.described, self.ctx, std::move(pieces)};
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
  field described = *given.front().described;
  described.name = name.value_or(described.name);
  std::vector<column> pieces;
  for (const column_object& each : given) {
    const auto together = united_type(described.type, each.described->type);
    if (!together) {
      throw error(errc::type_mismatch, concat("a chunk is of type ", each.described->type.name(),
                                              ", the first one of ", described.type.name()));
    }
    described.type = *together;
    if (!each.ctx->shares_with(*given.front().ctx)) {
      throw error(errc::invalid_argument,
                  concat("a chunk is on ", to_string(each.ctx->device()), ", the first one on ",
                         to_string(given.front().ctx->device())));
    }
    described.nullable = described.nullable || each.described->nullable;
    pieces.insert(pieces.end(), each.pieces->begin(), each.pieces->end());
  }
  const gil_release release;
  for (column& each : pieces) {
    each = conform(each, described.type);
  }
  return {std::move(described), given.front().ctx, std::move(pieces)};
}

column_object rename(const column_object& self, std::string name) {
  field described = *self.described;
  described.name = std::move(name);
  return {std::move(described), self.ctx, *self.pieces};
}

column_object sliced_column(const column_object& self, std::int64_t offset,
                            std::optional<std::int64_t> length) {
  const std::int64_t rows = total_rows(*self.pieces);
  return with_pieces(self, slice_pieces(*self.pieces, offset, length.value_or(rows - offset)));
}

/// @param count  of one piece
template <class Count>
std::int64_t sum_of_pieces(const column_object& self, Count count) {
  std::int64_t sum = 0;
  for (const column& piece : *self.pieces) {
    sum += count(piece);
  }
  return sum;
}

std::int64_t null_count(const column_object& self) { return sum_of_pieces(self, logical_null_count); }

std::int64_t physical_null_count(const column_object& self) {
  return sum_of_pieces(self, [](const column& piece) { return piece.null_count(); });
}

std::uint64_t byte_size(const column_object& self) {
  std::uint64_t bytes = 0;
  for (const column& piece : *self.pieces) {
    bytes += piece.byte_size();
  }
  return bytes;
}

/// True if both are views of the same rows of the same memory, false if the fields or the row counts differ.
bool equal_columns(const column_object& a, const column_object& b) {
  if (!(*a.described == *b.described) || total_rows(*a.pieces) != total_rows(*b.pieces)) {
    return false;
  }
  if (!same_view(*a.pieces, *b.pieces)) {
    refuse_comparison("columns");
  }
  return true;
}

bool column_has_equal_data(const column_object& self, const column_object& other, bool check_metadata) {
  return equals(as_table(self), as_table(other), check_metadata);
}

column_object combined_column(const column_object& self) {
  return {self.described, self.ctx, combine_chunks(*self.pieces)};
}

/// The same rows with another field, whose type they can have.
column_object with_field(const column_object& self, const field& described) {
  if (united_type(described.type, self.described->type) != described.type) {
    throw error(errc::type_mismatch, concat("column '", described.name, "' is of type ",
                                            self.described->type.name(), ", not ", described.type.name()));
  }
  const gil_release release;
  std::vector<column> pieces;
  for (const column& each : *self.pieces) {
    pieces.push_back(conform(each, described.type));
  }
  return {described, self.ctx, std::move(pieces)};
}

/// The address of the first row's value, index, view or offset; for booleans, of the byte that holds its bit.
/// 0 if only children hold the rows.
std::uintptr_t address(const column_object& self) {
  const column piece = single_piece(self, "an address");
  const auto row = static_cast<std::uint64_t>(piece.offset());
  if (piece.buffers().size() < 2) {
    return 0;
  }
  const buffer_spec spec = piece.type().buffer(1);
  const auto width = static_cast<std::uint64_t>(spec.width);
  return piece.buffers()[1].address() + (spec.role == buffer_role::bits ? row / 8 : row * width);
}

nb::list raw_list(const column_object& self, std::optional<std::int64_t> most) {
  const std::span<const field> described(self.described.get(), 1);
  if (!most) {
    require_memory_for(static_cast<std::uint64_t>(total_rows(*self.pieces)),
                       concat("column '", self.described->name, "'"));
  }
  nb::list result;
  for (const column& piece : *self.pieces) {
    result.extend(
        raw_values(self.ctx, batch{piece.length(), {piece}}, described, most.value_or(everything)).front());
  }
  return result;
}

constexpr const char* item_doc = "One value (None for a null), downloaded from a device, or the rows of a "
                                 "slice, without a copy. A slice with "
                                 "a step other than 1 is a copy, as `take` makes it.";

void bind_values(column_class& c) {
  c.def("__getitem__", in_python("saeta._convert.to_python", "column_item"),
        nb::sig("def __getitem__(self, index: int) -> typing.Any"), item_doc)
      .def("__getitem__", in_python("saeta._convert.to_python", "column_item"),
           nb::sig("def __getitem__(self, index: slice) -> Column"), item_doc)
      .def(
          "__setitem__",
          [](const column_object&, nb::handle, nb::handle) {
            throw error(errc::type_mismatch, "a column can't be changed: make another one, by saeta.column "
                                             "or with a framework that takes this one by DLPack");
          },
          nb::sig("def __setitem__(self, index: typing.Never, value: typing.Never) -> typing.Never"),
          "Raises TypeMismatch: columns are immutable.")
      .def("__iter__", in_python("saeta._convert.to_python", "column_iter"),
           nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"))
      .def("to_pylist", in_python("saeta._convert.to_python", "column_list"),
           nb::sig("def to_pylist(self) -> list[typing.Any]"),
           "All values as Python objects, None for nulls. A device column is downloaded.\n\n"
           "OutOfMemory, before any of them is made, if they take more than the available memory: nulls, "
           "runs and fixed-size lists need no bytes in a file. FormatError if the column views a mapped file "
           "that was rewritten or truncated since it was read.")
      .def("_raw_values", &raw_list, nb::arg("most") = nb::none(),
           nb::sig("def _raw_values(self, most: int | None = None) -> list[bytes | bool | None]"),
           "Values in the Arrow layout, with dictionaries decoded. Each has at most so many values inside, "
           "and each text so many bytes.")
      .def("slice", &sliced_column, nb::arg("offset") = 0, nb::arg("length") = nb::none(),
           nb::sig("def slice(self, offset: int = 0, length: int | None = None) -> Column"),
           "Rows [offset, offset + length), to the end without a length; no copy. OutOfRange outside the "
           "column.");
}

void bind_objects(column_class& c) {
  c.def("__eq__", &equal_columns, nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"),
        "True if both show the same rows of the same memory under the same field, False if fields or numbers "
        "of rows differ. Otherwise UnsupportedError: `equals` compares values.")
      .def("equals", &column_has_equal_data, nb::arg("other"), nb::kw_only(),
           nb::arg("check_metadata") = false, nb::call_guard<gil_release>(),
           "Whether both columns have the same data: types and numbers of rows are the same, nulls are at "
           "the same rows, and valid values are equal, to any depth. The columns are compared on their "
           "device; only the answer leaves it.\n\n"
           "Names and the layout of the data do not count: chunks, offsets, values under nulls, the order of "
           "dictionaries, runs. As in pyarrow, a NaN is not equal to itself and 0.0 is equal to -0.0. Unlike "
           "in pyarrow, columns with dictionaries in different order are equal if their rows have equal "
           "values.\n\n"
           "Args:\n"
           "    other: a Column of the same context.\n"
           "    check_metadata: metadata of the fields, and the names of the values of lists, count as "
           "well.\n\n"
           "Raises InvalidError for a column of another context or device, and TypeMismatch for anything "
           "that is not a Column: `saeta.from_arrow` makes one."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
           "    >>> fare.equals(fare.take([0, 1, 2]))\n"
           "    True")
      .def(copied_as_itself())
      .def(pickled_by("reduce_column"))
      .def("__repr__", in_python("saeta._report.display", "column_text"),
           nb::sig("def __repr__(self) -> str"))
      .def("__dir__", in_python("saeta._report.display", "public_names"),
           nb::sig("def __dir__(self) -> list[str]"))
      .def("_repr_html_", in_python("saeta._report.html", "column_html"),
           nb::sig("def _repr_html_(self) -> str"));
  // Like the classes of other Arrow libraries that do not compare by identity.
  c.attr("__hash__") = nb::none();
}

} // namespace

void bind_column(nb::module_& m) {
  m.def(
      "_require_memory_for",
      [](std::uint64_t objects, const std::string& label) { require_memory_for(objects, label); },
      nb::arg("objects"), nb::arg("label"),
      "Raises OutOfMemory if so many Python objects take more than the available memory.");
  m.def(
      "_require_memory_for_values",
      [](std::uint64_t rows, const std::string& label) { require_memory_for(rows, 1, "values", label); },
      nb::arg("rows"), nb::arg("label"),
      "Raises OutOfMemory if values of one byte for so many rows take more than the available memory.");
  column_class c(m, "Column",
                 "A named, typed, immutable column on a device, in one or several chunks. Slices and "
                 "selections share its memory."
                 "\n\nExample:\n"
                 "    >>> import saeta as sa\n"
                 "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
                 "    >>> fare.name, fare.type.name, len(fare), fare.null_count\n"
                 "    ('fare', 'double', 3, 1)\n"
                 "    >>> fare[0], fare.slice(1).to_pylist()\n"
                 "    (12.5, [None, 8.0])\n"
                 "    >>> fare.filter([True, False, True]).with_name('price').to_pylist()\n"
                 "    [12.5, 8.0]",
                 nb::is_weak_referenceable());
  c.def(made_by("saeta.column, saeta.from_arrow and saeta.from_dlpack"));
  bind_values(c);
  c.def_prop_ro(
       "name", [](const column_object& self) { return self.described->name; }, "Its name; may be empty.")
      .def_prop_ro(
          "type", [](const column_object& self) { return self.described->type; }, "Its data type.")
      .def_prop_ro(
          "field", [](const column_object& self) { return *self.described; },
          "Name, type, nullability and metadata.")
      .def_prop_ro(
          "context", [](const column_object& self) { return context_object{self.ctx}; },
          "The context that holds the memory.")
      .def_prop_ro(
          "device", [](const column_object& self) { return to_string(self.ctx->device()); },
          "\"host\" or \"cuda:0\".")
      .def_prop_ro("chunks", &chunks, "The pieces in memory, each as a column of one chunk; no copy.")
      .def_prop_ro(
          "num_chunks", [](const column_object& self) { return self.pieces->size(); },
          "Number of pieces in memory.")
      .def_prop_ro(
          "null_count", &null_count, nb::call_guard<gil_release>(),
          "Number of rows that are None in `to_pylist`. If it is not known yet, it is counted on the "
          "device and remembered.\n\n"
          "Rows that refer to a null in a dictionary, in a run or in a child of a union count as well. "
          "These are counted each time.")
      .def_prop_ro(
          "physical_null_count", &physical_null_count, nb::call_guard<gil_release>(),
          "Number of nulls that the column's own validity has: `null_count` of pyarrow's arrays and "
          "of the Arrow C Data Interface. It is 0 for unions and run-end encoded columns, which have "
          "no validity.")
      .def_prop_ro(
          "nbytes", &byte_size, nb::call_guard<gil_release>(),
          "Bytes that the rows refer to. A slice counts the text, the list values, the runs and the "
          "children of its own rows, and of a dictionary the share that it has of the column's rows. "
          "On a device, slices and views read a few numbers with one small copy for each level of "
          "nesting: the host waits for it once, and the result is remembered. Other columns are not "
          "read. While the device can't be read, values count as evenly spread over the rows.")
      .def_prop_ro("address", &address,
                   "Address of the first row's value (index of a dictionary, offset of a string), to prove "
                   "that memory is shared. BufferError for several chunks.")
      .def("__len__", [](const column_object& self) { return total_rows(*self.pieces); })
      .def("with_name", &rename, nb::arg("name"), "The same column under another name.")
      .def_static(
          "from_chunks", &from_chunks, nb::arg("chunks"), nb::arg("name") = nb::none(),
          nb::sig(
              "def from_chunks(chunks: collections.abc.Sequence[Column], name: str | None = None) -> Column"),
          "One column of the chunks of several columns, in order; no copy. TypeMismatch if their types "
          "differ."
          "\n\nExample:\n"
          "    >>> import saeta as sa\n"
          "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
          "    >>> sa.Column.from_chunks([fare, fare]).to_pylist()\n"
          "    [12.5, None, 8.0, 12.5, None, 8.0]")
      .def("combine_chunks", &combined_column, nb::call_guard<gil_release>(),
           "The same rows in one chunk: one kernel on the device, into memory under the budget. A column of "
           "one chunk is returned unchanged. More than one chunk is left only if 32-bit offsets, run ends or "
           "dictionary indices can't count the rows.")
      .def("_with_field", &with_field, nb::arg("field"));
  bind_objects(c);
  bind_rows(c);
  bind_conversions(c);
  bind_tensors(c);
  bind_protocols(c);
}

} // namespace saeta::py
