"""Turns the columns of rows into what a training loader yields for each batch.

Conversions are made once for many batches: a kernel and a hand-over for each column, whose result is then cut
into batches without a copy. Strings, lists and arrays of JAX are handed over batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

from saeta._convert.dictionaries import decoded
from saeta._convert.to_libraries import tensor_of
from saeta._core import (
    Column,
    DataType,
    Schema,
    Table,
    _from_columns,
    _narrow_float_type,
    _unknown_column,
    from_dlpack,
)
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices
from saeta._loader.codes import Coder
from saeta._loader.refusals import (
    require_no_nulls,
    require_number,
    require_tensor,
    ways_with_nulls,
    ways_with_nulls_inside,
)
from saeta._optional import load
from saeta.errors import BudgetExceeded, ClosedError, ColumnNameError, Error, InvalidError, TypeMismatch
from saeta.exchange import from_arrow

LIBRARIES = ("torch", "cupy", "jax", "numpy")
NULLS = ("error", "nan", "fill", "mask")
LISTS = ("jagged", "padded")
NULL_CHOICES = {"nulls", "fill", "with_mask"}  # keywords of a `to_...` call
MATRIX = "matrix"
TORCH_CUTS = 64  # views made at once: more would have left the processor's caches before they are used

# The beginnings of Arrow's format strings of types.
NUMBERS = (*"cCsSiIlLefgb", "d:")  # decimals have parameters behind theirs
FLOATS = tuple("efg")
VARIABLE = ("u", "U", "z", "Z", "+l", "+L", "+m")
VIEWS = ("vu", "vz", "+vl", "+vL")

# A choice for all columns, or a choice for each key.
Choice: TypeAlias = Any


class Options(NamedTuple):
    """The choices of a loader about values. Each is one for all, or a mapping from keys."""

    to: str
    matrix: Any
    dtype: Choice
    nulls: Choice
    fill: Choice
    lists: Choice
    codes: Any


def check_options(options: Options) -> None:
    """Raises InvalidError for a word that is not known and for choices that tables don't have."""
    if options.to not in (*LIBRARIES, "table"):
        raise InvalidError(f"to={options.to!r}: expected one of {', '.join((*LIBRARIES, 'table'))}")
    for name, given, known in (("nulls", options.nulls, NULLS), ("lists", options.lists, LISTS)):
        for each in given.values() if isinstance(given, Mapping) else [given]:
            if each not in known:
                raise InvalidError(f"{name}={each!r}: expected one of {', '.join(known)}")
    if options.to == "table":
        for name in ("matrix", "dtype", "fill", "codes"):
            if getattr(options, name) is not None:
                raise InvalidError(f"{name} is for tensors, and to='table' yields tables")


