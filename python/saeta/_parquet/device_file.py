"""Encodes row groups on a device, by the chunked Parquet writer of pylibcudf."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from saeta._core import Context, Table
from saeta._optional import load
from saeta._parquet.columns import Libcudf
from saeta._parquet.decoder import current_device, new_stream
from saeta._parquet.engine import load_pylibcudf, log_host
from saeta._parquet.footer import without_zones
from saeta._parquet.memory import decoding_memory
from saeta._parquet.types import children
from saeta.errors import Error, MissingDependency, UnsupportedError

if TYPE_CHECKING:
    from saeta._parquet.options import Options

PURPOSE = "encoding Parquet on a device"
CODECS = ("none", "snappy", "zstd", "lz4")
MOST_ROWS = (1 << 31) - 1  # each call writes one row group, whatever its size
MOST_BYTES = 1 << 62
VALUES = 1  # the child of a list that has its values; the other one has its offsets


class DeviceFile:
    """A Parquet file whose row groups a device encodes, with memory of a context.

    Args:
        put: takes the bytes of the file. It raises nothing: pylibcudf would lose it.
        schema: of pyarrow, for which `reason_for_host` is None.
    """

    def __init__(self, put: Callable[[Any], None], schema: Any, options: Options, ctx: Context) -> None:
        self._plc = load("pylibcudf", PURPOSE)
        load("pylibcudf.io", PURPOSE)
        self._sink = _Sink(put)
        # pylibcudf's writer has a pointer to it, and does not keep it.
        self._sink_info = load("pylibcudf.io", PURPOSE).types.SinkInfo([self._sink])
        self._schema = schema
        self._options = options
        self._ctx = ctx
        self._ordinal = int(ctx.device.partition(":")[2] or 0)
        self._memory = decoding_memory(self._ordinal, load("rmm", PURPOSE).mr)
        self._stream: Any = None
        self._writer: Any = None

    def write(self, rows: Table) -> None:
        """Writes a row group. The rows are of the context, or of another one, from which they are copied.

        UnsupportedError if cuDF can't. Nothing of the file was put if that is its first row group.
        """
        if rows.context.device != self._ctx.device:
            rows = rows.to(self._ctx)
        rows = rows.combine_chunks()
        self._memory.begin()
        try:
            with current_device(self._ordinal), self._memory.of(self._ctx) as resource:
                if self._stream is None:
                    self._stream = new_stream()
                lib = Libcudf(self._plc, self._stream, resource)
                try:
                    self._encode(lib, rows)
                finally:
                    self._stream.synchronize()
        except (Error, MemoryError):
            raise
        except Exception as failure:  # pylibcudf's, which has no class of its own
            text = str(failure) or type(failure).__name__
            raise UnsupportedError(f"cuDF can't encode the rows: {text}") from failure
        finally:
            self._memory.end()
        self._sink.release()

    def __del__(self) -> None:
        self._writer = None  # it writes to the sink once more when it ends

    def close(self) -> None:
        """Writes the end of the file."""
        self._sink.is_held = True
        with current_device(self._ordinal):
            self._writer.close([])
        self._writer = None
        self._sink.held = [without_zones(b"".join(self._sink.held), list(_leaves_without_zone(self._schema)))]
        self._sink.release()

    def _encode(self, lib: Libcudf, rows: Table) -> None:
        shown = _Exported(exported_schema(self._schema), rows.__arrow_c_device_array__()[1])
        table = lib.plc.Table.from_arrow(shown, stream=lib.stream, mr=lib.mr)
        if self._writer is None:
            self._writer = self._begin(lib, table)
        self._writer.write(table)

    def _begin(self, lib: Libcudf, table: Any) -> Any:
        plc = lib.plc.io
        metadata = plc.types.TableInputMetadata(table)
        for column, field in zip(metadata.column_metadata, self._schema, strict=True):
            _describe(column, field)
        options = (
            plc.parquet.ChunkedParquetWriterOptions.builder(self._sink_info)
            .metadata(metadata)
            .key_value_metadata([key_values(self._schema)])
            .compression(getattr(plc.types.CompressionType, self._options.compression.upper()))
            .row_group_size_rows(MOST_ROWS)
            .row_group_size_bytes(MOST_BYTES)
            .write_arrow_schema(False)
            .build()
        )
        policy = "ADAPTIVE" if self._options.use_dictionary else "NEVER"
        options.set_dictionary_policy(getattr(plc.types.DictionaryPolicy, policy))
        return plc.parquet.ChunkedParquetWriter.from_options(options, lib.stream)


class _Sink(io.RawIOBase):
    """The file object that pylibcudf writes to. What is written first is held until `release`."""

    def __init__(self, put: Callable[[Any], None]) -> None:
        self.held: list[bytes] = []
        self.is_held = True
        self._put = put
        self._written = 0

    def release(self) -> None:
        """Passes on what is held, and what follows."""
        held, self.held, self.is_held = self.held, [], False
        for piece in held:
            self._put(piece)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if self.is_held:
            self.held.append(bytes(data))
        else:
            self._put(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        pass


class _Exported:
    """A table as pylibcudf imports it, with types that cuDF knows for the same bytes."""

    def __init__(self, schema: Any, array: Any) -> None:
        self._schema = schema
        self._array = array

    def __arrow_c_device_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]:
        return self._schema.__arrow_c_schema__(), self._array


def is_cuda(ctx: Context) -> bool:
    return ctx.device.startswith("cuda:")


def reason_for_host(schema: Any, options: Options, ctx: Context) -> str | None:
    """Returns why the host encodes tables of a context, None if its device can.

    A device encodes types that a reader of the file gets back as they are, as pyarrow writes them.

    Raises:
        MissingDependency: pylibcudf is not installed.
    """
    if not is_cuda(ctx):
        return f"the table is of '{ctx.device}', not of a CUDA device"
    if options.compression not in CODECS:
        return f"compression {options.compression!r}, which cuDF does not write"
    if options.compression_level is not None:
        return "compression_level, which cuDF has not"
    if not isinstance(options.use_dictionary, bool):
        return "use_dictionary names columns, and cuDF has dictionaries for all columns or none"
    if not schema.names:
        return "there are no columns"
    if any(_undecodable(text) for pair in (schema.metadata or {}).items() for text in pair):
        return "metadata of the schema that is not text"
    for field in schema:
        reason = _reason_of(field)
        if reason is not None:
            return f"column '{field.name}' of type {field.type}: cuDF does not write {reason}"
    load_pylibcudf(PURPOSE)
    parquet = load("pylibcudf.io", PURPOSE).parquet
    if not hasattr(parquet, "ChunkedParquetWriter"):
        return "this pylibcudf has no ChunkedParquetWriter"
    is_supported = getattr(parquet, "is_supported_write_parquet", None)
    codec = getattr(load("pylibcudf.io", PURPOSE).types.CompressionType, options.compression.upper())
    if is_supported is not None and not is_supported(codec):
        return f"compression {options.compression!r}, which this cuDF does not write"
    return None


def context_to_encode(rows: Table, schema: Any, options: Options) -> Context | None:
    """Returns the context whose device encodes the rows and those that follow. None: the host does.

    Raises:
        UnsupportedError, MissingDependency: `options.engine` is "device", and something needs the host.
    """
    ctx = rows.context
    if options.engine == "host" or (options.engine is None and ctx.device == "host"):
        return None
    try:
        reason = reason_for_host(schema, options, ctx)
    except (MissingDependency, UnsupportedError) as failure:
        if options.engine is not None:
            raise
        reason = str(failure)
    if reason is None:
        return ctx
    if options.engine is not None:
        raise UnsupportedError(f"engine='device' can't write Parquet: {reason}")
    log_host(reason, does="encodes")
    return None


def exported_schema(schema: Any) -> Any:
    """Returns a schema with types that cuDF has for the same bytes: text for bytes, and other times."""
    pyarrow = load("pyarrow", PURPOSE)
    return pyarrow.schema([field.with_type(_exported_type(field.type)) for field in schema])


def key_values(schema: Any) -> dict[str, str]:
    """Returns the metadata of a file, with the Arrow schema as pyarrow stores it."""
    given = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    return {**given, "ARROW:schema": b64encode(schema.serialize()).decode()}


def _exported_type(type: Any) -> Any:  # noqa: A002 - lexicon's word
    pyarrow = load("pyarrow", PURPOSE)
    types = pyarrow.types
    if types.is_binary(type):
        return pyarrow.string()
    if types.is_large_binary(type):
        return pyarrow.large_string()
    if types.is_duration(type):  # cuDF would write a time of day
        return pyarrow.int64()
    if types.is_time64(type):
        return pyarrow.duration(type.unit)
    if types.is_timestamp(type):
        return pyarrow.timestamp(type.unit)
    if types.is_list(type):
        return pyarrow.list_(type.value_field.with_type(_exported_type(type.value_type)))
    if types.is_struct(type):
        return pyarrow.struct([field.with_type(_exported_type(field.type)) for field in children(type)])
    return type


def _reason_of(field: Any) -> str | None:
    pyarrow = load("pyarrow", PURPOSE)
    types, type = pyarrow.types, field.type  # noqa: A001 - lexicon's word
    if hasattr(type, "storage_type"):
        return "extension types"
    if types.is_list(type) or types.is_struct(type):
        if field.nullable:  # in Arrow there may be values below a null, and cuDF writes them
            return "nested values that may be null"
        return next(filter(None, map(_reason_of, children(type))), None)
    known = (
        types.is_boolean,
        types.is_integer,
        types.is_float32,
        types.is_float64,
        types.is_date32,
        types.is_time64,
        types.is_timestamp,
        types.is_duration,
        types.is_decimal128,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
    )
    return None if any(is_type(type) for is_type in known) else "this type so that it comes back"


def _leaves_without_zone(schema: Any) -> Iterator[bool]:
    """Yields for each column without children whether it is a time or a timestamp without a zone."""
    types = load("pyarrow", PURPOSE).types

    def leaves(type: Any) -> Iterator[Any]:  # noqa: A002
        if type.num_fields == 0:
            yield type
        for field in children(type):
            yield from leaves(field.type)

    for field in schema:
        for leaf in leaves(field.type):
            yield types.is_time64(leaf) or (types.is_timestamp(leaf) and leaf.tz is None)


def _describe(column: Any, field: Any) -> None:
    """Sets what cuDF does not know of a column: a ColumnInMetadata of pylibcudf."""
    types = load("pyarrow", PURPOSE).types
    column.set_name(field.name)
    column.set_nullability(field.nullable)
    if types.is_decimal(field.type):
        column.set_decimal_precision(field.type.precision)
    elif types.is_binary(field.type) or types.is_large_binary(field.type):
        column.set_output_as_binary(True)
    elif types.is_list(field.type):
        _describe(column.child(VALUES), field.type.value_field.with_name("element"))
    elif types.is_struct(field.type):
        for number, inside in enumerate(children(field.type)):
            _describe(column.child(number), inside)


def _undecodable(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False
