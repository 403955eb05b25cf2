"""Decodes parts of Parquet files by pylibcudf into tables of a context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from saeta import _core
from saeta._core import Context, Schema, Table
from saeta._optional import load
from saeta._parquet.columns import Libcudf, TooLongError, with_layout
from saeta._parquet.engine import log_host
from saeta._parquet.filters import EVERY_ROW, Clauses, Condition, Known, literal
from saeta._parquet.memory import decoding_memory
from saeta._parquet.parts import Part
from saeta._parquet.plan import Plan
from saeta.errors import Error, FormatError, UnsupportedError
from saeta.exchange import from_arrow

CHUNK_BYTES = 1 << 30  # of a row group whose text needs offsets of 64 bits
OPERATIONS = {
    "=": "EQUAL",
    "==": "EQUAL",
    "!=": "NOT_EQUAL",
    "<": "LESS",
    ">": "GREATER",
    "<=": "LESS_EQUAL",
    ">=": "GREATER_EQUAL",
}

ReadOnHost = Callable[[Part], Table]


class Decoder:
    """Decodes parts on any threads, each on a stream of its own, until `end`.

    Args:
        on_host: reads what cuDF refuses. None: that is an error.
    """

    def __init__(self, ctx: Context, plan: Plan, on_host: ReadOnHost | None) -> None:
        # In memory of the host libcudf's kernels would write where no GPU can reach.
        if not ctx.device.startswith("cuda:"):
            raise UnsupportedError(f"cuDF decodes to the memory of a CUDA device, not of '{ctx.device}'")
        self._ctx = ctx
        self.plan = plan
        self._on_host = on_host
        self._plc = load("pylibcudf", "decoding Parquet on a device")
        load("pylibcudf.io", "decoding Parquet on a device")
        self._ordinal = int(ctx.device.partition(":")[2] or 0)
        self._memory = decoding_memory(self._ordinal, load("rmm", "decoding Parquet on a device").mr)
        self._streams: list[Any] = []
        self._told = False
        self._ended = threading.Lock()  # held from the end on
        self._memory.begin()

    def end(self) -> None:
        """Gives RMM its resource back. What was decoded stays valid."""
        if self._ended.acquire(blocking=False):
            self._memory.end()

    def decode(self, part: Part, window: int | None = None) -> Iterator[Table]:
        """Yields the rows of a part as one table, or as several where they do not fit one.

        Args:
            window: the bytes of a table; a row group that has more comes in several.
        """
        try:
            if window is not None and len(part.groups) == 1 and part.nbytes > window:
                yield from self._in_chunks(part, window)
            else:
                yield self._whole(part)
        except TooLongError:
            yield from self._divided(part)
        except (Error, MemoryError):
            raise
        except Exception as failure:  # pylibcudf's, which has no class of its own
            yield self._refused(part, failure)

    def _divided(self, part: Part) -> Iterator[Table]:
        if len(part.groups) > 1:
            for half in part.halves():
                yield from self.decode(half)
            return
        try:
            yield from self._in_chunks(part, CHUNK_BYTES)
        except TooLongError as failure:
            yield self._refused(part, failure)

    def _refused(self, part: Part, failure: Exception) -> Table:
        path = self.plan.files[part.groups[0].file].path
        text = str(failure) or type(failure).__name__
        if self._on_host is None:
            raise FormatError(f"cuDF can't read '{path}': {text}") from failure
        if not self._told:
            self._told = True
            log_host(f"cuDF can't read '{path}': {text}")
        return self._on_host(part)

    def _whole(self, part: Part) -> Table:
        with self._on_stream() as lib:
            if not self._names(part):
                return self._filtered(lib, part, lib.plc.Table([]), part.rows)
            decoded = self._plc.io.parquet.read_parquet(self._options(part), lib.stream, lib.mr)
            return self._filtered(lib, part, _in_order(lib, decoded, self._names(part)))

    def _in_chunks(self, part: Part, most: int) -> Iterator[Table]:
        """Decodes a row group in chunks. The device is left to others between two of them."""
        reader: Any = None
        while reader is None or reader.has_next():
            with self._on_stream() as lib:
                if reader is None:
                    reader = self._plc.io.parquet.ChunkedParquetReader(
                        self._options(part), lib.stream, lib.mr, chunk_read_limit=most, pass_read_limit=most
                    )
                decoded = reader.read_chunk()
                table = self._filtered(lib, part, _in_order(lib, decoded, self._names(part)))
            yield table

    def _options(self, part: Part) -> Any:
        io = self._plc.io
        by_file = part.by_file
        source = io.SourceInfo([self.plan.files[file].path for file in by_file])
        options = io.parquet.ParquetReaderOptions.builder(source).use_pandas_metadata(False).build()
        options.set_column_names(self._names(part))
        options.set_row_groups(list(by_file.values()))
        return options

    def _names(self, part: Part) -> list[str]:
        return self.plan.files[part.groups[0].file].names

    def _filtered(self, lib: Libcudf, part: Part, decoded: Any, rows: int | None = None) -> Table:
        """Returns the rows that match the filter, as a table of the context with the types of the files."""
        plc, file = lib.plc, self.plan.files[part.groups[0].file]
        if file.clauses != EVERY_ROW:
            expression = _expression(lib, file.clauses, file.names, self._types)
            plc.utils.CUDF_DEFAULT_STREAM.synchronize()  # on which pylibcudf makes the literals
            mask = plc.transform.compute_column(decoded, expression, lib.stream, lib.mr)
            decoded = plc.stream_compaction.apply_retention_mask(decoded, mask, lib.stream, lib.mr)
        if rows is None:
            rows = decoded.num_rows()
        if rows == 0:
            return self.empty
        shown = [(name, column) for name, column in zip(file.names, decoded.columns(), strict=True)]
        shown = [(name, column) for name, column in shown if name in self.plan.schema.names]
        columns = {}
        if shown:
            names = [name for name, _ in shown]
            fields = load("pyarrow", "reading Parquet").schema(
                [self.plan.schema.field(name) for name in names]
            )
            exported = plc.Table([with_layout(lib, column, self._types[name]) for name, column in shown])
            lib.stream.synchronize()  # pylibcudf exports on the default stream
            capsules = fields.__arrow_c_schema__(), exported.__arrow_c_device_array__()[1]
            taken = from_arrow(capsules, self._ctx)
            columns = dict(zip(names, taken.columns, strict=True))
        for name, known in file.known.items():
            if name in self.plan.schema.names:
                columns[name] = from_arrow(constant(known, rows), self._ctx).with_name(name)
        table = _core._from_columns(self._ctx, [columns[name] for name in self.plan.schema.names])
        return table._with_schema(self.schema)

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.plan.schema)

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The types of the columns, those of the filter included."""
        return {field.name: field.type for field in self.plan.whole}

    @property
    def empty(self) -> Table:
        """A table without rows."""
        table: Table = from_arrow(self.plan.schema.empty_table(), self._ctx)
        return table

    @contextmanager
    def _on_stream(self) -> Iterator[Libcudf]:
        """Lends a stream, with the device and its memory for this thread."""
        with current_device(self._ordinal), self._memory.of(self._ctx) as resource:
            stream = self._streams.pop() if self._streams else new_stream()
            try:
                yield Libcudf(self._plc, stream, resource)
            finally:
                stream.synchronize()
                self._streams.append(stream)


