"""A collection of small Parquet files by many writers, which both engines must read alike.

`COLLECTION` has a function for each file. It gets the path, and skips the test if its writer is missing.
`ON_HOST` names the files with a column that cuDF can't give back. `skip_unreadable` skips the test of a file
that the installed pyarrow can write and can't read.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 1000
Write = Callable[[Path], None]

COLLECTION: dict[str, Write] = {}
ON_HOST: set[str] = set()


def with_nulls(values: list[Any], every: int = 7) -> list[Any]:
    return [None if number % every == 3 else value for number, value in enumerate(values)]


def numbers(count: int = ROWS) -> list[int]:
    return [number * 7919 % 1009 - 500 for number in range(count)]


def moments() -> list[datetime.datetime]:
    return [datetime.datetime(2024, 2, 28) + datetime.timedelta(minutes=value) for value in numbers()]


NUMBERS = with_nulls(numbers())
WORDS = with_nulls([f"word {value % 50} é" for value in numbers()], 5)
DECIMALS = with_nulls([decimal.Decimal(value).scaleb(-2) for value in numbers()])
LISTS = with_nulls([list(range(value % 4)) for value in numbers()], 11)
RECORDS = with_nulls([{"first": value, "second": f"s{value}"} for value in numbers()], 13)

COLUMNS: dict[str, pa.Array] = {
    **{
        name: pa.array(with_nulls([abs(value) % 100 for value in numbers()]), name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "largest": pa.array([0, 2**64 - 1] * (ROWS // 2), pa.uint64()),
    "float": pa.array(NUMBERS, pa.float32()),
    "double": pa.array([None if value is None else value / 3 for value in NUMBERS]),
    "nan": pa.array([float("nan"), 1.0, float("inf"), None] * (ROWS // 4)),
    "bool": pa.array(with_nulls([value % 3 == 0 for value in numbers()])),
    "string": pa.array(WORDS),
    "binary": pa.array([None if word is None else word.encode() + b"\xff" for word in WORDS]),
    "large_string": pa.array(WORDS, pa.large_string()),
    "large_binary": pa.array([None if word is None else word.encode() for word in WORDS], pa.large_binary()),
    "empty_strings": pa.array([""] * ROWS),
    "no_values": pa.array([None] * ROWS, pa.string()),
    "date32": pa.array([moment.date() for moment in moments()]),
    "date64": pa.array([moment.date() for moment in moments()], pa.date64()),
    "time32": pa.array(with_nulls([moment.time() for moment in moments()]), pa.time32("ms")),
    "time64": pa.array([moment.time() for moment in moments()], pa.time64("us")),
    "seconds": pa.array(moments(), pa.timestamp("s")),
    "millis": pa.array(with_nulls(moments()), pa.timestamp("ms")),
    "micros": pa.array(moments(), pa.timestamp("us")),
    "nanos": pa.array(moments(), pa.timestamp("ns")),
    "utc": pa.array(moments(), pa.timestamp("us", "UTC")),
    "paris": pa.array(with_nulls(moments()), pa.timestamp("ns", "Europe/Paris")),
    "duration": pa.array(NUMBERS, pa.duration("ms")),
    "decimal_9": pa.array(DECIMALS, pa.decimal128(9, 2)),
    "decimal_18": pa.array(DECIMALS, pa.decimal128(18, 2)),
    "decimal_38": pa.array(DECIMALS, pa.decimal128(38, 2)),
    "decimal32": pa.array(DECIMALS, pa.decimal32(7, 2)),
    "decimal64": pa.array(DECIMALS, pa.decimal64(15, 2)),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "small_dictionary": pa.array(WORDS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    "unsigned_dictionary": pa.array(WORDS).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string())),
    "binary_dictionary": pa.array([b"a", b"b", None, b"\xff"] * (ROWS // 4)).dictionary_encode(),
    "number_dictionary": pa.array(NUMBERS).dictionary_encode(),
    "list": pa.array(LISTS, pa.list_(pa.int32())),
    "large_list": pa.array(LISTS, pa.large_list(pa.int64())),
    "list_of_lists": pa.array([None if one is None else [one, None, []] for one in LISTS]),
    "list_of_words": pa.array([None if word is None else [word, None] for word in WORDS]),
    "list_of_dictionaries": pa.array(
        [None if word is None else [word, None] for word in WORDS],
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ),
    "struct": pa.array(RECORDS),
    "struct_of_all": pa.array(
        [
            None if value is None else {"at": datetime.datetime(2024, 1, 1), "in": {"x": [value]}}
            for value in NUMBERS
        ],
        pa.struct(
            [
                pa.field("at", pa.timestamp("ms", "UTC"), nullable=True, metadata={"unit": "ms"}),
                pa.field("in", pa.struct([pa.field("x", pa.large_list(pa.int16()))])),
            ]
        ),
    ),
    "map": pa.array(
        with_nulls([[(f"k{value % 3}", value), ("none", None)] for value in numbers()]),
        pa.map_(pa.string(), pa.int32()),
    ),
    "json": pa.array(with_nulls([f'{{"x": {value}}}' for value in numbers()]), pa.json_()),
    "null": pa.nulls(ROWS),
}
HOST_COLUMNS: dict[str, pa.Array] = {
    "float16": pa.array([np.float16(1.5), None] * (ROWS // 2)),
    "fixed_binary": pa.array([b"ab", None] * (ROWS // 2), pa.binary(2)),
    "uuid": pa.array([bytes(range(16)), None] * (ROWS // 2), pa.uuid()),
    "string_view": pa.array(WORDS, pa.string_view()),
    "binary_view": pa.array([b"a", None] * (ROWS // 2), pa.binary_view()),
    "list_view": pa.array(LISTS, pa.list_view(pa.int32())),
    "fixed_list": pa.array([[1, 2], None] * (ROWS // 2), pa.list_(pa.int32(), 2)),
    "decimal256": pa.array(DECIMALS, pa.decimal256(50, 2)),
    "ordered": pa.DictionaryArray.from_arrays(pa.array([1, 0] * (ROWS // 2)), ["z", "a"], ordered=True),
    "null_inside": pa.array([{"x": None}] * ROWS, pa.struct([("x", pa.null())])),
}


def skip_unreadable(name: str) -> None:
    if name == "pyarrow: fixed_list" and int(pa.__version__.partition(".")[0]) < 26:
        pytest.skip("pyarrow before 26 takes a null of a fixed-size list in Parquet for an empty list")


def file(name: str, *, on_host: bool = False) -> Callable[[Write], Write]:
    def add(write: Write) -> Write:
        COLLECTION[name] = write
        if on_host:
            ON_HOST.add(name)
        return write

    return add


def _add_column(name: str, array: pa.Array, *, on_host: bool) -> None:
    field = pa.field("x", array.type, metadata={"source": "meter"})

    @file(f"pyarrow: {name}", on_host=on_host)
    def write(path: Path) -> None:
        table = pa.table([array], pa.schema([field], {"source": "here"}))
        pq.write_table(table, path, row_group_size=300)


for name_of_column, values in COLUMNS.items():
    _add_column(name_of_column, values, on_host=False)
for name_of_column, values in HOST_COLUMNS.items():
    _add_column(name_of_column, values, on_host=True)

PLAIN = pa.table(
    {name: COLUMNS[name] for name in ("int64", "double", "string", "list", "struct", "decimal_18")}
)


def _add_options(name: str, table: pa.Table = PLAIN, **options: Any) -> None:
    @file(f"pyarrow, {name}")
    def write(path: Path) -> None:
        pq.write_table(table, path, **options)


for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
    _add_options(f"codec {codec}", compression=codec)
_add_options("no Arrow schema", pa.table(COLUMNS), store_schema=False)
_add_options("every type", pa.table(COLUMNS), row_group_size=128)
_add_options("plain pages", use_dictionary=False)
_add_options("small pages", data_page_size=512, write_page_index=True, row_group_size=400)
_add_options("pages of version 2", data_page_version="2.0", data_page_size=700)
_add_options("version 1.0", PLAIN.select(["int64", "double", "string"]), version="1.0")
_add_options("many row groups", row_group_size=7)
_add_options("int96", pa.table({"x": COLUMNS["nanos"]}), use_deprecated_int96_timestamps=True)
_add_options("decimals as integers", pa.table({"x": COLUMNS["decimal_9"]}), store_decimal_as_integer=True)
_add_options("no statistics", write_statistics=False)
_add_options("no rows", pa.table(COLUMNS).slice(0, 0))
_add_options("lists as in old files", PLAIN.select(["list"]), use_compliant_nested_type=False)
for encoding, column in (
    ("DELTA_BINARY_PACKED", "int64"),
    ("DELTA_LENGTH_BYTE_ARRAY", "string"),
    ("DELTA_BYTE_ARRAY", "string"),
    ("BYTE_STREAM_SPLIT", "double"),
):
    _add_options(
        f"encoding {encoding}",
        PLAIN.select([column]),
        use_dictionary=False,
        column_encoding={column: encoding},
    )


@file("pyarrow, required columns")
def _(path: Path) -> None:
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("words", pa.list_(pa.field("word", pa.string(), nullable=False)), nullable=False),
    ]
    pq.write_table(pa.table([range(ROWS), [["a", "b"]] * ROWS], pa.schema(fields)), path)


@file("pyarrow, empty row groups")
def _(path: Path) -> None:
    with pq.ParquetWriter(path, PLAIN.schema) as writer:
        for rows in (PLAIN.slice(0, 0), PLAIN.slice(0, 10), PLAIN.slice(0, 0), PLAIN.slice(10, 20)):
            writer.write_table(rows)


@file("pandas, with an index")
def _(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"fare": [1.5, 2.5, 3.5], "city": pandas.Categorical(["a", "b", "a"])},
        index=pandas.Index([10, 20, 30], name="id"),
    )
    frame.to_parquet(path)


@file("fastparquet")
def _(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("fastparquet")
    frame = pandas.DataFrame(
        {"n": range(ROWS), "x": np.arange(ROWS) / 3, "word": [f"w{i % 9}" for i in range(ROWS)]}
    )
    frame["at"] = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(frame["n"], unit="s")
    try:
        frame.to_parquet(path, engine="fastparquet", row_group_offsets=300)
    except (ImportError, AttributeError, TypeError, ValueError) as failure:
        pytest.skip(f"fastparquet can't write with this pandas: {failure}")


def _of_polars(**more: Any) -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame(
        {
            "n": NUMBERS,
            "word": WORDS,
            "category": polars.Series(WORDS, dtype=polars.Categorical),
            "list": LISTS,
            "record": RECORDS,
            "at": moments(),
            "time": [moment.time() for moment in moments()],
            "took": [datetime.timedelta(seconds=value) for value in numbers()],
            "price": DECIMALS,
            "bytes": [b"x", None] * (ROWS // 2),
            "yes": [True, None] * (ROWS // 2),
            **more,
        }
    )


for codec in ("uncompressed", "snappy", "zstd", "lz4", "gzip"):

    @file(f"polars, {codec}")
    def _(path: Path, codec: Any = codec) -> None:
        _of_polars().write_parquet(path, compression=codec, row_group_size=300)


@file("polars, ordered categories", on_host=True)
def _(path: Path) -> None:
    polars = pytest.importorskip("polars")
    _of_polars(kind=polars.Series(["b", "a"] * (ROWS // 2), dtype=polars.Enum(["b", "a"]))).write_parquet(
        path
    )


DUCKDB = """
    select i, i::varchar || ' é' as word, [i, null] as list, {'a': i, 'b': i::varchar} as record,
    map {i: 'x'} as map, i::decimal(9, 2) as d9, i::decimal(18, 2) as d18, i::decimal(38, 2) as d38,
    date '2024-01-01' + i::int as day, timestamp '2024-01-01' as at, timestamptz '2024-01-01' as zoned,
    time '01:00' as time, i::ubigint as unsigned, 'x'::blob as bytes, i % 2 = 0 as even, i::float as real,
    'a'::enum('a', 'b') as kind, case when i % 3 = 0 then null else i end as nulls
"""


@file("DuckDB")
def _(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = f"{DUCKDB} from range(1000) r(i)"
    duckdb.sql(f"copy ({query}) to '{path}' (format parquet, row_group_size 512, codec zstd)")


@file("DuckDB, version 2")
def _(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = f"{DUCKDB} from range(1000) r(i)"
    duckdb.sql(f"copy ({query}) to '{path}' (format parquet, parquet_version v2)")


@file("DuckDB, identifiers", on_host=True)
def _(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql(f"copy (select uuid() as id from range(10)) to '{path}' (format parquet)")


@file("arro3")
def _(path: Path) -> None:
    io = pytest.importorskip("arro3.io")
    io.write_parquet(PLAIN, path)


@file("DataFusion")
def _(path: Path) -> None:
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    frame = context.from_arrow(PLAIN.select(["int64", "double", "list"]))
    folder = path.with_name("folder")  # a name with an ending would be that of a file
    frame.write_parquet(str(folder))
    (only,) = [file for file in sorted(folder.rglob("*.parquet")) if pq.read_metadata(file).num_rows]
    path.write_bytes(only.read_bytes())
