// Conversions of columns to other types and to objects of other libraries.
#include "python/src/column/column_class.hpp"
#include "saeta/column/bits.hpp"
#include "saeta/column/view_cast.hpp"
#include "saeta/interop/arrow/c_data.hpp"
#include "saeta/symbols/symbols.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

/// Converts every piece to `type`.
template <class Convert>
column_object convert_column(const column_object& self, data_type type, Convert convert) {
  field described = *self.described;
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(convert(piece));
  }
  described.type = std::move(type);
  return {std::move(described), self.ctx, std::move(pieces)};
}

column_object column_bytes(const column_object& self, bool extension) {
  const data_type type = extension ? data_type::bool8() : data_type::byte_bool();
  const bool bytes = self.described->type.is_bool8();
  return convert_column(self, type, [&](const column& piece) {
    return relabel_bool8(bytes ? piece : unpack_bool(piece), type);
  });
}

/// Reinterprets the values as another type of the same width; for fixed-size lists, the values in the lists.
column_object with_type_of_bytes(const column_object& self, const data_type& type) {
  const column none = relabel(column::empty(self.ctx, self.described->type), type);
  return convert_column(self, none.type(), [&](const column& piece) { return relabel(piece, type); });
}

/// Requires a column of a dictionary type.
std::vector<std::pair<column_object, column_object>> dictionary_parts(const column_object& self) {
  const field& of = *self.described;
  const auto parts_of = [&](const column& piece) {
    const column& values = *piece.dictionary();
    return std::pair(
        column_object(field{of.name, values.type(), true, {}}, self.ctx, {values}),
        column_object(field{of.name, *of.type.index_type(), true, {}}, self.ctx, {codes_of(piece)}));
  };
  std::vector<std::pair<column_object, column_object>> made;
  for (const column& piece : *self.pieces) {
    made.push_back(parts_of(piece));
  }
  if (made.empty()) {
    made.push_back(parts_of(column::empty(self.ctx, of.type)));
  }
  return made;
}

/// Both arguments are tensors that were just imported, so their pieces match.
column_object mask_rows(const column_object& self, const column_object& valid) {
  field described = *self.described;
  described.nullable = true;
  std::vector<column> pieces;
  for (std::size_t i = 0; i < self.pieces->size(); ++i) {
    pieces.push_back(with_validity((*self.pieces)[i], (*valid.pieces)[i]));
  }
  return {std::move(described), self.ctx, std::move(pieces)};
}

column_object symbols(const column_object& self, const std::optional<symbol_table_object>& table) {
  field described = as_symbols(*self.described, table ? table->value : nullptr);
  const std::shared_ptr<symbol_table> into = described.type.symbols();
  try {
    return {std::move(described), self.ctx, as_symbols(*self.pieces, into)};
  } catch (const error& why) {
    if (why.refusal() != nullptr) {
      throw;
    }
    throw error(why.code(), concat("column '", self.described->name, "': ", why.message()));
  }
}

} // namespace

void bind_conversions(column_class& c) {
  c.def("as_bool8", &column_bytes, nb::kw_only(), nb::arg("extension") = true, nb::call_guard<gil_release>(),
        "Booleans as booleans of one byte, which tensors can view. Booleans of one bit are converted by one "
        "kernel per chunk; those of one byte share their memory. The result is of the extension type "
        "arrow.bool8, which Arrow consumers get without a copy. With extension=False it is bool8, which "
        "Arrow consumers get as bits."
        "\n\nExample:\n"
        "    >>> import saeta as sa\n"
        "    >>> flag = sa.column([True, False], 'host', name='flag')\n"
        "    >>> flag.as_bool8().nbytes\n"
        "    2")
      .def(
          "as_bool",
          [](const column_object& self) {
            return convert_column(self, data_type(type_id::boolean), pack_bool);
          },
          nb::call_guard<gil_release>(),
          "Booleans of one byte (or any int8 or uint8, where not 0 is true) as booleans of one bit.")
      .def("_with_type_of_bytes", &with_type_of_bytes, nb::arg("type"), nb::call_guard<gil_release>())
      .def(
          "_dictionary_parts", &dictionary_parts,
          "Of a dictionary column, for each chunk: the values of its dictionary, and its indices as integers "
          "over the same memory. Without chunks both are empty.")
      .def("_masked", &mask_rows, nb::arg("valid"), nb::call_guard<gil_release>())
      .def("as_symbols", &symbols, nb::arg("table") = nb::none(), nb::call_guard<gil_release>(),
           "Strings, dictionaries of strings, or the numbers of symbols (uint32, int32) as symbols of a "
           "SymbolTable, without one of the process's.\n\n"
           "The values of a dictionary are interned once, used or not, and its indices become symbols on the "
           "device. Strings are downloaded from a device. Numbers are not copied, but all are checked: "
           "OutOfRange names the first row whose number the table does not have. ExchangeError for numbers "
           "that are symbols of another process according to the metadata, and for those of XLOG, which name "
           "no table: without `table` nothing says what they mean."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> city = sa.column(['Lyon', 'Bern', 'Lyon'], 'host', name='city')\n"
           "    >>> city.as_symbols().to_pylist()\n"
           "    ['Lyon', 'Bern', 'Lyon']")
      .def("to_arrow", in_python("saeta._convert.to_libraries", "column_to_arrow"),
           nb::sig("def to_arrow(self) -> pyarrow.ChunkedArray"),
           "A pyarrow ChunkedArray: views of a host column, a download of a device column.")
      .def("__array__", in_python("saeta._convert.to_libraries", "column_array"),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "numpy.typing.NDArray[typing.Any]"))
      .def("to_pandas", in_python("saeta._convert.to_libraries", "column_to_pandas"),
           nb::sig("def to_pandas(self) -> pandas.Series[typing.Any]"),
           "A pandas Series of that name, through pyarrow.")
      .def("to_polars", in_python("saeta._convert.to_libraries", "column_to_polars"),
           nb::sig("def to_polars(self) -> polars.Series"),
           "A polars Series of that name, through the Arrow C stream.");
}

} // namespace saeta::py
