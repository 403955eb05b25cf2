"""Yields the rows of files or of a table as batches of tensors, for training."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, overload
from weakref import WeakSet

from saeta import _core
from saeta._convert.numbers import whole_number
from saeta._convert.tables import require_memory
from saeta._core import Context, Schema, Table
from saeta._files.filesystems import place_of
from saeta._loader.batches import Batches, Cutter, Features, Source, Windows, check_options
from saeta._loader.codes import make_coders
from saeta._loader.data import data_of
from saeta._loader.lanes import ChangedRows
from saeta._loader.order import Plan, plan_of
from saeta._loader.records import (
    Options,
    Place,
    Rank,
    ReadOptions,
    Selection,
    Span,
    Steps,
    TensorOptions,
    record_of,
)
from saeta._loader.refusals import refuse_repeated
from saeta._loader.told import Told
from saeta._loader.transform import Transform
from saeta._parquet.engine import require_engine
from saeta._share.pickling import unpickled_context
from saeta._text import did_you_mean, number_text
from saeta.errors import ClosedError, ColumnNameError, InvalidError, TypeMismatch
from saeta.exchange import ContextLike, context_of

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar

    from saeta._files.progress import ProgressArgument
    from saeta._loader.arguments import Files, Library, Names, Shuffle

    Batch_co = TypeVar("Batch_co", covariant=True, default=Any)  # the type of a yielded batch
else:
    from typing import TypeVar

    Batch_co = TypeVar("Batch_co", covariant=True)

VERSION = 2  # of the states: 1 was of an order without lanes
SHUFFLES = ("rows", "batches", False)
LEAST = {"prefetch": 1, "rank": 0, "world_size": 1, "batch_size": 1, "seed": None, "window": 1}


class Loader(Generic[Batch_co]):
    """Yields the batches of one epoch each time it is iterated.

    `saeta.loader` makes it.

    `iter` begins the epoch `epoch`. When its last batch was taken, the next `iter` begins the next epoch. An
    epoch that is left earlier is begun again, at the same place. One epoch at a time counts in `state_dict`:
    the one that began last. It is a context manager, and it pickles with its state, without what is open.

    Example:
        >>> import saeta as sa
        >>> rows = sa.table({"x": [1.0, 2.0, 3.0]}, "host")
        >>> with sa.loader(rows, "host", batch_size=2, to="numpy", drop_last=True) as batches:
        ...     for _ in range(2):  # two epochs
        ...         print([batch["x"].tolist() for batch in batches])
        [[1.0, 2.0]]
        [[1.0, 2.0]]
    """

    def __init__(
        self,
        files: Any,
        ctx: Context,
        chosen: Selection,
        steps: Steps,
        options: Options,
        progress: ProgressArgument = None,
    ) -> None:
        self._files = files
        self._given = chosen, steps, options
        self._progress = progress
        self._closed = False
        check_options(options)
        if chosen.engine is not None:
            require_engine(chosen.engine)
        if isinstance(steps.window, str):
            steps = steps._replace(window=_core._parse_bytes(steps.window))
        for name, least in LEAST.items():
            given = getattr(steps, name)
            if type(given) is not int or (least is not None and given < least):
                checked: dict[str, Any] = {name: _number(name, given, least)}
                steps = steps._replace(**checked)
        if steps.rank >= steps.world_size:
            raise InvalidError(f"rank is {steps.rank}, expected less than world_size, {steps.world_size}")
        if steps.shuffle is True:
            steps = steps._replace(shuffle="rows")
        if steps.shuffle not in SHUFFLES:
            meant = did_you_mean(steps.shuffle, ("rows", "batches"))
            raise InvalidError(f"shuffle={steps.shuffle!r}: expected 'rows', 'batches' or False{meant}")
        if not isinstance(steps.drop_last, bool):
            raise InvalidError(f"drop_last is {steps.drop_last!r}, expected True or False")
        self._steps = steps
        self._device = ctx.device
        self._ctx = ctx.memory.child("loader")
        if chosen.columns is not None:
            chosen = replace(chosen, columns=_names(chosen.columns))
        self._data = data = data_of(files, ctx, chosen)
        if steps.shuffle:
            data.keep_whole(steps.window)
        elif data.divisible:
            data.divide(steps.window)
        if data.shares and not steps.shuffle:
            raise InvalidError("weights of sources are for shuffle='rows' or 'batches', and shuffle is False")
        self._schema = data.schema
        self._columns = self._schema.names
        if len(set(self._columns)) != len(self._columns):
            refuse_repeated(self._columns, "leave them out with columns=, or rename them before")
        self._changes: Transform | None = None
        self._features: Features | Transform
        if chosen.transform is None:
            coders = make_coders(options.codes, data, self._schema) if options.codes else {}
            self._features = Features(self._schema, options, coders)
        else:
            self._features = self._changes = Transform(chosen.transform, data, self._ctx, options)
        self._plan_of = partial(plan_of, data, chosen, steps, options)
        if data.has_sizes:
            _ = self._plan
        self._place = Place(0, 0, 0)  # of the iterator that began last, until the loader is moved
        self._begun: WeakSet[Windows] = WeakSet()  # of all iterators whose threads may still read
        self._process = os.getpid()

    @cached_property
    def _plan(self) -> Plan:
        """What the sizes of the batches of files say. Those of stores are waited for here."""
        if self._closed and not self._data.has_sizes:
            raise ClosedError("the loader is closed")
        for number, (rows, nbytes, _) in enumerate(self._data.batches):
            if rows > 8 * nbytes:
                require_memory(rows, nbytes, partial(self._data.describe, [Span(number, 0, rows)]))
        return self._plan_of(self._data.batches)

    def _fetch_guessed(self) -> object:
        """Begins to fetch what is read first, while the sizes of batches in stores are on their way.

        Returns what keeps it. Where sizes are not as guessed, some of it is not used. A function gets windows
        step by step, so too much would be fetched for it.
        """
        if self._changes is not None or not (guessed := self._data.guess_batches()):
            return None
        rank = Rank(self._place.begin, self._steps.rank, self._steps.world_size)
        return self._data.fetch(self._ctx, self._plan_of(guessed).order.loads(self._place.epoch, rank))

    @property
    def _ended_early(self) -> bool:
        """Whether it was closed before the sizes of batches were known, so that nobody can tell them."""
        return self._closed and not self._data.has_sizes

    @property
    def schema(self) -> Schema:
        """Names and types of the columns that are read, which the function of `transform` gets."""
        return self._schema

    @property
    def lanes(self) -> int:
        """The number of places of the files that batches come from in turn.

        Ranks whose number divides it read different batches of the files.

        Example:
            >>> import saeta as sa
            >>> sa.loader(sa.table({"x": [1.0]}, "host"), "host", batch_size=1, to="numpy").lanes
            1
        """
        return self._plan.order.lanes

    @property
    def codes(self) -> dict[str, list[Any]]:
        """The values of each coded column, in the order of their codes.

        With `transform` they are known once there was a batch.
        """
        return {name: list(coder.values) for name, coder in self._features.coders.items()}

    @property
    def epoch(self) -> int:
        """The number of the epoch that `iter` begins, or that is under way."""
        return self._place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` begin this epoch at its first batch.

        If this is the epoch of a loaded state, it begins where the state was made.

        Example:
            >>> import saeta as sa
            >>> batches = sa.loader(sa.table({"x": [1.0]}, "host"), "host", batch_size=1, to="numpy")
            >>> batches.set_epoch(3)
            >>> batches.epoch
            3
        """
        wanted = _number("epoch", epoch, 0)
        if wanted != self._place.epoch:
            self._place = Place(wanted, 0, 0)

    def state_dict(self) -> dict[str, Any]:
        """Returns where the epoch is, and what determines the order of its rows.

        The state counts the batches that the program took, not those that were read ahead. Its size does not
        depend on the data. All ranks have the same state after the same number of steps.

        Example:
            >>> import saeta as sa
            >>> batches = sa.loader(sa.table({"x": [1.0, 2.0]}, "host"), "host", batch_size=1, to="numpy")
            >>> _ = next(iter(batches))
            >>> batches.state_dict()["batch"]
            1
        """
        batch = self._place.batch
        if self._changes is None:
            batch = min(batch, self._plan.order.batches)  # the last step may begin the epoch again
        return {"version": VERSION, "epoch": self._place.epoch, "batch": batch, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next `iter` continue the epoch after the last batch that the state counts.

        The number of ranks may be another one than when the state was made.

        Raises:
            InvalidError: the state belongs to another order of rows. The message says what differs.

        Example:
            >>> import saeta as sa
            >>> rows = sa.table({"x": [1.0, 2.0]}, "host")
            >>> begun = sa.loader(rows, "host", batch_size=1, to="numpy")
            >>> _ = next(iter(begun))
            >>> resumed = sa.loader(rows, "host", batch_size=1, to="numpy")
            >>> resumed.load_state_dict(begun.state_dict())
            >>> [batch["x"].tolist() for batch in resumed]
            [[2.0]]
        """
        version = state.get("version") if isinstance(state, Mapping) else None
        if version == 1:
            raise InvalidError(
                "the state has version 1, of an order of rows without lanes, which this release does not "
                "have: begin the epoch again, or go on with the release that made the state"
            )
        if version != VERSION:
            raise InvalidError(f"the state is not one of a loader of version {VERSION}: {state!r:.100}")
        no_transform = {"transform": False}
        there = {**no_transform, **state}
        differing = [
            f"{name} is {there.get(name)!r} there and {own!r} here"
            for name, own in {**no_transform, **self._identity()}.items()
            if there.get(name) != own
        ]
        if differing:
            raise InvalidError(f"the state belongs to another order of rows: {'; '.join(differing)}")
        epoch = _number("epoch of the state", state.get("epoch"), 0)
        batch = _number("batch of the state", state.get("batch"), 0)
        if self._changes is None and batch > self._plan.order.batches:
            raise InvalidError(
                f"the state counts {batch} batches, and an epoch has {self._plan.order.batches}"
            )
        self._place = Place(epoch, batch, batch)

    def close(self) -> None:
        """Stops reading within 50 ms. What was taken stays valid. Iterating then raises ClosedError."""
        self._closed = True
        for begun in list(self._begun):
            _core._call_to_the_end(begun.stop)
            begun.wait()
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of batches that a rank gets in a whole epoch. TypeMismatch with `transform`."""
        if self._changes is not None:
            raise TypeMismatch("a loader with transform= has no length: the function may drop and make rows")
        return self._plan.order.steps(0, self._steps.world_size)

    def __iter__(self) -> Iterator[Batch_co]:
        if self._closed:
            raise ClosedError("the loader is closed")
        torch = sys.modules.get("torch.utils.data")
        if torch is not None and torch.get_worker_info() is not None:
            raise InvalidError(
                "a loader reads by threads, and each worker would yield all batches: num_workers=0"
            )
        if self._process != os.getpid():
            raise ClosedError(
                f"the loader belongs to process {self._process}, the parent of this forked process: make one "
                "here"
            )
        steps, begin = self._steps, self._place.begin
        epoch = self._place.epoch
        fetched = None if "_plan" in self.__dict__ else self._fetch_guessed()
        source: Source = self._data
        loads: Any
        if self._changes is None:
            loads = self._plan.order.loads(epoch, Rank(begin, steps.rank, steps.world_size))
        else:
            loads = range(begin + steps.rank, sys.maxsize, steps.world_size)
            source = ChangedRows(
                self._data,
                self._plan.order,
                self._changes,
                epoch=epoch,
                slots=loads,
                drop_last=steps.drop_last,
                most=self._plan.most,
            )
        views = self._plan.views
        windows = Windows(
            source, self._ctx, self._columns, loads, steps.prefetch, views=views, fetched=fetched
        )
        self._place = Place(self._place.epoch, begin, begin)
        self._begun.add(windows)
        cutter, end = Cutter(steps.batch_size), _core._Ending(windows.stop)
        told = None
        if self._progress is not None:
            told = Told(self._progress, f"epoch {epoch}", *self._totals(begin), self._plan.width)
        return Batches(windows, self._features, self._place, steps.world_size, cutter, end, told)

    def _totals(self, begin: int) -> tuple[int, int]:
        """Returns the numbers of batches and rows of this rank from batch `begin` on, -1 if unknown."""
        if self._changes is not None:
            return -1, -1
        steps, order = self._steps, self._plan.order
        batches = order.steps(begin, steps.world_size)
        alone = steps.world_size == 1
        rows = min(order.rows, order.batches * steps.batch_size) - begin * steps.batch_size
        return batches, max(0, rows) if alone else -1

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._files, self._device, *self._given, self.state_dict())

    def _repr_html_(self) -> str:
        from saeta._report.html import described

        return described("Loader", f"on {self._device}", self._facts(), schema=self._schema)

    def __repr__(self) -> str:
        size = self._steps.batch_size
        if self._ended_early:
            return f"<saeta.Loader of batches of {size}, closed>"
        if self._changes is not None:
            return f"<saeta.Loader of {self._plan.order.rows} rows before transform, batches of {size}>"
        return f"<saeta.Loader of {self._plan.order.rows} rows, {len(self)} batches of {size}>"

    def _facts(self) -> list[tuple[str, str]]:
        """Returns what a notebook shows of the loader."""
        steps = self._steps
        if self._ended_early:
            return [("batches", f"of {steps.batch_size:,} rows"), ("place", "closed")]
        rows = f"{self._plan.order.rows:,}"
        batches = "known at the end" if self._changes is not None else f"{len(self):,}"
        return [
            ("rows", rows if self._changes is None else f"{rows} before transform"),
            ("batches", f"{batches} of {steps.batch_size:,} rows"),
            ("order", f"shuffled {steps.shuffle}, seed {steps.seed}" if steps.shuffle else "of the files"),
            ("rank", f"{steps.rank} of {steps.world_size}"),
            ("place", f"epoch {self._place.epoch}, {self._place.batch:,} batches taken"),
        ]

    def _identity(self) -> dict[str, Any]:
        """Returns everything that determines the order of the rows."""
        steps = self._steps
        shuffled: dict[str, Any] = {}
        if steps.shuffle:
            shuffled = {"seed": steps.seed, "window": steps.window, "lanes": self._plan.order.lanes}
        if self._data.shares:
            shuffled["weights"] = [weight for _, weight in self._data.shares]
        changed = {} if self._changes is None else {"transform": True}
        return {
            "batch_size": steps.batch_size,
            "shuffle": steps.shuffle,
            **shuffled,
            **changed,
            **self._data_identity,
        }

    @cached_property
    def _data_identity(self) -> dict[str, Any]:
        content = repr(self._data.identity()).encode()
        return {"rows": self._plan.order.rows, "files": hashlib.blake2b(content, digest_size=16).hexdigest()}