class Features:
    """What a loader makes of its columns.

    Args:
        schema: the columns that are read.
        coders: what makes the codes of columns.
    """

    def __init__(self, schema: Schema, options: Options, coders: Mapping[str, Coder]) -> None:
        self._options = options
        self._coders = coders
        self._single = options.matrix is True
        matrices = _matrices(schema, options.matrix)
        inside = {name for names in matrices.values() for name in names}
        plain = {each.name: each.type for each in schema.fields if each.name not in inside}
        repeated = [key for key in matrices if key in plain]
        if repeated:
            raise InvalidError(f"a matrix and a column are both named {repeated[0]!r}")
        self._makers: dict[str, Callable[[Table, int], Iterable[Any]]] = {}
        if options.to == "table":
            return
        for key, type_ in plain.items():
            self._makers[key] = self._maker_of(key, type_)
        for key, names in matrices.items():
            self._makers[key] = self._maker_of_matrix(key, names, schema)
        for name, given in (("dtype", options.dtype), ("nulls", options.nulls), ("fill", options.fill)):
            unknown = [key for key in given if key not in self._makers] if isinstance(given, Mapping) else []
            if unknown:
                known = ", ".join(map(repr, self._makers))
                raise ColumnNameError(f"{name} names {unknown[0]!r}; the loader yields {known}")

    def batches(self, table: Table, rows: int) -> Iterator[Any]:
        """Yields batches of so many rows of a table of one piece, the last one with fewer."""
        if self._options.to == "table":
            return (table.slice(first, min(rows, len(table) - first)) for first in range(0, len(table), rows))
        parts = [self._made(key, table, rows) for key in self._makers]
        if self._single:
            return iter(parts[0])
        # No frame of Python for each batch.
        return map(dict, map(zip, repeat(list(self._makers)), zip(*parts, strict=True)))

    def _made(self, key: str, table: Table, rows: int) -> Iterable[Any]:
        kind = "column" if key in table else "matrix"
        with naming(lambda: f"{kind} '{key}'"):
            return self._makers[key](table, rows)

    def _maker_of(self, key: str, type_: DataType) -> Callable[[Table, int], Iterable[Any]]:
        shown = self._shown_type(key, key, type_)
        if shown.format in (*VARIABLE, *VIEWS) and not shown.is_symbol:
            return self._maker_of_lists(key, shown)
        require_tensor(key, shown, is_chosen=self._dtype(key) is not None)
        if key in self._coders:
            how = self._tensor_choices(key, is_float=False, dtype="int64", codes=True)
        elif shown.format.startswith("t"):
            how = self._tensor_choices(key, is_float=False, only_named_dtype=True, reinterpret=True)
        else:
            how = self._tensor_choices(
                key,
                is_float=_consists_of(FLOATS, shown),
                only_named_dtype=not _consists_of(NUMBERS, shown) and type_.value_type is None,
                codes=shown.is_symbol,
            )
        ways = ways_with_nulls(key, is_float=_consists_of(FLOATS, shown))
        return lambda table, rows: self._cut(self._values(table, key), how, ways, rows)

    def _maker_of_lists(self, key: str, type_: DataType) -> Callable[[Table, int], Iterable[Any]]:
        for each in type_.fields[:1]:
            require_tensor(key, each.type, is_chosen=self._dtype(key) is not None, inside_of=type_)
        lists = _Lists(
            key,
            self._options.to,
            self._list_choices(key, type_),
            ways_with_nulls_inside(
                key,
                is_float=not self._mask(key)
                and any(_consists_of(FLOATS, each.type) for each in type_.fields),
            ),
            with_mask=self._mask(key),
            padded=_of(self._options.lists, key, "jagged") == "padded",
            fill=self._fill(key),
        )
        return lambda table, rows: lists.batches(table.column(key), rows)

    def _maker_of_matrix(
        self, key: str, names: list[str], schema: Schema
    ) -> Callable[[Table, int], Iterable[Any]]:
        shown = [self._shown_type(name, key, schema.field(name).type) for name in names]
        for name, type_ in zip(names, shown, strict=True):
            require_number(name, key, type_, is_chosen=self._dtype(key) is not None)
        floats = all(each.format in FLOATS for each in shown)
        how = self._tensor_choices(
            key,
            is_float=floats,
            order="row",
            reinterpret=any(each.format.startswith("t") for each in shown),
            codes=any(each.is_symbol for each in shown) or any(name in self._coders for name in names),
        )
        ways = ways_with_nulls(key, is_float=floats)
        return lambda table, rows: self._cut(self._selected(table, names), how, ways, rows)

    def _shown_type(self, name: str, key: str, type_: DataType) -> DataType:
        """Returns the type of the values that become the tensor of a key: codes, or those of a dictionary."""
        if name in self._coders:
            return DataType("int64")
        if type_.value_type is None:
            return type_
        is_number = type_.value_type.dtype is not None or type_.value_type.format.startswith(("b", "d:"))
        if not is_number or self._dtype(key) is None:
            numbers = f", or dtype={{'{key}': 'float64'}} to have the numbers" if is_number else ""
            raise TypeMismatch(
                f"column '{name}' is a dictionary: name its values, as codes={{'{name}': [...]}}, or choose "
                f"codes=True{numbers}"
            )
        return type_.value_type

    def _values(self, table: Table, name: str) -> Column:
        """Returns a column as codes or without its dictionary."""
        column = table.column(name)
        if name in self._coders:
            return self._coders[name].codes(column)
        return column if column.type.value_type is None else decoded(column)

    def _selected(self, table: Table, names: list[str]) -> Table:
        return _from_columns(table.context, [self._values(table, name) for name in names])

    def _cut(self, source: Column | Table, how: dict[str, Any], ways: str, rows: int) -> Iterable[Any]:
        if not how.keys() & NULL_CHOICES:
            require_no_nulls(source, ways)
        return _cut(self._options.to, source, how, rows)

    def _dtype(self, key: str) -> Any:
        given = self._options.dtype
        return given.get(key) if isinstance(given, Mapping) else given

    def _tensor_choices(
        self,
        key: str,
        *,
        is_float: bool,
        dtype: str | None = None,
        only_named_dtype: bool = False,
        **chosen: Any,
    ) -> dict[str, Any]:
        """Returns the keywords of a `to_...` call."""
        given = self._options.dtype
        if isinstance(given, Mapping):
            dtype = given.get(key, dtype)
        elif given is not None and not only_named_dtype and dtype is None:
            dtype = given
        found = {name: value for name, value in chosen.items() if value}
        if dtype is not None:
            found["dtype"] = dtype
        nulls = self._nulls(key)
        if nulls == "mask":
            found["with_mask"] = True
        elif nulls == "fill":
            found["fill"] = self._fill(key)
        elif nulls == "nan" and (is_float or "float" in str(dtype)):
            found["nulls"] = "nan"
        elif nulls == "nan" and self._is_filled(key):  # other numbers have no NaN
            found["fill"] = self._fill(key)
        return found

    def _list_choices(self, key: str, type_: DataType) -> dict[str, Any]:
        """Returns the keywords for the values inside of lists."""
        if not type_.fields:
            return {}
        values = type_.fields[0].type
        found = self._tensor_choices(
            key,
            is_float=_consists_of(FLOATS, values),
            only_named_dtype=not _consists_of(NUMBERS, values),
        )
        if found.pop("with_mask", None) and self._is_filled(key):  # a mask is for rows
            found["fill"] = self._fill(key)
        return found

    def _nulls(self, key: str) -> Any:
        """Returns the choice about nulls. A fill of its own is one."""
        chosen = _of(self._options.nulls, key, "error")
        return "fill" if chosen == "error" and self._is_filled(key) else chosen

    def _is_filled(self, key: str) -> bool:
        fills = self._options.fill
        return key in fills if isinstance(fills, Mapping) else fills is not None

    def _mask(self, key: str) -> bool:
        return bool(self._nulls(key) == "mask")

    def _fill(self, key: str) -> Any:
        fill = _of(self._options.fill, key, None)
        return 0 if fill is None else fill


