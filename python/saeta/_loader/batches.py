"""The batches of an epoch: its windows are read ahead, cut into whole batches, and converted to tensors.

A conversion makes many batches at once: one kernel and one hand-over for each column, whose result is then
cut into batches without a copy. Strings, lists and arrays of JAX are handed over batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, repeat
from typing import Any, Never, Protocol
from weakref import WeakSet

from saeta._convert.dictionaries import decoded
from saeta._convert.tables import concat_tables
from saeta._core import (
    Column,
    Context,
    DataType,
    Schema,
    Table,
    _call_to_the_end,
    _Ending,
    _from_columns,
    _narrow_float_type,
    _unknown_column,
)
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices
from saeta._files.scan import ReadAhead
from saeta._loader.codes import Coder
from saeta._loader.cuts import cut_array, cut_for_jax, cut_for_torch
from saeta._loader.lists import VIEWS, batches_of_lists
from saeta._loader.readings import Reader
from saeta._loader.records import Choice, Conversion, Lists, Load, Options, Place, Span, Tensor
from saeta._loader.refusals import (
    ADVICE,
    add_label,
    refuse_column,
    refuse_dictionary,
    refuse_in_matrix,
    refuse_nulls,
    ways_with_nulls,
)
from saeta._loader.told import Told
from saeta._optional import load
from saeta._text import did_you_mean
from saeta.errors import BudgetExceeded, ClosedError, ColumnNameError, Error, InvalidError, TypeMismatch

LIBRARIES = ("torch", "cupy", "jax", "numpy")
OTHER_LIBRARIES = {"pytorch": "torch", "np": "numpy", "cp": "cupy", "arrow": "table", "saeta": "table"}
NULLS = ("error", "nan", "fill", "mask")
LISTS = ("jagged", "padded")
MATRIX = "matrix"

# The beginnings of Arrow's format strings of types.
NUMBERS = (*"cCsSiIlLefgb", "d:")  # the parameters of decimals come after "d:"
FLOATS = tuple("efg")
VARIABLE = ("u", "U", "z", "Z", "+l", "+L", "+m")


class Converter(Protocol):
    """Makes batches of tables."""

    def batches(self, table: Table, rows: int) -> Iterator[Any]:
        """Yields batches of so many rows of a table of one piece, the last one with fewer."""


class Source(Protocol):
    """What windows are read from: the data of a loader, or rows that a function changes."""

    def open(self, ctx: Context, columns: Sequence[str], loads: Any, /, *, ahead: int, views: bool) -> Reader:
        """Begins to read loads, as `Data.open`, or slots of lanes."""

    def describe(self, spans: Sequence[Span]) -> str:
        """Returns the place of the rows of spans, for messages."""

    def advice(self, spans: Sequence[Span]) -> str:
        """Returns what to do where the budget has no room for the rows of spans."""


class Windows:
    """The rows of the loads of an epoch, one load after the other, read ahead of the program.

    If a load has no room, the loads that were read ahead are released, and from then on each load is read
    when it is taken.

    Args:
        loads: or the slots of a rank, if a function changes the rows of lanes.
        views: whether rows may be views of files. Permuted ones are copied: they are looked up in one piece
            of memory, which is faster than in a view of each batch.
        fetched: what is kept until the reader has the first rows.

    Attributes:
        turns: the order in which the batches of the rows that were taken last are yielded; None: their own.
        slots: for each batch in that order, the slots of the rank that are passed with it; None: one each.
        is_open: False after `stop` and in a child of fork, where `require_open` raises. It is looked at for
            each batch, and a system call would take longer than many batches.
    """

    def __init__(
        self,
        source: Source,
        ctx: Context,
        columns: Sequence[str],
        loads: Sequence[Load] | range,
        prefetch: int,
        *,
        views: bool,
        fetched: object = None,
    ) -> None:
        self._source = source
        self._ctx = ctx
        self._columns = columns
        self._loads = loads
        self._views = views
        self._fetched = fetched
        self._taken = 0
        self._spans: Sequence[Span] | None = None  # of the rows that were taken last; None: there are none
        self._process = os.getpid()
        self.is_open = self.are_ahead = True
        self.turns: list[int] | None = None
        self.slots: list[int] | None = None
        _all.add(self)
        self._reader = source.open(ctx, columns, loads, ahead=prefetch, views=views)

    def take(self) -> list[Table] | None:
        """Returns the next rows, those of a load as one table; None after the last ones."""
        rows: Any
        try:
            try:
                rows = self._reader.next()
            except BudgetExceeded:
                if not self.are_ahead:
                    raise
                self.read_on_request()
                rows = self._reader.next()
        except ClosedError:  # closed during the read: nothing is wrong with the rows
            self.require_open()
            raise
        except Error as failure:
            left = self._loads[self._taken :]
            spans = [] if isinstance(left, range) or not left else left[0].spans
            label = f"reading {self._source.describe(spans)}" if spans else ""
            add_label(failure, label, self._source.advice(spans))
            raise
        self._spans = self.turns = self.slots = self._fetched = None
        if rows is None:
            return None
        if isinstance(self._loads, range):
            self._taken, self._spans, self.turns, self.slots = rows.passed, rows.spans, rows.turns, rows.slots
            tables: list[Table] = rows.tables
            return tables
        load = self._loads[self._taken]
        self._taken += 1
        self._spans, self.turns = load.spans, load.turns
        return [rows]

    def place(self) -> str:
        """Returns the place of the rows that were taken last, for messages."""
        return "the last rows" if self._spans is None else self._source.describe(self._spans)

    def read_on_request(self) -> None:
        """Releases the loads that were read ahead. From now on each load is read when it is taken."""
        self._reader.close()
        self.wait()
        self.are_ahead = False
        left = self._loads[self._taken :]
        self._reader = self._source.open(self._ctx, self._columns, left, ahead=0, views=self._views)

    def require_open(self) -> None:
        """Raises ClosedError after `stop`, and in a child of fork."""
        if self._process != os.getpid():
            raise ClosedError(
                f"the loader belongs to process {self._process}, the parent of this forked process: "
                "open its source again"
            )
        if not self.is_open:
            raise ClosedError("the loader is closed")

    def stop(self) -> None:
        """Ends the reading within 50 ms. `take` then raises ClosedError."""
        self.is_open = False
        self._fetched = None
        self._reader.close()

    def wait(self) -> None:
        """Waits until the thread that reads ahead has ended."""
        if isinstance(self._reader, ReadAhead):
            self._reader.wait()


_all: WeakSet[Windows] = WeakSet()


def _close_in_child() -> None:
    """Marks the windows as closed in a child of fork, because they belong to its parent."""
    for each in _all:
        each.is_open = False


os.register_at_fork(after_in_child=_close_in_child)


@dataclass(slots=True)
class Cutter:
    """Cuts tables into pieces of whole batches. The next batch begins with the rows left of a table."""

    size: int  # rows of a batch
    left: list[Table] = field(default_factory=list)
    rows: int = 0  # the number of rows in `left`

    def cut(self, table: Table) -> list[Table]:
        """Returns parts of the table whose numbers of rows are multiples of the size of a batch.

        A part is of one piece, or it is one batch whose pieces are joined later.
        """
        found: list[Table] = []
        for piece in table.batches:
            first = 0
            if self.rows:
                first = min(self.size - self.rows, piece.num_rows)
                self._keep(piece.slice(0, first))
                if self.rows < self.size:
                    continue
                found += self.rest()
            whole = (piece.num_rows - first) // self.size * self.size
            if whole:
                found.append(piece.slice(first, whole))
            if first + whole < piece.num_rows:
                self._keep(piece.slice(first + whole))
        return found

    def rest(self) -> list[Table]:
        """Returns the rows that are left as one batch, or nothing if there are none."""
        left, self.left, self.rows = self.left, [], 0
        return [concat_tables(left)] if left else []

    def _keep(self, rows: Table) -> None:
        self.left.append(rows)
        self.rows += rows.num_rows


@dataclass(eq=False)
class Batches(Iterator[Any]):
    """Yields the batches of a rank. Keeps no memory of a window when the next one is taken.

    It is not a generator: a dropped generator ends by running lines of Python in a destructor, where an
    interrupt is lost. An error ends the iterator.
    """

    windows: Windows
    features: Converter
    place: Place  # counts the batches that are taken
    step: int  # the distance from one batch of the rank to the next one
    cutter: Cutter
    end: _Ending  # stops the windows
    told: Told | None  # None: nobody asked for progress
    groups: list[Table] = field(default_factory=list)  # rows of the window that are still to be converted
    made: Iterator[Any] = iter(())  # noqa: RUF009 - it is empty
    is_last: bool = False  # whether all windows were taken
    is_converting: bool = False  # whether an error comes from converting rows
    ended: bool = False

    def __next__(self) -> Any:
        windows = self.windows
        if not windows.is_open:
            if self.ended:
                raise StopIteration
            windows.require_open()
        try:
            while (batch := next(self.made, None)) is None:
                if not self._advance():
                    self.place.epoch, self.place.begin, self.place.batch = self.place.epoch + 1, 0, 0
                    raise StopIteration
        except BaseException as failure:
            self.close()
            if isinstance(failure, Error) and self.is_converting:
                add_label(failure, windows.place(), ADVICE)
            raise
        self.place.batch += self.step
        if self.told is not None:
            self.told.take()
        return batch

    def close(self) -> None:
        """Ends the iterator."""
        self.ended = True
        if self.told is not None:
            self.told.end()
        _call_to_the_end(self.windows.stop)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeMismatch("an iterator of a loader can't be pickled: pickle the loader, which has its place")

    def _advance(self) -> bool:
        """Converts the next rows. Returns whether there are any.

        If there is no room for the result, windows are no longer read ahead.
        """
        self.made = iter(())
        self.is_converting = False
        while not self.groups:
            if self.is_last:
                return False
            tables = self.windows.take()
            self.is_last = tables is None
            if tables is None:
                self.groups = self.cutter.rest()
                continue
            for rows in tables:
                self.groups += self.cutter.cut(rows)
                if self.windows.turns is not None:
                    self.groups += self.cutter.rest()
                del rows
            del tables
        self.is_converting = True
        size, batches = self.cutter.size, self.features.batches
        turns, slots = self.windows.turns, self.windows.slots
        if self.told is not None:
            self.told.expect(self.groups if turns is not None else self.groups[:1], size, turns)
        while True:
            try:
                if turns is None:
                    self.made = batches(self.groups[0].combine_chunks(), size)
                    del self.groups[0]
                else:
                    made = [batch for rows in self.groups for batch in batches(rows.combine_chunks(), size)]
                    self.made = map(made.__getitem__, turns)
                    if slots is not None:  # without a reference to this object, which would be a cycle
                        self.made = map(partial(_placed, self.place, self.step), self.made, slots)
                    self.groups.clear()
            except BudgetExceeded:
                if not self.windows.are_ahead:
                    raise
            else:
                return True
            self.windows.read_on_request()


def _placed(place: Place, step: int, batch: Any, slots: int) -> Any:
    """Returns a batch, and sets the place before it."""
    place.batch = place.begin + (slots - 1) * step
    return batch


def check_options(options: Options) -> None:
    """Raises InvalidError for a word that is not known and for choices that tables don't have."""
    kinds = (*LIBRARIES, "table")
    if options.to not in kinds:
        meant = did_you_mean(options.to, kinds, OTHER_LIBRARIES)
        raise InvalidError(f"to={options.to!r}: expected one of {', '.join(kinds)}{meant}")
    for name, given, known in (("nulls", options.nulls, NULLS), ("lists", options.lists, LISTS)):
        for each in given.values() if isinstance(given, Mapping) else [given]:
            if each not in known:
                meant = did_you_mean(each, known)
                raise InvalidError(f"{name}={each!r}: expected one of {', '.join(known)}{meant}")
    if options.to == "table":
        for name in ("matrix", "dtype", "fill", "codes"):
            if getattr(options, name) is not None:
                raise InvalidError(f"{name} is for tensors, and to='table' yields tables")


