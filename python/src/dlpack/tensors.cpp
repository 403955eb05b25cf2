// Columns as tensors: DLPack, and arrays of other libraries.

#include "python/src/column/column_class.hpp"
#include "python/src/core/gil.hpp"
#include "python/src/dlpack/dlpack_export.hpp"
#include "python/src/dlpack/exchange_api.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/column/bits.hpp"

#include <nanobind/stl/vector.h>

namespace saeta::py {
namespace {

column_object valid(const column_object& self) {
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(is_valid(piece));
  }
  return {field{self.described->name, data_type::byte_bool(), false, {}}, self.ctx, std::move(pieces)};
}

/// The offsets and values and, with a mask, the validity of every row of the column.
nb::tuple offset_columns(const column_object& self, const std::optional<std::string>& nulls_word) {
  if (nulls_word && *nulls_word != "mask") {
    throw error(errc::invalid_argument, concat("nulls='", *nulls_word, "': expected 'mask' or None"));
  }
  const bool with_mask = nulls_word.has_value();
  const field& described = *self.described;
  auto [parts, nulls] = without_gil([&] {
    const column piece = join_pieces(self, copy_policy::when_needed).piece;
    return std::pair(offsets_and_values(piece), with_mask ? 0 : piece.null_count());
  });
  if (nulls != 0) {
    throw error(errc::exchange,
                concat("column '", described.name, "' has ", nulls,
                       " nulls, which offsets can't represent: nulls='mask' gives a mask as well"));
  }
  const auto made = [&](column piece, std::string name, bool nullable) {
    field of{std::move(name), piece.type(), nullable, {}};
    return column_object(std::move(of), self.ctx, {std::move(piece)});
  };
  const std::span<const field> children = described.type.children();
  const bool nullable = !children.empty() && children.front().nullable;
  column_object offsets = made(std::move(parts.offsets), "offsets", false);
  column_object values = made(std::move(parts.values), children.empty() ? "bytes" : "values", nullable);
  return with_mask ? nb::make_tuple(std::move(offsets), std::move(values), valid(self))
                   : nb::make_tuple(std::move(offsets), std::move(values));
}

/// Without arguments it uses torch's table of C functions, because torch's `from_dlpack` would call Python
/// code.
nb::object to_torch(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  static PyObject* const torch = PyUnicode_InternFromString("torch");
  static PyObject* const tensor_class = PyUnicode_InternFromString("Tensor");
  nb::object made;
  if (args.size() == 0 && kwargs.size() == 0) {
    made = export_by_table(nb::cast<const column_object&>(self), torch, tensor_class);
  }
  return made.is_valid() ? made
                         : in_python("saeta._convert.to_libraries", "column_to_torch")(self, args, kwargs);
}

void bind_arrays(column_class& c) {
  bind_tensor(
      c, "to_numpy", in_python("saeta._convert.to_libraries", "column_to_numpy"),
      "numpy.typing.NDArray[typing.Any]", "copy: bool | None = None, ",
      "A NumPy array. `copy=None` copies only if necessary (device memory, several chunks, types "
      "that NumPy does not have) and otherwise returns a read-only view; False raises ExchangeError "
      "instead of copying; True always copies. Nulls and types without a tensor type: as for "
      "`to_torch`, with these exceptions: without `codes` a dictionary gives the values of its rows, and "
      "without `reinterpret` and `dtype` pyarrow converts times, strings and other types that tensors "
      "lack, also beside a mask."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
      "    >>> fare.to_numpy(nulls='nan').tolist()\n"
      "    [12.5, nan, 8.0]\n"
      "    >>> values, valid = fare.to_numpy(nulls='mask')\n"
      "    >>> valid.tolist()\n"
      "    [True, False, True]");
  bind_tensor(
      c, "to_torch", &to_torch, "torch.Tensor", "",
      "A torch tensor on the column's device, without a copy. It must not be written to.\n\n"
      "Nulls are an ExchangeError unless `nulls` or `fill` handles them. `nulls='nan'` (floats) and "
      "`fill=value` copy if there are nulls, with one kernel, into memory under the budget. `nulls='mask'` "
      "gives a pair (values, mask): the values without a copy, undefined at nulls, and a bool tensor that is "
      "True where the value is valid. `reinterpret=True` gives the integers of dates, times, timestamps and "
      "durations, `codes=True` the indices of a dictionary. `dtype` names another type of number, which is a "
      "copy: any float, rounded to the nearest, or an integer type that has all values of the column's "
      "type. Decimals need it, and OutOfRange names the first that is not equal to an integer. Runs become a "
      "copy with a value for each row.\n\n"
      "A column of fixed-size lists has a dimension more, of `arrow.fixed_shape_tensor` those of its shape "
      "in the order of its permutation, of structs whose fields are of one type a last one for the fields; "
      "all without a copy, the last where the fields are equally spaced in one allocation. Choices about "
      "nulls speak of rows; nulls of values inside of rows are ExchangeError."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
      "    >>> fare.to_torch(fill=0).tolist()\n"
      "    [12.5, 0.0, 8.0]\n"
      "    >>> values, valid = fare.to_torch(nulls='mask')\n"
      "    >>> valid.tolist()\n"
      "    [True, False, True]");
  bind_tensor(c, "to_cupy", in_python("saeta._convert.to_libraries", "column_to_cupy"), "cupy.ndarray", "",
              "A CuPy array on the column's device, without a copy. It must not be written to. Keywords as "
              "for `to_torch`."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> fare = sa.column([12.5, None, 8.0], 'cuda:0', name='fare')\n"
              "    >>> float(fare.to_cupy(fill=0).sum())\n"
              "    20.5");
  bind_tensor(c, "to_numba", in_python("saeta._convert.to_libraries", "column_to_numba"), "typing.Any", "",
              "A device array of Numba, for a kernel, without a copy. It must not be written to. Numba waits "
              "for our last write before it returns. Bools become one byte per value, so packed ones are "
              "copied. Keywords as for `to_torch`. ExchangeError for a column on the host."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> fare = sa.column([12.5, None, 8.0], 'cuda:0', name='fare')\n"
              "    >>> fare.to_numba(fill=0).copy_to_host().tolist()\n"
              "    [12.5, 0.0, 8.0]");
  bind_tensor(c, "to_jax", in_python("saeta._convert.to_libraries", "column_to_jax"), "jax.Array", "",
              "A JAX array on the column's device, without a copy. Keywords as for `to_torch`."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare', type='float32')\n"
              "    >>> fare.to_jax(nulls='nan').tolist()\n"
              "    [12.5, nan, 8.0]");
}

constexpr const char* offsets_and_values_doc =
    "Strings, binaries, lists and maps as two columns, which libraries take as tensors: row i has the "
    "values [offsets[i], offsets[i + 1]).\n\n"
    "The offsets are int32 or int64, one more than there are rows. The values are the bytes of "
    "strings and binaries as uint8, of lists the values of every row. No copy: a slice has a part of "
    "the offsets and all of the values, so its offsets need not begin at 0. `nulls='mask'` gives a "
    "third column of bool8, 1 where a row is not null; without it a null is ExchangeError, as are "
    "string views. Several chunks are joined, which is a copy."
    "\n\nExample:\n"
    "    >>> import saeta as sa\n"
    "    >>> words = sa.column(['to', 'be', 'or'], 'host', name='word')\n"
    "    >>> offsets, letters = words.offsets_and_values()\n"
    "    >>> offsets.to_pylist()\n"
    "    [0, 2, 4, 6]";

} // namespace