class _Lists:
    """Strings and lists, batch by batch: values and offsets from 0 on, or a padded matrix and lengths."""

    def __init__(
        self,
        name: str,
        to: str,
        chosen: dict[str, Any],
        ways: str,
        *,
        with_mask: bool,
        padded: bool,
        fill: Any,
    ) -> None:
        self._name = name
        self._to = to
        self._chosen = chosen
        self._with_mask = with_mask
        self._padded = padded
        self._fill = fill
        self._ways = ways

    def batches(self, column: Column, rows: int) -> Iterator[tuple[Any, ...]]:
        with naming(lambda: f"column '{self._name}'"):
            if not self._with_mask:
                require_no_nulls(column, f"choose nulls={{'{self._name}': 'mask'}}")
            if column.type.format in VIEWS:
                column = _with_offsets(column)
            parts: Any = column.offsets_and_values(with_mask=self._with_mask)  # type: ignore[call-overload]
            offsets, values, *masks = parts
            if not self._chosen.keys() & NULL_CHOICES:
                require_no_nulls(values, self._ways)
            firsts = [*range(0, len(column), rows), len(column)]
            bounds = offsets.take(firsts).to_pylist()
            for (first, last), (begin, end) in zip(pairwise(firsts), pairwise(bounds), strict=True):
                inside = _tensor(self._to, values.slice(begin, end - begin), self._chosen)
                own = _tensor(self._to, offsets.slice(first, last - first + 1), {}) - begin
                found = self._pad(inside, own) if self._padded else (inside, own)
                yield (*found, *(_tensor(self._to, mask.slice(first, last - first), {}) for mask in masks))

    def _pad(self, values: Any, offsets: Any) -> tuple[Any, Any]:
        module = load("jax.numpy" if self._to == "jax" else self._to, "saeta.loader")
        lengths = offsets[1:] - offsets[:-1]
        on_device = {"device": values.device} if self._to == "torch" else {}
        columns = module.arange(int(lengths.max()) if len(lengths) else 0, **on_device)
        if len(values) == 0:
            return values.reshape(len(lengths), 0), lengths
        places = offsets[:-1, None] + columns
        used = columns < lengths[:, None]
        return module.where(used, values[module.where(used, places, 0)], self._fill), lengths


def _with_offsets(column: Column) -> Column:
    """Converts views to strings or lists with offsets. pyarrow does, so those of a device go to the host."""
    pyarrow = load("pyarrow", "saeta.loader")
    views = pyarrow.concat_arrays(column.to_arrow().chunks)
    if column.type.format.startswith("+"):
        made = _lists_of(pyarrow, views)
    else:
        made = views.cast(pyarrow.large_string() if column.type.format == "vu" else pyarrow.large_binary())
    table: Table = from_arrow(pyarrow.table({column.name: made}), column.context)
    return table.column(0).combine_chunks()


def _lists_of(pyarrow: Any, views: Any) -> Any:
    """Converts list views. pyarrow's own cast makes offsets that decrease before a null."""
    compute = load("pyarrow.compute", "saeta.loader")
    lengths = compute.fill_null(compute.list_value_length(views), 0).cast(pyarrow.int64())
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int64()), compute.cumulative_sum(lengths)])
    return pyarrow.LargeListArray.from_arrays(offsets, views.flatten(), mask=views.is_null())