class Features:
    """The tensors that a loader makes of its columns.

    Args:
        schema: the columns that are read.
        coders: the coders of columns that become codes, by their names.
    """

    def __init__(self, schema: Schema, options: Options, coders: Mapping[str, Coder]) -> None:
        self._to = options.to
        self.coders = coders
        self._single = options.matrix is True
        self._plans: dict[str, Tensor | Lists] = {}  # by the keys of the yielded dict
        matrices = {} if options.matrix in (None, False) else _matrices(schema, options.matrix)
        if options.to == "table":
            return
        inside = set(chain.from_iterable(matrices.values()))
        for key in matrices:
            if key in schema and key not in inside:
                raise InvalidError(f"a matrix and a column are both named {key!r}")
        for each in schema.fields:
            if each.name not in inside:
                self._plans[each.name] = self._plan(each.name, each.type, choice_of(options, each.name))
        for key, names in matrices.items():
            self._plans[key] = self._plan_of_matrix(key, names, schema, choice_of(options, key))
        for word in ("dtype", "nulls", "fill"):
            given = getattr(options, word)
            for key in given if isinstance(given, Mapping) else ():
                if key not in self._plans:
                    known = ", ".join(map(repr, self._plans))
                    meant = did_you_mean(key, self._plans)
                    raise ColumnNameError(f"{word} names {key!r}; the loader yields {known}{meant}")

    def batches(self, table: Table, rows: int) -> Iterator[Any]:
        """Yields batches of so many rows of a table of one piece, the last one with fewer."""
        if self._to == "table":
            return (table.slice(first, min(rows, len(table) - first)) for first in range(0, len(table), rows))
        parts = list(map(self._converted, self._plans.values(), repeat(table), repeat(rows)))
        if self._single:
            return iter(parts[0])
        # No frame of Python for each batch.
        return map(dict, map(zip, repeat(list(self._plans)), zip(*parts, strict=True)))

    def _converted(self, plan: Tensor | Lists, table: Table, rows: int) -> Iterable[Any]:
        """Converts the columns of a plan and cuts them into batches."""
        try:
            if isinstance(plan, Lists):
                return batches_of_lists(plan, self._to, _tensor, table.column(plan.key), rows)
            how, columns = plan.how, []
            for name in plan.names:
                column = table.column(name)
                if name in self.coders:
                    column = self.coders[name].codes(column)
                elif column.type.value_type is not None:
                    column = decoded(column)
                if column.null_count and how.nulls is None and how.fill is None:
                    ways = ways_with_nulls(plan.key, is_float=plan.is_float)
                    refuse_nulls(column, ways, is_named=plan.is_matrix)
                columns.append(column)
            source = _from_columns(table.context, columns) if plan.is_matrix else columns[0]
            if self._to == "jax":
                return cut_for_jax(source, how, rows)
            made = _tensor(self._to, source, how)
            cut = cut_for_torch if self._to == "torch" else cut_array
            return zip(cut(made[0], rows), cut(made[1], rows), strict=True) if how.masks else cut(made, rows)
        except Error as failure:
            if not isinstance(failure, ClosedError):
                add_label(failure, f"{'column' if plan.key in table else 'matrix'} '{plan.key}'")
            raise

    def _plan(self, key: str, type_: DataType, choice: Choice) -> Tensor | Lists:
        shown = type_
        if key in self.coders or type_.value_type is not None:
            shown = self._shown_type(key, key, type_, choice)
        if shown.format in (*VARIABLE, *VIEWS) and not shown.is_symbol:
            return _plan_of_lists(key, shown, choice)
        values = values_of(shown, is_chosen=choice.dtype is not None)
        if values is None:
            refuse_column(key, shown, None)
        is_float = values.format.startswith(FLOATS)
        if key in self.coders:
            how = conversion_of(choice, dtype="int64", codes=True)
        elif shown.format.startswith("t"):
            how = conversion_of(choice, only_own_dtype=True, reinterpret=True)
        else:
            is_number = values.format.startswith(NUMBERS) or type_.value_type is not None
            how = conversion_of(choice, is_float, only_own_dtype=not is_number, codes=shown.is_symbol)
        return Tensor(key, [key], False, is_float, how)

    def _plan_of_matrix(self, key: str, names: list[str], schema: Schema, choice: Choice) -> Tensor:
        is_float, reinterpret, codes = True, False, False
        for name in names:
            shown = self._shown_type(name, key, schema.field(name).type, choice)
            is_nested = shown.format.startswith("+") and shown.format != "+r"
            if is_nested or values_of(shown, is_chosen=choice.dtype is not None) is None:
                refuse_in_matrix(name, key, shown)
            is_float &= shown.format in FLOATS
            reinterpret |= shown.format.startswith("t")
            codes |= shown.is_symbol or name in self.coders
        how = conversion_of(choice, is_float, order="row", reinterpret=reinterpret, codes=codes)
        return Tensor(key, names, True, is_float, how)

    def _shown_type(self, name: str, key: str, type_: DataType, choice: Choice) -> DataType:
        """Returns the type of the values that a tensor shows: of the codes, or of a dictionary's values."""
        if name in self.coders:
            return DataType("int64")
        values = type_.value_type
        if values is None:
            return type_
        is_number = values.dtype is not None or values.format.startswith(("b", "d:"))
        if not is_number or choice.dtype is None:
            refuse_dictionary(name, key, is_number=is_number)
        return values


