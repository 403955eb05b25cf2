"""The records that the modules of the training loader pass on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from saeta._core import Table
from saeta.errors import TypeMismatch

if TYPE_CHECKING:
    from saeta._loader import arguments
    from saeta._parquet.engine import Engine

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How `saeta.loader` reads its files.

    Attributes:
        schema: of the columns, as for `read_ipc` and `read_parquet`. None: the schema of the rows of all
            files.
        index: whether columns are read that hold an index of pandas, as for `read_ipc` and `from_arrow`.
        partitioning: of Parquet files in folders, as for `read_parquet`. Arrow files get no columns
            of folders.
        filesystem, storage_options: as for `read_ipc`. A loader that is pickled has them with it.
        engine: what decodes Parquet files, as for `read_parquet`.
        prefetch: the number of windows that are read ahead.

    Example:
        >>> import saeta as sa
        >>> rows = sa.table({"x": [1.0, 2.0]}, "host")
        >>> read = sa.ReadOptions(schema={"x": "float64"}, prefetch=1)
        >>> with sa.loader(rows, "host", batch_size=2, to="numpy", read_options=read) as batches:
        ...     [batch["x"].tolist() for batch in batches]
        [[1.0, 2.0]]
    """

    schema: Any = None
    index: bool = False
    partitioning: Any = "hive"
    filesystem: Any = None
    storage_options: Mapping[str, Any] | None = None
    engine: Engine | None = None
    prefetch: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOptions:
    """What becomes of nulls, lists and words in the tensors of `saeta.loader`.

    Attributes:
        nulls: what becomes of nulls: "error", "nan" (floats), "fill" (the value `fill`), or "mask" (a pair of
            values and a mask that is True where a value is valid). One for all or a mapping from keys.
        fill: the value for nulls and for the end of padded lists, 0 if nothing is given. One for all or a
            mapping from keys; giving it means nulls="fill" where `nulls` says nothing else. Beside "nan" it
            is for numbers without NaN, beside "mask" for nulls inside of lists.
        lists: strings and lists become pairs of values and offsets ("jagged"), or of a matrix and lengths
            ("padded", as long as the longest of the batch). One for all or a mapping from keys. The values of
            strings are their bytes.
        codes: columns that become int64 codes, of any type whose values have no parts. A mapping from columns
            to their values, in the order of the codes. True, or names of columns: the values of the
            dictionaries in the first batch of each file, which `Loader.codes` tells; True means every column
            that was written as a dictionary. A value without a code is OutOfRange.

    Example:
        >>> import saeta as sa
        >>> rows = sa.table({"x": [1.0, None], "city": ["Lyon", "Bern"]}, "host")
        >>> words = sa.TensorOptions(fill=0, codes={"city": ["Bern", "Lyon"]})
        >>> with sa.loader(rows, "host", batch_size=2, to="numpy", tensor_options=words) as batches:
        ...     [(batch["x"].tolist(), batch["city"].tolist()) for batch in batches]
        [([1.0, 0.0], [1, 0])]
    """

    nulls: arguments.Nulls | Mapping[str, arguments.Nulls] = "error"
    fill: Any = None
    lists: arguments.Lists | Mapping[str, arguments.Lists] = "jagged"
    codes: bool | str | Iterable[str] | Mapping[str, Iterable[Any]] | None = None


def record_of(name: str, given: Record | None, kind: type[Record]) -> Record:
    """Returns the options that were given, or the defaults."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise TypeMismatch(f"{name} is of type {type(given).__name__}, expected a saeta.{kind.__name__}")
    return given


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the data that is read, as the arguments of a loader say."""

    columns: Any = None  # names; None: all
    schema: Any = None
    index: bool = False
    partitioning: Any = "hive"
    engine: Any = None
    filesystem: Any = None  # or StorageOptions
    transform: Any = None  # a function that is called with each window; None: rows stay as they are


class Steps(NamedTuple):
    """How an epoch is ordered, cut into batches and shared among ranks, as the arguments of a loader say."""

    batch_size: int
    shuffle: Any
    window: Any
    seed: int
    rank: int
    world_size: int
    drop_last: bool
    prefetch: int