def constant(known: Known, rows: int) -> Any:
    """Returns an array of pyarrow that has one value in all rows."""
    pyarrow = load("pyarrow", "reading Parquet")
    if known.value is None:
        return pyarrow.nulls(rows, known.type)
    if pyarrow.types.is_dictionary(known.type):
        codes = pyarrow.repeat(pyarrow.scalar(0, known.type.index_type), rows)
        values = pyarrow.array([known.value], known.type.value_type)
        return pyarrow.DictionaryArray.from_arrays(codes, values, ordered=known.type.ordered)
    return pyarrow.repeat(pyarrow.scalar(known.value, known.type), rows)


def _in_order(lib: Libcudf, decoded: Any, names: list[str]) -> Any:
    """Returns the columns in the order of names."""
    own = decoded.column_names(include_children=False)
    columns = dict(zip(own, decoded.columns, strict=True))
    return lib.plc.Table([columns[name] for name in names])


def _expression(lib: Libcudf, clauses: Clauses, names: list[str], types: dict[str, Any]) -> Any:
    """Returns clauses as an expression of pylibcudf. Its literals are on the device."""
    plc = lib.plc.expressions
    operation, operators = plc.Operation, plc.ASTOperator

    def compared(condition: Condition) -> Any:
        column = plc.ColumnReference(names.index(condition.column))
        kind = {"in": "EQUAL", "not in": "NOT_EQUAL"}.get(condition.operator) or OPERATIONS[
            condition.operator
        ]
        tests = [
            operation(getattr(operators, kind), column, plc.Literal(_scalar(lib, value)))
            for value in (literal(given, types[condition.column]) for given in condition.values)
        ]
        joined = _joined(operation, operators.NULL_LOGICAL_OR, tests)
        if condition.operator != "not in":
            return joined
        joined = _joined(operation, operators.NULL_LOGICAL_AND, tests)
        return operation(operators.NULL_LOGICAL_OR, operation(operators.IS_NULL, column), joined)

    return _joined(
        operation,
        operators.NULL_LOGICAL_OR,
        [_joined(operation, operators.NULL_LOGICAL_AND, list(map(compared, clause))) for clause in clauses],
    )


def _scalar(lib: Libcudf, value: Any) -> Any:
    return lib.plc.Scalar.from_arrow(value)


def _joined(operation: Any, operator: Any, parts: list[Any]) -> Any:
    expression = parts[0]
    for part in parts[1:]:
        expression = operation(operator, expression, part)
    return expression


def new_stream() -> Any:
    streams = load("rmm.pylibrmm.stream", "decoding Parquet on a device")
    return streams.Stream(flags=streams.CudaStreamFlags.NON_BLOCKING)


@contextmanager
def current_device(ordinal: int) -> Iterator[None]:
    """Makes a device CUDA's current one for this thread."""
    gpu = load("rmm._cuda.gpu", "decoding Parquet on a device")
    before = gpu.getDevice()
    gpu.setDevice(ordinal)
    try:
        yield
    finally:
        gpu.setDevice(before)