def choice_of(options: Options, key: str) -> Choice:
    """Returns the choices for one key."""
    dtype, nulls, fill, lists = options.dtype, options.nulls, options.fill, options.lists
    is_own = isinstance(dtype, Mapping)
    dtype = dtype.get(key) if isinstance(dtype, Mapping) else dtype
    nulls = nulls.get(key, "error") if isinstance(nulls, Mapping) else nulls
    lists = lists.get(key, "jagged") if isinstance(lists, Mapping) else lists
    is_filled = fill is not None
    if isinstance(fill, Mapping):
        is_filled, fill = key in fill, fill.get(key)
    if is_filled and nulls == "error":
        nulls = "fill"
    return Choice(dtype, is_own, nulls, 0 if is_filled and fill is None else fill, lists)


def conversion_of(
    choice: Choice,
    is_float: bool = False,
    *,
    dtype: str | None = None,
    only_own_dtype: bool = False,
    reinterpret: bool = False,
    codes: bool = False,
    order: str | None = None,
) -> Conversion:
    """Returns how values become a tensor.

    Args:
        dtype: the type of the numbers, unless the caller chose another one for this key alone.
        only_own_dtype: whether a type that the caller chose for all keys is ignored.
    """
    chosen: Any = dtype
    if choice.is_own:
        chosen = dtype if choice.dtype is None else choice.dtype
    elif not only_own_dtype and dtype is None:
        chosen = choice.dtype
    nulls = fill = None
    if choice.nulls == "nan" and (is_float or "float" in str(chosen)):
        nulls = "nan"
    elif choice.nulls == "fill":
        fill = 0 if choice.fill is None else choice.fill
    elif choice.nulls == "nan":  # types that are not floats have no NaN
        fill = choice.fill
    elif choice.nulls == "mask":
        nulls = "mask"
    return Conversion(nulls, fill, reinterpret, codes, order, chosen)