@overload
def loader(
    files: Files,
    ctx: ContextLike = None,
    *,
    batch_size: int,
    columns: Names | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    window: int | str = "64MiB",
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    transform: Callable[[Table], Any] | None = None,
    to: Literal["table"],
    read_options: ReadOptions | None = None,
    progress: ProgressArgument = None,
) -> Loader[Table]: ...


@overload
def loader(
    files: Files,
    ctx: ContextLike = None,
    *,
    batch_size: int,
    columns: Names | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    window: int | str = "64MiB",
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    transform: Callable[[Table], Any] | None = None,
    to: Library = "torch",
    matrix: Literal[False] | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    dtype: Any = None,
    tensor_options: TensorOptions | None = None,
    read_options: ReadOptions | None = None,
    progress: ProgressArgument = None,
) -> Loader[dict[str, Any]]: ...


@overload
def loader(
    files: Files,
    ctx: ContextLike = None,
    *,
    batch_size: int,
    columns: Names | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    window: int | str = "64MiB",
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    transform: Callable[[Table], Any] | None = None,
    to: Library = "torch",
    matrix: bool,
    dtype: Any = None,
    tensor_options: TensorOptions | None = None,
    read_options: ReadOptions | None = None,
    progress: ProgressArgument = None,
) -> Loader[Any]: ...