void bind_tensors(column_class& c) {
  bind_arrays(c);
  bind_exchange_api(c);
  bind_dlpack_protocol(
      c, "A DLPack capsule, zero-copy and read-only: a 1-D tensor, of more dimensions for fixed-size lists "
         "and structs of one type. The consumer's stream waits for our last write: None and 1 the legacy "
         "default stream, 2 the per-thread one, -1 no ordering, above 2 a handle. On the host it must be "
         "None. Several chunks are joined, which is a copy. BufferError for nulls, for types without a "
         "DLPack type, and for a copy that copy=False forbids.");
  c.def("offsets_and_values", &offset_columns, nb::kw_only(), nb::arg("nulls") = nb::none(),
        nb::sig("def offsets_and_values(self, *, nulls: None = None) -> "
                "tuple[Column, Column]"),
        offsets_and_values_doc)
      .def("offsets_and_values", &offset_columns, nb::kw_only(), nb::arg("nulls") = nb::none(),
           nb::sig("def offsets_and_values(self, *, nulls: typing.Literal['mask']) -> tuple[Column, "
                   "Column, Column]"),
           offsets_and_values_doc)
      .def("is_valid", &valid, nb::call_guard<gil_release>(),
           "A column of bool8, one byte a row: 1 where a value is not null, 0 where it is. One kernel per "
           "chunk.");
}

