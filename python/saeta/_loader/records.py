"""The records that the modules of the training loader pass on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from saeta._core import Table


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
    with_mask: bool = False
    reinterpret: bool = False
    codes: bool = False
    order: str | None = None
    dtype: Any = None

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
    with_mask: bool  # whether rows get a mask
    padded: bool
    fill: Any
