// Methods of Column and Table that make others of their rows: take, filter, cast, fill, and copy to another
// device. saeta/_convert/rows.py interprets the arguments.

#include "python/src/column/column_class.hpp"
#include "python/src/core/module.hpp"
#include "python/src/core/objects.hpp"
#include "python/src/table/table_class.hpp"
#include "saeta/compute/cast.hpp"
#include "saeta/compute/copy_to.hpp"
#include "saeta/compute/nulls.hpp"
#include "saeta/compute/selected_rows.hpp"
#include "saeta/compute/take.hpp"
#include "saeta/device/permutation.hpp"

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace saeta::py {
namespace {

/// The pieces of a column, of which there is at least one.
std::vector<column> pieces_of(const column_object& self) {
  return self.pieces->empty() ? std::vector{column::empty(self.ctx, self.described->type)} : *self.pieces;
}

column_object with_rows(const column_object& self, const selected_rows& rows) {
  field described = *self.described;
  described.nullable = described.nullable || rows.nullable;
  return {std::move(described), self.ctx, take(pieces_of(self), rows)};
}

column_object take_rows(const column_object& self, const column_object& indices) {
  return with_rows(self, rows_of_indices(self.ctx, rows_of_pieces(*self.pieces), pieces_of(indices)));
}

column_object filtered(const column_object& self, const column_object& mask) {
  return {self.described, self.ctx, filter(as_table(self), pieces_of(mask)).pieces(0)};
}

column_object rows_in_steps(const column_object& self, std::int64_t first, std::int64_t step,
                            std::int64_t count) {
  return with_rows(self, rows_of_slice(self.ctx, rows_of_pieces(*self.pieces), first, step, count));
}

table_object rows_taken(const table_object& self, const column_object& indices) {
  return table_object(take(*self.value, pieces_of(indices)));
}

table_object rows_permuted(const table_object& self, std::uint64_t key, std::int64_t first, std::int64_t step,
                           std::int64_t batch_rows, std::int64_t count, std::int64_t lanes,
                           std::int64_t lane_step, std::int64_t window_batches, std::int64_t round) {
  return table_object(take_permuted(
      *self.value, key, {first, step, batch_rows, count, lanes, lane_step, window_batches, round}));
}

table_object rows_filtered(const table_object& self, const column_object& mask) {
  return table_object(filter(*self.value, pieces_of(mask)));
}

/// Converts every piece. Columns without pieces get an empty one, whose type is checked.
column_object convert_column(const column_object& self, const data_type& type, bool rounds) {
  field described = *self.described;
  described.type = type;
  std::vector<column> pieces;
  std::int64_t row = 0;
  for (const column& piece : pieces_of(self)) {
    pieces.push_back(cast(piece, type, rounds ? cast_rule::round : cast_rule::exact, row));
    row += piece.length();
  }
  return {std::move(described), self.ctx, std::move(pieces)};
}

column_object plain(const column_object& self) {
  field described = *self.described;
  std::vector<column> pieces;
  for (const column& piece : pieces_of(self)) {
    pieces.push_back(plain_numbers(piece));
  }
  described.type = pieces.front().type();
  described.nullable = true;
  return {std::move(described), self.ctx, std::move(pieces)};
}

column_object filled(const column_object& self, const column_object& fill) {
  return {self.described, self.ctx, fill_null(pieces_of(self), single_piece(fill, "a fill"))};
}

column_object nulls(const column_object& self) {
  std::vector<column> pieces;
  for (const column& piece : *self.pieces) {
    pieces.push_back(is_null(piece));
  }
  return {field{self.described->name, data_type::byte_bool(), false, {}}, self.ctx, std::move(pieces)};
}

table_object without_nulls(const table_object& self, const std::vector<std::size_t>& columns) {
  return table_object(drop_null(*self.value, columns));
}

column_object column_without_nulls(const column_object& self) {
  const std::size_t only = 0;
  const table kept = drop_null(as_table(self), std::span(&only, 1));
  return {self.described, self.ctx, kept.pieces(0)};
}

table_object copied_to(const table_object& self, const context_object& target) {
  return table_object(copy_to(*self.value, target.value));
}

column_object column_copied_to(const column_object& self, const context_object& target) {
  return {self.described, target.value, copy_to(as_table(self), target.value).pieces(0)};
}

} // namespace

void bind_rows(column_class& c) {
  c.def("take", in_python("saeta._convert.rows", "take"),
        nb::sig("def take(self, indices: typing.Any) -> Column"),
        "The rows with these numbers, in this order, as a Column of one chunk. `Table.take` describes the "
        "indices and the errors.")
      .def("filter", in_python("saeta._convert.rows", "keep"),
           nb::sig("def filter(self, mask: typing.Any) -> Column"),
           "The rows whose mask is true, as a Column of one chunk. `Table.filter` describes the mask and the "
           "errors.")
      .def("cast", in_python("saeta._convert.rows", "cast"),
           nb::sig("def cast(self, type: typing.Any, *, round: bool = False) -> Column"),
           "The column as another type of numbers, converted by one kernel per chunk; nulls stay null. "
           "Decimals become integers and floats.\n\n"
           "Args:\n"
           "    type: what `saeta.DataType` takes: an integer or a float. Also a type over the same bytes, "
           "such as the integers of a timestamp, without a copy. Of a dictionary the values of the rows are "
           "taken and then converted, so the type of its values is possible as well.\n"
           "    round: False: floats and decimals become the nearest float, which is infinite beyond the "
           "range "
           "of the type; every other value must be equal in the other type. True: floats and decimals also "
           "become the nearest integer, ties to even, and integers the nearest float. Integers must still "
           "have the range.\n\n"
           "Raises OutOfRange naming the first row that has no such value, and TypeMismatch for types that "
           "are not numbers, and for other decimals."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> age = sa.column([31, 54, 8], 'host', name='age')\n"
           "    >>> age.cast('float32').to_pylist()\n"
           "    [31.0, 54.0, 8.0]")
      .def("fill_null", in_python("saeta._convert.rows", "fill_null"),
           nb::sig("def fill_null(self, value: typing.Any) -> Column"),
           "The column with every null replaced by one value, on its device.\n\n"
           "Args:\n"
           "    value: a value that the type has exactly, or a Column of one row and this type.\n\n"
           "Chunks without nulls are not copied if their values have 1, 2, 4 or 8 bytes."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> fare = sa.column([12.5, None, 8.0], 'host', name='fare')\n"
           "    >>> fare.fill_null(0.0).to_pylist()\n"
           "    [12.5, 0.0, 8.0]")
      .def("is_null", &nulls, nb::call_guard<gil_release>(),
           "A column of bool8, one byte a row: 1 where `to_pylist` shows None, 0 elsewhere. One kernel per "
           "chunk, and a few more where dictionaries, runs or unions refer to nulls.")
      .def("drop_null", &column_without_nulls, nb::call_guard<gil_release>(),
           "The rows that are not null, copied as `filter` does. A column without nulls is returned "
           "unchanged.")
      .def("to", in_python("saeta._convert.rows", "to"),
           nb::sig("def to(self, ctx: Context | Device | str) -> Column"),
           "The column in the memory of another context of this process, as `Table.to`.")
      .def("_take", &take_rows, nb::arg("indices"), nb::call_guard<gil_release>())
      .def("_take_in_steps", &rows_in_steps, nb::arg("first"), nb::arg("step"), nb::arg("count"),
           nb::call_guard<gil_release>(), "Rows first, first + step and so on, which the column must have.")
      .def("_filter", &filtered, nb::arg("mask"), nb::call_guard<gil_release>())
      .def("_cast", &convert_column, nb::arg("type"), nb::arg("rounds"), nb::call_guard<gil_release>())
      .def("_plain_numbers", &plain, nb::call_guard<gil_release>(),
           "The numbers of a dictionary or of runs, one for each row.")
      .def("_fill_null", &filled, nb::arg("fill"), nb::call_guard<gil_release>())
      .def("_to", &column_copied_to, nb::arg("target"), nb::call_guard<gil_release>());
}

void bind_rows(table_class& c) {
  c.def("take", in_python("saeta._convert.rows", "take"),
        nb::sig("def take(self, indices: typing.Any) -> Table"),
        "The rows with these numbers, in this order, copied on the table's device. One kernel takes the "
        "values of all columns of fixed width.\n\n"
        "Args:\n"
        "    indices: a Column of integers, a DLPack tensor, a NumPy array or a sequence of numbers, in any "
        "order, with repeats. Negative numbers do not count from the end. A null gives a null row.\n\n"
        "Returns a Table of one batch, under the budget of its context; of several only if 32-bit offsets or "
        "run ends can't count the values. Raises OutOfRange naming the first index that is not a row, "
        "TypeMismatch for anything but integers, and BudgetExceeded."
        "\n\nExample:\n"
        "    >>> import saeta as sa\n"
        "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
        "    >>> table.take([2, 0])['city'].to_pylist()\n"
        "    [None, 'Lyon']")
      .def("filter", in_python("saeta._convert.rows", "keep"),
           nb::sig("def filter(self, mask: typing.Any) -> Table"),
           "The rows whose mask is true, copied on the table's device.\n\n"
           "Args:\n"
           "    mask: a Column of booleans, of bits or bytes, a DLPack tensor, a NumPy array or a sequence, "
           "with one boolean for each row. A null drops its row.\n\n"
           "Returns a Table as `take` does. Raises InvalidError for a mask of another length, and "
           "TypeMismatch for anything but booleans."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.filter([True, False, True])['fare'].to_pylist()\n"
           "    [12.5, 8.0]")
      .def("cast", in_python("saeta._convert.rows", "cast_columns"),
           nb::sig("def cast(self, types: collections.abc.Mapping[str, typing.Any], *, round: "
                   "bool = False) -> Table"),
           "The table with some columns as other types of numbers: a type for each name, as `Column.cast` "
           "takes it."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'age': [31, 54]}, 'host')\n"
           "    >>> table.cast({'age': 'float32'})['age'].to_pylist()\n"
           "    [31.0, 54.0]")
      .def("fill_null", in_python("saeta._convert.rows", "fill_columns"),
           nb::sig("def fill_null(self, values: collections.abc.Mapping[str, typing.Any]) -> Table"),
           "The table with the nulls of some columns replaced: a value for each name, as `Column.fill_null` "
           "takes it."
           "\n\nExample:\n"
           "    >>> import saeta as sa\n"
           "    >>> table = sa.table({'city': ['Lyon', 'Bern', None], 'fare': [12.5, None, 8.0]}, 'host')\n"
           "    >>> table.fill_null({'fare': 0.0})['fare'].to_pylist()\n"
           "    [12.5, 0.0, 8.0]")
      .def("drop_null", in_python("saeta._convert.rows", "drop_null"),
           nb::sig("def drop_null(self, columns: str | int | collections.abc.Iterable[str | int] | None = "
                   "None) -> Table"),
           "The rows without a null in these columns, by name or number (None: in any column), copied as "
           "`filter` does. A table without nulls is returned unchanged.")
      .def(
          "to", in_python("saeta._convert.rows", "to"),
          nb::sig("def to(self, ctx: Context | Device | str) -> Table"),
          "The table in the memory of another context of this process: uploaded from the host to a device, "
          "downloaded, or copied from one GPU to another. Types, symbols, dictionaries and batches stay the "
          "same.\n\n"
          "From one GPU to another it is one copy by peer access, ordered on both. Many small columns are "
          "joined by a kernel first, in at most 64 MiB of the source's budget. GPUs without peer access "
          "exchange it through the host; `Context.counters()` has both, as `peer_to_device` and `staged`.\n\n"
          "Args:\n"
          "    ctx: a Context or the name of a device. A context of the table's own device copies "
          "nothing.\n\n"
          "The result is charged to the budget of that context. Raises BudgetExceeded, and DownloadForbidden "
          "in strict mode for a way to or through the host.")
      .def("_take", &rows_taken, nb::arg("indices"), nb::call_guard<gil_release>())
      .def(
          "_take_permuted", &rows_permuted, nb::arg("key"), nb::arg("first"), nb::arg("step"),
          nb::arg("batch_rows"), nb::arg("count"), nb::arg("lanes"), nb::arg("lane_step"),
          nb::arg("window_batches"), nb::arg("round"), nb::call_guard<gil_release>(),
          "The rows of every `step`-th batch from `first` on, in the order of a key, the same on every "
          "device. Batch k comes from lane k % lanes. The table has windows of `window_batches` batches: for "
          "each round, from number `round` on, one of each `lane_step`-th lane. The rows of a window are "
          "permuted.")
      .def("_filter", &rows_filtered, nb::arg("mask"), nb::call_guard<gil_release>())
      .def("_drop_null", &without_nulls, nb::arg("columns"), nb::call_guard<gil_release>(),
           nb::sig("def _drop_null(self, columns: collections.abc.Sequence[int]) -> Table"))
      .def("_to", &copied_to, nb::arg("target"), nb::call_guard<gil_release>());
}

// Numbers of rows in a pseudo-random order, for saeta/_loader.
void bind_permutations(nb::module_& m) {
  m.def(
      "_permuted_numbers",
      [](std::uint32_t count, std::uint64_t key) {
        const permutation order = make_permutation(count, key);
        std::vector<std::uint64_t> numbers;
        for (std::uint64_t number = 0; number < count; ++number) {
          numbers.push_back(permute(order, number));
        }
        return numbers;
      },
      nb::arg("count"), nb::arg("key"), "The numbers below a count in the order of a key.");
}

} // namespace saeta::py
