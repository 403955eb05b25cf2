"""The function of a program that changes windows, and the tensors of what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from saeta._core import Context, Schema, Table, _united_schema
from saeta._loader.base import Data
from saeta._loader.batches import Features
from saeta._loader.codes import Coder, make_coders
from saeta._loader.records import Options, Span
from saeta._loader.refusals import refuse_repeated
from saeta.errors import InvalidError, TypeMismatch
from saeta.exchange import from_arrow


class Transform:
    """Calls the function of a loader. All that it returns has one schema: that of the first result.

    Attributes:
        schema: of the results; None before the first one.
    """

    def __init__(self, function: Callable[[Table], Any], data: Data, ctx: Context, options: Options) -> None:
        if not callable(function):
            raise TypeMismatch(
                f"transform is of type {type(function).__name__}, expected a function that takes a Table"
            )
        if options.codes and not isinstance(options.codes, Mapping):
            raise InvalidError(
                "codes of what transform= returns need their values, as codes={'city': ['rome', 'oslo']} in "
                "tensor_options"
            )
        self._function = function
        self._data = data
        self._ctx = ctx
        self._options = options
        self.schema: Schema | None = None

    def __call__(self, rows: Table, spans: Sequence[Span]) -> Table:
        """Returns what the function makes of a window. What it raises gets a note with the place."""
        try:
            made = self._function(rows)
        except BaseException as failure:
            failure.add_note(f"in the transform of {self._data.describe(spans)}")
            if isinstance(failure, StopIteration):  # which would end the epoch
                raise RuntimeError("transform raised StopIteration") from failure
            raise
        if not isinstance(made, Table):
            made = self._taken(made, spans)
        elif made.device != self._ctx.device:
            made = made.to(self._ctx)
        if self.schema is None:
            if len(set(made.schema.names)) != made.num_columns:
                refuse_repeated(made.schema.names, "rename them in transform=")
            self.schema = made.schema
        elif made.schema != self.schema:
            made = self._with_schema(made, self.schema, spans)
        return made

    @property
    def coders(self) -> Mapping[str, Coder]:
        """The coders of columns of the results; none before there is a result."""
        return {} if self.schema is None else self._features.coders

    def batches(self, table: Table, rows: int) -> Iterator[Any]:
        """Yields batches of results, as `Features.batches` does."""
        return self._features.batches(table, rows)

    @cached_property
    def _features(self) -> Features:
        assert self.schema is not None  # there are results
        coders = make_coders(self._options.codes, self._data, self.schema)
        return Features(self.schema, self._options, coders)

    def _taken(self, made: Any, spans: Sequence[Span]) -> Table:
        if not any(hasattr(made, name) for name in ("__arrow_c_device_stream__", "__arrow_c_stream__")):
            raise TypeMismatch(
                f"transform returned an object of type {type(made).__name__} for "
                f"{self._data.describe(spans)}, expected a Table, or a table of another library"
            )
        table: Table = from_arrow(made, self._ctx)
        return table

    def _with_schema(self, made: Table, first: Schema, spans: Sequence[Span]) -> Table:
        label = f"what transform returned for {self._data.describe(spans)}"
        if sorted(made.schema.names) != sorted(first.names):
            raise TypeMismatch(
                f"{label} has the columns {made.schema.names}, and what it returned first has {first.names}"
            )
        return made.select(first.names)._with_schema(
            _united_schema([made.select(first.names).schema], [label], first)
        )