class Options(NamedTuple):
    """The arguments of a loader about values.

    Except `to` and `matrix`, each has one value for all keys or is a mapping from keys.
    """

    to: str
    matrix: Any
    dtype: Any
    nulls: Any
    fill: Any
    lists: Any
    codes: Any


class Batch(NamedTuple):
    """A batch of a source, as its metadata describe it."""

    rows: int
    nbytes: int
    whole: bool  # is not read in parts, because it is compressed, or in a store


class Span(NamedTuple):
    """Consecutive rows of a batch of a source."""

    batch: int
    first: int
    rows: int


class Run(NamedTuple):
    """Spans of consecutive batches of a file, [first, last), which are read at once."""

    file: int
    first: int
    last: int
    spans: list[Span]


class Taken(NamedTuple):
    """Batches of permuted rows that are taken from lanes in turn, as `Table._take_permuted` takes them."""

    key: int
    first: int
    step: int
    batch_rows: int
    length: int
    lanes: int
    lane_step: int
    window_batches: int
    round: int


class Load(NamedTuple):
    """What is read at once.

    Attributes:
        spans: in this order.
        taken: with shuffle="rows", the rows of the spans that are taken.
        turns: numbers of the batches that the rows consist of, in the order in which they are yielded. None:
            in their own order.
    """

    spans: list[Span]
    taken: Taken | None
    turns: list[int] | None = None


class Window(NamedTuple):
    """Rows of a lane that are read at once.

    Attributes:
        number: among all windows of the order, which the permutation of its rows depends on.
    """

    spans: list[Span]
    number: int


class Turns(NamedTuple):
    """Batches of lanes that are taken in turns.

    Attributes:
        tables: rows of one lane each. Only the last batch of a table may have fewer rows than others.
        turns: numbers of the batches in `tables`, in the order in which they are yielded.
        slots: for each batch in that order, the slots of the rank that are passed with it.
        passed: the slots of the rank that are passed with all of them.
        spans: what was read for the rows.
    """

    tables: list[Table]
    turns: list[int]
    slots: list[int]
    passed: int
    spans: list[Span]


class Rank(NamedTuple):
    """The share of one rank in an epoch, from batch `begin` on."""

    begin: int
    number: int
    world_size: int


@dataclass(slots=True)
class Place:
    """The position in an epoch."""

    epoch: int
    begin: int  # number of the batch at which the epoch began, or is to begin
    batch: int  # number of batches that all ranks have taken


class Choice(NamedTuple):
    """The choices of a loader for one key of the dict that it yields."""

    dtype: Any
    is_own: bool  # whether the caller chose `dtype` by a mapping from keys
    nulls: str  # "fill" also if the caller gave a value for nulls and chose nothing else
    fill: Any  # None: the caller gave no value
    lists: str


class Conversion(NamedTuple):
    """The keywords of a `to_...` call, as `_TensorChoices` takes them."""

    nulls: str | None = None
    fill: Any = None
    reinterpret: bool = False
    codes: bool = False
    order: str | None = None
    dtype: Any = None

    @property
    def masks(self) -> bool:
        """Whether a mask is wanted besides the values."""
        return self.nulls == "mask"

    def keywords(self) -> dict[str, Any]:
        """Returns the keywords that differ from the defaults."""
        defaults = self._field_defaults
        return {name: value for name, value in self._asdict().items() if value is not defaults[name]}


PLAIN = Conversion()


class Tensor(NamedTuple):
    """How a column of numbers becomes a tensor, or the columns of a matrix do."""

    key: str
    names: list[str]
    is_matrix: bool
    is_float: bool
    how: Conversion


class Lists(NamedTuple):
    """How a column of strings or lists becomes values and offsets, or a padded matrix and lengths."""

    key: str
    offers_nan: bool  # whether a refusal of nulls inside of lists offers nulls='nan'
    how: Conversion  # the conversion of the values inside
    has_mask: bool  # whether rows get a mask
    padded: bool
    fill: Any