// Tables as tensors of rows and columns.

namespace {

void bind_arrays(table_class& c) {
  constexpr const char* order = "order: typing.Literal['row', 'column'] | None = None, ";
  bind_tensor(
      c, "to_torch", in_python("saeta._convert.to_libraries", "table_to_torch"), "torch.Tensor", order,
      "A torch tensor of rows and columns on the table's device. It must not be written to unless it is a "
      "copy.\n\n"
      "All columns must have one type. For columns of several types, `dtype` names the type: any float, to "
      "which values are rounded, or an integer type that has all values of the columns. TypeMismatch "
      "otherwise. Decimals need it.\n\n"
      "No copy is made if the columns are equally spaced in one allocation and there is one batch: the "
      "tensor then has strides, and the values of a column are contiguous. Otherwise one kernel per batch "
      "gathers all columns into memory under the budget. `order='row'` makes the values of a row contiguous, "
      "`order='column'` those of a column; None takes either if that saves the copy, else 'row'. Nulls, "
      "`reinterpret` and `codes`: as for `Column.to_torch`; the mask has rows and columns, too."
      "\n\nExample:\n"
      "    >>> import saeta as sa\n"
      "    >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'host')\n"
      "    >>> table.to_torch(dtype='float32').tolist()\n"
      "    [[1.0, 0.5], [2.0, 1.5]]");
  bind_tensor(c, "to_cupy", in_python("saeta._convert.to_libraries", "table_to_cupy"), "cupy.ndarray", order,
              "A CuPy array of rows and columns on the table's device. Keywords as for `to_torch`.");
  bind_tensor(c, "to_jax", in_python("saeta._convert.to_libraries", "table_to_jax"), "jax.Array", order,
              "A JAX array of rows and columns on the table's device. Keywords as for `to_torch`. JAX takes "
              "only arrays without gaps, so the default of `order` is 'row'.");
  bind_tensor(c, "to_numpy", in_python("saeta._convert.to_libraries", "table_to_numpy"),
              "numpy.typing.NDArray[typing.Any]",
              "order: typing.Literal['row', 'column'] | None = None, copy: bool | None = None, ",
              "A NumPy array of rows and columns. `copy=False` raises ExchangeError instead of copying, True "
              "always copies, None copies if necessary. Other keywords as for `to_torch`."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> table = sa.table({'x': [1, 2], 'y': [0.5, None]}, 'host')\n"
              "    >>> table.to_numpy(dtype='float32', fill=0).tolist()\n"
              "    [[1.0, 0.5], [2.0, 0.0]]");
  c.def("__array__", in_python("saeta._convert.to_libraries", "table_array"),
        nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Never"),
        "Raises TypeMismatch, which names what to do instead.");
}

} // namespace

void bind_tensors(table_class& c) {
  bind_arrays(c);
  bind_dlpack_protocol(
      c, "A DLPack capsule of a tensor of rows and columns, whose columns are of one type: zero-copy and "
         "read-only if they are equally spaced in one allocation, else gathered by one kernel per batch, row "
         "by row. Streams as for `Column.__dlpack__`. BufferError for nulls and for a copy that copy=False "
         "forbids, TypeMismatch for columns of several types.");
}

} // namespace saeta::py