def values_of(type_: DataType, *, is_chosen: bool, is_inside: bool = False) -> DataType | None:
    """Returns the type of the numbers of a tensor: also those of runs, fixed-size lists and structs.

    Args:
        is_chosen: whether the type of the tensor is chosen, which types that are not numbers may need.
        is_inside: whether these are values inside of rows.

    Returns:
        None if no tensor can have the values.
    """
    if type_.format.startswith("+s"):
        first, *others = [field.type for field in type_.fields] or [DataType("null")]
        is_plain = not first.fields and all(each == first for each in others)
        return values_of(first, is_chosen=is_chosen, is_inside=True) if is_plain else None
    if type_.format == "+r":
        return values_of(type_.fields[1].type, is_chosen=is_chosen, is_inside=is_inside)
    if type_.format.startswith("+w"):
        return values_of(type_.fields[0].type, is_chosen=is_chosen, is_inside=True)
    if type_.is_symbol or (type_.format.startswith("t") and not type_.format.startswith("ti")):
        has_tensor = not is_inside  # the loader converts these types for rows only, not inside of lists
    elif type_.format.startswith("d:"):
        has_tensor = is_chosen
    else:
        has_tensor = type_.dtype is not None or type_ == "bool"
    return type_ if has_tensor else None


def _plan_of_lists(key: str, type_: DataType, choice: Choice) -> Lists:
    is_float, how, has_mask = False, Conversion(), choice.nulls == "mask"
    for each in type_.fields[:1]:
        values = values_of(each.type, is_chosen=choice.dtype is not None, is_inside=True)
        if values is None:
            refuse_column(key, each.type, type_)
        is_float = values.format.startswith(FLOATS)
        how = conversion_of(choice, is_float, only_own_dtype=not values.format.startswith(NUMBERS))
        if has_mask:  # a mask is for rows only
            how = how._replace(nulls=None, fill=choice.fill)
    fill = 0 if choice.fill is None else choice.fill
    return Lists(key, is_float and not has_mask, how, has_mask, choice.lists == "padded", fill)


def _matrices(schema: Schema, given: Any) -> dict[str, list[str]]:
    if given is True:
        return {MATRIX: schema.names}
    named = given if isinstance(given, Mapping) else {MATRIX: given}
    found = {key: [names] if isinstance(names, str) else list(names) for key, names in named.items()}
    for key, names in found.items():
        for name in names:
            if name not in schema:
                raise ColumnNameError(f"matrix '{key}': {_unknown_column(name, schema.names)}")
    return found


def _tensor(to: str, source: Column | Table, how: Conversion) -> Any:
    """Converts a column or a table. NumPy takes those of the host as DLPack, without `to_numpy`'s checks."""
    dtype = None if isinstance(source, Table) else source.type.dtype
    is_narrow = dtype is not None and _narrow_float_type(dtype) is not None  # NumPy has it from ml_dtypes
    if to != "numpy" or source.device != "host" or is_narrow:
        return getattr(source, f"to_{to}")(**how.keywords())
    take, choices = _numpy().from_dlpack, Choices(*how)
    values = take(Exported(source, choices))
    return (values, take(Exported(source, choices.mask()))) if how.masks else values


@cache
def _numpy() -> Any:
    return load("numpy", "saeta.loader")