def _tensor(to: str, source: Column | Table, chosen: dict[str, Any]) -> Any:
    """Converts a column or a table. NumPy takes those of the host as DLPack, without `to_numpy`'s checks."""
    if to == "numpy" and source.device == "host" and not _is_narrow(source):
        return tensor_of(source, load("numpy", "saeta.loader").from_dlpack, **chosen)
    return getattr(source, f"to_{to}")(**chosen)


def _is_narrow(source: Column | Table) -> bool:
    """Whether NumPy has the type from ml_dtypes and does not take it as DLPack."""
    dtype = None if isinstance(source, Table) else source.type.dtype
    return dtype is not None and _narrow_float_type(dtype) is not None


def _cut(to: str, source: Column | Table, chosen: dict[str, Any], rows: int) -> Iterable[Any]:
    """Converts rows and cuts them into batches."""
    if to == "jax":
        return _cut_for_jax(source, chosen, rows)
    made = _tensor(to, source, chosen)
    if not chosen.get("with_mask"):
        return _cut_tensor(to, made, rows)
    values, mask = made
    return zip(_cut_tensor(to, values, rows), _cut_tensor(to, mask, rows), strict=True)


def _cut_tensor(to: str, made: Any, rows: int) -> Iterable[Any]:
    if to == "torch":
        return _cut_for_torch(made, rows)
    return _cut_array(made, rows)


def _cut_array(made: Any, rows: int) -> Iterator[Any]:
    """Cuts an array of NumPy or CuPy: iterating over an axis makes a view in less time than slicing does."""
    whole = len(made) // rows
    batches = made[: whole * rows].reshape(whole, rows, *made.shape[1:])
    rest = made[whole * rows :]
    return chain(batches, [rest] if len(rest) else [])


def _cut_for_torch(made: Any, rows: int) -> Iterator[Any]:
    """Cuts a tensor by the function of torch that makes views in the least time.

    Autograd does not connect such views with the tensor, so only they may be written to, or only the tensor.
    The program gets the views alone.
    """
    split = load("torch", "saeta.loader").unsafe_split_with_sizes
    whole, rest = divmod(len(made), rows)
    sizes = [rows] * whole + [rest] * (rest > 0)
    groups = [sizes[first : first + TORCH_CUTS] for first in range(0, len(sizes), TORCH_CUTS)]
    return chain.from_iterable(map(split, split(made, [sum(group) for group in groups]), groups))


def _cut_for_jax(source: Column | Table, chosen: dict[str, Any], rows: int) -> Iterable[Any]:
    """Cuts columns, because JAX compiles a program for each slice of an array."""
    if isinstance(source, Column) and not chosen:
        return (
            source.slice(first, min(rows, len(source) - first)).to_jax() for first in _firsts(source, rows)
        )
    how = Choices(**chosen)
    values = from_dlpack(Exported(source, how), source.context)
    if not how.with_mask:
        return _cut_for_jax(values, {}, rows)
    mask = from_dlpack(Exported(source, how.mask()), source.context)
    return zip(_cut_for_jax(values, {}, rows), _cut_for_jax(mask, {}, rows), strict=True)


def _firsts(source: Column, rows: int) -> range:
    return range(0, len(source), rows)


def _matrices(schema: Schema, given: Any) -> dict[str, list[str]]:
    if given is None or given is False:
        return {}
    if given is True:
        return {MATRIX: schema.names}
    named = given if isinstance(given, Mapping) else {MATRIX: given}
    found = {key: [names] if isinstance(names, str) else list(names) for key, names in named.items()}
    for key, names in found.items():
        for name in names:
            if name not in schema:
                raise ColumnNameError(f"matrix '{key}': {_unknown_column(name, schema.names)}")
    return found


def _consists_of(formats: tuple[str, ...], type_: DataType) -> bool:
    """Whether the values are of these formats, also inside of fixed-size lists and structs."""
    if type_.format == "+r":
        return _consists_of(formats, type_.fields[1].type)
    if type_.format.startswith(("+w", "+s")):
        return all(_consists_of(formats, field.type) for field in type_.fields)
    return type_.format.startswith(formats)


def _of(choice: Choice, key: str, default: Any) -> Any:
    return choice.get(key, default) if isinstance(choice, Mapping) else choice


@contextmanager
def naming(label: Callable[[], str], advice: str = "") -> Iterator[None]:
    """Puts where an error arose in front of its text. A refusal by the budget gets the advice at the end."""
    try:
        yield
    except ClosedError:  # nothing was wrong with what was read
        raise
    except Error as failure:
        add_label(failure, label(), advice)
        raise


def add_label(failure: Error, label: str, advice: str = "") -> None:
    """Puts a label in front of the text of an error, and advice at the end of a refusal by the budget."""
    after = f"; {advice}" if advice and isinstance(failure, BudgetExceeded) else ""
    text = failure.args[0] if failure.args else ""
    failure.args = (f"{label}: {text}{after}", *failure.args[1:])