def loader(
    files: Files,
    ctx: ContextLike = None,
    *,
    batch_size: int,
    columns: Names | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    window: int | str = "64MiB",
    rank: int = 0,
    world_size: int = 1,
    drop_last: bool = False,
    transform: Callable[[Table], Any] | None = None,
    to: Library | Literal["table"] = "torch",
    matrix: bool | Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    dtype: Any = None,
    tensor_options: TensorOptions | None = None,
    read_options: ReadOptions | None = None,
    progress: ProgressArgument = None,
) -> Loader[Any]:
    """Yields the rows of files of any size as batches of tensors on a device, for training.

    Windows of the files are read ahead by threads and become batches on the device. The order of the rows is
    a function of the files, `batch_size`, `window`, `shuffle`, `seed` and the number of the epoch. It does
    not depend on the number of ranks, on the budget, or on where an epoch is resumed.

    Args:
        files: a path, a folder, a pattern ("day-*.arrow"), a URL, or a list of them: Arrow IPC files,
            Parquet files, or both. A mapping from them to weights gives each one its share of the rows of an
            epoch, in another selection for each epoch. Also a Table, or a table of another library with
            `__arrow_c_stream__`: then nothing is read.
        ctx: a Context or the name of its device. None: the best device. The loader takes its memory from a
            child of it named "loader". Pass `ctx.memory.child(name, limit)` to limit it.
        batch_size: the number of rows of a batch.
        columns: only these; one name or several. None: all. The files may differ in other columns.
        shuffle: True is "rows". "batches" permutes the batches of the files. "rows" also permutes the rows of
            each window, on the device. Both take batches from several places of the files in turn, so that
            ranks read different ones. The rows of a Table are permuted as a whole. False keeps the order.
        seed: of the permutations, any integer.
        window: bytes that are read at once. Larger batches of files are read in parts, compressed ones not
            with `shuffle`. A larger window mixes more rows and lets more ranks read different batches.
        rank, world_size: this rank yields every `world_size`-th batch.
        drop_last: True leaves out an incomplete last batch, and last batches that not all ranks would get.
            False keeps all rows: with several ranks the last step begins the epoch again for those that have
            no batch left, so that all ranks have the same number of steps.
        transform: a function of a window, a Table on the device, to a Table or a table of another library:
            it may drop rows and make columns. It is called once for each window, before rows are mixed and
            batches are cut, on the thread that reads ahead. All results must have the same columns, and a
            window the same result in every epoch and process. The loader then has no length.
        to: "torch", "cupy", "jax", "numpy" or "table". Tensors must not be written to: they are views of a
            window, or on the host, unless they are torch's, of the files.
        matrix: True yields one row-major matrix of all columns instead of a dict. A list of names puts these
            columns into a matrix under the key "matrix", a mapping names several matrices.
        dtype: the type of the numbers, also of those inside of lists and structs, one for all or a mapping
            from keys. Floats are rounded to the nearest; an integer type must have all values of the column's
            type. Decimals need one; they become integers only if they have no fraction.
        tensor_options: what becomes of nulls, lists and words, a `saeta.TensorOptions`. None: its defaults.
        read_options: how the files are read, a `saeta.ReadOptions`. None: its defaults.
        progress: as for `read_ipc`, after each batch of an epoch that is taken: its rows, and the bytes that
            they have in the files on average. With `transform` the totals are not known.

    Dates, times and durations are the integers of their type. Fixed-size lists have a dimension more.

    Returns:
        A Loader: each `iter` yields the batches of one epoch, as a dict from columns to tensors. With
        to="torch" it is an `IterableDataset` for `DataLoader(loader, batch_size=None)`.

    Raises:
        InvalidError, ColumnNameError: an argument can't be used.
        TypeMismatch: the schema of a file does not go with the others; names the file, the column and both
            types.
        The errors of `read_ipc` and `read_parquet`, when a batch is requested. Errors name the file, the
        batches and the column. BudgetExceeded: a window has no room.

    Example:
        >>> import saeta as sa
        >>> rows = sa.table({"x": [1.0, 2.0, 3.0], "y": [0, 1, 0]}, "host")
        >>> with sa.loader(rows, "host", batch_size=2, to="numpy") as batches:
        ...     [batch["y"].tolist() for batch in batches]
        [[0, 1], [0]]
    """
    where = files.context if isinstance(files, Table) and ctx is None else ctx
    read = record_of("read_options", read_options, ReadOptions)
    how = record_of("tensor_options", tensor_options, TensorOptions)
    place = (
        read.filesystem if read.storage_options is None else place_of(read.filesystem, read.storage_options)
    )
    return (_torch_class() if to == "torch" else Loader)(
        files,
        where if isinstance(where, Context) else context_of(where),
        Selection(columns, read.schema, read.index, read.partitioning, read.engine, place, transform),
        Steps(batch_size, shuffle, window, seed, rank, world_size, drop_last, read.prefetch),
        Options(to, matrix, dtype, how.nulls, how.fill, how.lists, how.codes),
        progress,
    )


@cache
def _torch_class() -> type[Loader[Any]]:
    """Returns the class whose objects torch's DataLoader iterates."""
    from saeta._optional import load

    dataset: Any = load("torch.utils.data", "saeta.loader").IterableDataset
    return type("Loader", (Loader, dataset), {"__doc__": Loader.__doc__, "__module__": Loader.__module__})


def _restore(
    files: Any, device: str, chosen: Selection, steps: Steps, options: Options, state: dict[str, Any]
) -> Loader[Any]:
    """Makes an unpickled loader."""
    of = _torch_class() if options.to == "torch" else Loader
    made: Loader[Any] = of(files, unpickled_context(device), chosen, steps, options)
    made.load_state_dict(state)
    return made


def _number(name: str, given: Any, least: int | None) -> int:
    number = whole_number(given, least)
    if number is None:
        expected = "an integer" if least is None else f"an integer from {least} on"
        raise InvalidError(f"{name} is {number_text(given)}, expected {expected}")
    return number


def _names(columns: Names) -> list[str]:
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if names.count(name) > 1:
            raise ColumnNameError(f"columns: {name!r} is named twice")
    return names
