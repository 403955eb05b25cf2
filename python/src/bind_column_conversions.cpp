// Columns as those of other types, and as the objects of other libraries.
#include "column_class.hpp"
#include "saeta/column/bits.hpp"

namespace saeta::py {
namespace {

column_object converted(const column_object& self, column (*convert)(const column&)) {
  field described = *self.described;
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(convert(piece));
  }
  described.type = convert == &unpack_bool ? data_type::bool8() : data_type(type_id::boolean);
  return {std::move(described), self.home, std::move(pieces)};
}

} // namespace

void bind_conversions(column_class& c) {
  c.def(
       "as_bool8", [](const column_object& self) { return converted(self, &unpack_bool); },
       nb::call_guard<gil_release>(),
       "Booleans of one bit as booleans of one byte (arrow.bool8), which tensors can view: one kernel a "
       "chunk.")
      .def(
          "as_bool", [](const column_object& self) { return converted(self, &pack_bool); },
          nb::call_guard<gil_release>(),
          "Booleans of one byte (or any int8 or uint8, where not 0 is true) as booleans of one bit.")
      .def("to_arrow", in_python("saeta._convert", "column_to_arrow"),
           nb::sig("def to_arrow(self) -> pyarrow.ChunkedArray"),
           "A pyarrow ChunkedArray: views of a host column, a download of a device column.")
      .def("__array__", in_python("saeta._convert", "column_array"),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "numpy.typing.NDArray[typing.Any]"))
      .def("to_pandas", in_python("saeta._convert", "column_to_pandas"),
           nb::sig("def to_pandas(self) -> pandas.Series[typing.Any]"),
           "A pandas Series of that name, through pyarrow.")
      .def("to_polars", in_python("saeta._convert", "column_to_polars"),
           nb::sig("def to_polars(self) -> polars.Series"),
           "A polars Series of that name, through the Arrow C stream.");
}

} // namespace saeta::py
