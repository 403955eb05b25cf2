// Tables as tensors of rows and columns.
#include "python/src/dlpack/dlpack_export.hpp"
#include "python/src/table/table_class.hpp"

namespace saeta::py {
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
              "A CuPy array of rows and columns on the table's device. Keywords as for `to_torch`."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'cuda:0')\n"
              "    >>> table.to_cupy(dtype='float32').tolist()\n"
              "    [[1.0, 0.5], [2.0, 1.5]]");
  bind_tensor(c, "to_jax", in_python("saeta._convert.to_libraries", "table_to_jax"), "jax.Array", order,
              "A JAX array of rows and columns on the table's device. Keywords as for `to_torch`. JAX takes "
              "only arrays without gaps, so the default of `order` is 'row'."
              "\n\nExample:\n"
              "    >>> import saeta as sa\n"
              "    >>> table = sa.table({'x': [1, 2], 'y': [0.5, 1.5]}, 'host')\n"
              "    >>> table.to_jax(dtype='float32').tolist()\n"
              "    [[1.0, 0.5], [2.0, 1.5]]");
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
