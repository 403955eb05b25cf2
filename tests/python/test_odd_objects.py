"""Arguments that are almost valid and libraries that are almost supported: the exact errors and
conversions."""

from __future__ import annotations

import errno
import os
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta import _core, _libarrow, exchange, xlog
from saeta._convert import (
    build,
    exact_arrays,
    exact_values,
    from_numpy,
    from_tensors,
    to_libraries,
    to_python,
    types,
)
from saeta._files import parquet, scan, sources
from saeta._metadata import Metadata, pairs_of
from saeta._report import display, info


class WithoutSchema:
    """An Arrow type that implements only `__arrow_c_schema__`."""

    def __init__(self, given):
        self._given = given

    def __arrow_c_schema__(self):
        return self._given.__arrow_c_schema__()


def test_a_column_name_is_text_or_a_field(host):
    with pytest.raises(sa.TypeMismatch, match="a column's name is of type int, expected text or a Field"):
        build.as_column(3, [1], host)


def test_types_and_fields_are_accepted_as_types():
    given = sa.DataType("int32")
    assert types.data_type(given) is given
    assert types.data_type(WithoutSchema(pa.int16())) == "int16"
    field = sa.field("a", "int32", nullable=False)
    assert types.parts_of(field) == ([field], None)
    with pytest.raises(sa.TypeMismatch, match="int is not a type: expected text in Arrow's words"):
        types.data_type(3)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("decimal128(10, 2)", "d:10,2"),
        ("decimal32(9, 2)", "d:9,2,32"),
        ("decimal64(18, -3)", "d:18,-3,64"),
        ("decimal256(40, 4)", "d:40,4,256"),
        ("fixed_size_binary[7]", "w:7"),
        ("time32[s]", "tts"),
        ("time32[ms]", "ttm"),
        ("time64[us]", "ttu"),
        ("time64[ns]", "ttn"),
        ("timestamp[us]", "tsu:"),
        ("timestamp[ms, tz=+01:00]", "tsm:+01:00"),
        ("duration[ns]", "tDn"),
        ("date32[day]", "tdD"),
        ("date64[ms]", "tdm"),
        ("month_interval", "tiM"),
        ("halffloat", "e"),
    ],
)
def test_names_of_types_have_their_formats(name, format):  # noqa: A002 - the word of the lexicon
    data_type = sa.DataType(name)
    assert (data_type.format, data_type.name) == (format, name)
    assert sa.DataType(data_type.name) == data_type
    for wrong in ("time32[us]", "time64[ms]", "date32[ms]", "duration[us, tz=UTC]", "decimal(3, 1)"):
        with pytest.raises(sa.InvalidError, match="is not a type: expected Arrow's words for one"):
            sa.DataType(wrong)


def test_arrays_of_bytes_of_one_length_are_fixed_size_binaries(host):
    column = sa.column(np.array([b"ab", b"c"], "V2"), host, name="b")
    assert column.type == "fixed_size_binary[2]"
    assert column.to_pylist() == [b"ab", b"c\0"]
    with pytest.raises(sa.TypeMismatch, match="column 'b': its values have the fields x, y: name a struct"):
        sa.column(np.zeros(1, [("x", "i4"), ("y", "f4")]), host, name="b")


def test_the_error_for_uninferable_values_has_pyarrows_message(host):
    with pytest.raises(sa.InvalidError, match=r"^column 't': "):
        exact_arrays._infer_type("t", np.array([3], "m8[M]"))


def test_values_of_no_common_type_are_refused(host):
    with pytest.raises(sa.InvalidError, match=r"^column 'x': "):
        sa.column([1, "a", object()], host, name="x")


def test_not_a_time_is_a_null(host):
    assert exact_values._is_not_a_time(np.datetime64("NaT"))
    assert exact_values._is_not_a_time(np.timedelta64("NaT"))
    assert not exact_values._is_not_a_time(np.datetime64("2020-01-01"))
    assert not exact_values._is_not_a_time(float("nan"))


@pytest.mark.parametrize(
    ("device", "number"),
    [
        (None, 0),
        (SimpleNamespace(id=3), 3),
        (SimpleNamespace(index=2), 2),
        (SimpleNamespace(id="x", index=1), 1),
        (SimpleNamespace(index=None), 0),
    ],
)
def test_the_device_ordinal_is_read_from_each_frameworks_attribute(device, number):
    assert from_tensors._ordinal(SimpleNamespace(device=device)) == number


def test_the_reason_to_copy_an_array_names_sizes():
    values = np.zeros(40, "u1")
    assert from_numpy._reason_to_copy(values) is None
    assert from_numpy._reason_to_copy(np.zeros(3, ">i4")) == "has values in another byte order"
    assert from_numpy._reason_to_copy(values[1:9].view("i4")) == "is not aligned to its values of 4 bytes"
    steps = SimpleNamespace(
        dtype=np.dtype("i4"), flags=SimpleNamespace(aligned=True), strides=(6,), shape=(3,)
    )
    assert from_numpy._reason_to_copy(steps) == (
        "has strides of (6,) bytes, which are not multiples of its values of 4 bytes"
    )
    steps.shape = (1,)
    assert from_numpy._reason_to_copy(steps) is None
    steps.shape, steps.strides = (2,), (8,)
    assert from_numpy._reason_to_copy(steps) is None


def test_a_table_converts_to_a_jax_matrix(host):
    jax = pytest.importorskip("jax")
    table = sa.table({"a": np.arange(3, dtype="f4"), "b": np.arange(3, 6, dtype="f4")}, host)
    made = table.to_jax()
    assert isinstance(made, jax.Array)
    assert made.tolist() == [[0, 3], [1, 4], [2, 5]]
    del made


def test_the_error_names_a_missing_library_and_its_use(host, monkeypatch):
    column = sa.column([1], host, name="a")
    table = sa.table({"a": [1]}, host)
    for name in ("jax", "torch", "cupy", "pandas", "polars", "numba.cuda"):
        monkeypatch.setitem(sys.modules, name, None)
        library = name.partition(".")[0]
        for source, kind in ((column, "Column"), (table, "Table")):
            if hasattr(source, f"to_{library}"):
                with pytest.raises(sa.MissingDependency, match=rf"{kind}\.to_{library} needs {library}: "):
                    getattr(source, f"to_{library}")(**({"fill": 0} if library == "torch" else {}))


def test_np_asarray_of_a_device_column_is_refused():
    column = SimpleNamespace(device="cuda:0", name="a")
    with pytest.raises(sa.TypeMismatch, match=r"column 'a' is on cuda:0: call to_numpy\(\) to download it"):
        to_libraries.column_array(column)


def test_intervals_are_numbers_or_tuples():
    months = to_python.decoder_of(
        SimpleNamespace(value_type=None, is_bool8=False, extension_name="", symbol_table=None, format="tiM")
    )
    assert months(struct.pack("<i", -14)) == -14
    days = to_python.decoder_of(
        SimpleNamespace(value_type=None, is_bool8=False, extension_name="", symbol_table=None, format="tiD")
    )
    assert days(struct.pack("<ii", 3, -7)) == to_python.DayTime(3, -7) == (3, -7)
    assert to_python._text_of_object(to_python.DayTime(3, -7)) == "3d -7ms"
    assert to_python._text_of_object(to_python.MonthDayNano(1, 2, 3)) == "1M 2d 3ns"
    with pytest.raises(sa.UnsupportedError, match="values of Arrow format 'q' can't be converted"):
        to_python._decoder_of_format("q")


def test_without_pandas_nanoseconds_are_refused_and_others_are_exact(host, monkeypatch):
    monkeypatch.setattr(to_python, "_pandas", lambda: None)
    even = sa.from_arrow(pa.array([2_000, None], pa.timestamp("ns")), host, as_column=True)
    assert even.to_pylist()[0].microsecond == 2
    assert sa.from_arrow(pa.array([2_000], pa.duration("ns")), host, as_column=True)[0].microseconds == 2
    odd = sa.from_arrow(pa.array([1_501], pa.timestamp("ns")), host, as_column=True)
    with pytest.raises(sa.InvalidError, match=r"1501 of type timestamp\[ns\]: Python's datetime has only"):
        odd.to_pylist()


def test_a_missing_pandas_is_looked_up_once(monkeypatch):
    to_python._pandas.cache_clear()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert to_python._pandas() is None
    to_python._pandas.cache_clear()


@pytest.mark.parametrize(
    ("zone", "minutes"), [("+01:30", 90), ("-01:30", -90), ("+0200", 120), ("-10:00", -600)]
)
def test_utc_offsets_are_time_zones(zone, minutes):
    assert to_python._zone(zone, "t").utcoffset(None).total_seconds() == 60 * minutes


def test_the_error_names_an_unknown_time_zone():
    for zone in ("Nowhere/Town", "+99:00", "+x:00"):
        with pytest.raises(sa.InvalidError, match="Python does not know the time zone of type t; to_arrow"):
            to_python._zone(zone, "t")


def test_a_file_system_needs_a_path(tmp_path):
    with pytest.raises(sa.TypeMismatch, match="filesystem is for a path, and source is of type bytes"):
        sources.resolve_source(b"ARROW1", filesystem=object())
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    os.chmod(fifo, 0)  # noqa: PTH101 - a Path does the same
    if os.geteuid() != 0:
        with pytest.raises(sa.FileError, match=rf"can't open '{fifo}': Permission denied \(errno 13\)"):
            sources.resolve_source(str(fifo))


def test_read_functions_without_a_size_are_recognised():
    assert sources._takes_a_size(lambda size=-1: b"")
    assert not sources._takes_a_size(lambda: b"")


def test_sources_of_parquet_are_named_without_secrets():
    assert "secret" not in sources.name_of("s3://key:secret@bucket/a.parquet")
    assert sources.name_of("a.parquet") == "a.parquet"
    with (
        pytest.raises(sa.FileError, match=r"can't read 'a\.parquet': .*no luck"),
        parquet.naming_failures("a.parquet", "a test"),
    ):
        raise OSError(errno.EIO, "no luck")
    with pytest.raises(sa.FormatError, match=r"^'a': no luck"), parquet.naming_failures(["a"], "a test"):
        raise pa.ArrowInvalid("no luck")
    with (
        pytest.raises(sa.FormatError, match=r"^'a' or the file behind it: no"),
        parquet.naming_failures(["a", "b"], "a test"),
    ):
        raise OSError("no luck")  # as pyarrow's decoder
    with pytest.raises(sa.MissingFileError, match="gone"), parquet.naming_failures("a", "a test"):
        raise FileNotFoundError("gone")


def test_the_repr_of_a_scan_shows_its_size():
    made = scan.Scan.__new__(scan.Scan)
    for number, text in ((-1, "a stream"), (0, "0 batches"), (3, "3 batches")):
        made._num_batches = number
        assert repr(made) == f"<saeta.Scan of {text}>"


def test_metadata_is_text_or_bytes():
    assert len(Metadata([(b"a", b"1"), (b"a", b"2"), (b"b", b"3")])) == 2
    with pytest.raises(sa.TypeMismatch, match="metadata: 3 is neither text nor bytes"):
        pairs_of({"a": 3})
    with pytest.raises(sa.TypeMismatch, match="metadata is of type int, expected a mapping of text or bytes"):
        pairs_of(3)
    with pytest.raises(sa.InvalidError, match="keys that begin with ARROW:extension: belong to the type"):
        pairs_of([("ARROW:extension:name", "x")])
    assert 3 not in Metadata([(b"a", b"1")])
    assert pairs_of(None) == []


def test_errors_explain_unsupported_library_releases():
    wanted = ImportError("libarrow_python.so.2500: cannot open shared object file")
    text = str(_libarrow._explain(wanted, "a test", "26.0.1"))
    assert text == (
        "a test: saeta's module was built with pyarrow 25.0, but pyarrow 26.0.1 is installed, whose libarrow "
        "has another name: pip install 'pyarrow==25.0.*'"
    )
    assert "built with pyarrow 9.0," in str(_libarrow._explain(ImportError("libarrow.so.900"), "x", "26"))
    assert str(_libarrow._explain(ImportError("no module"), "a test", "26")) == (
        "this build of saeta has no working module for a test: no module"
    )


def test_a_module_for_another_pyarrow_is_missing(monkeypatch):
    assert _libarrow.load("_bridge", "a test").__name__ == "saeta._bridge"
    monkeypatch.setattr(pa, "__version__", "99.1.0")
    with pytest.raises(sa.MissingDependency, match=r"works with pyarrow \d+, but pyarrow 99\.1\.0 is"):
        _libarrow.load("_bridge", "a test")
    monkeypatch.setattr(pa, "__version__", "26")
    with pytest.raises(sa.MissingDependency, match="no working module for a test"):
        _libarrow.load("_no_such_module", "a test")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sa.MissingDependency, match="a test needs the libarrow of pyarrow"):
        _libarrow.load("_bridge", "a test")


def test_info_says_what_is_missing(monkeypatch):
    def missing(*_):
        raise sa.MissingDependency("no such module")

    monkeypatch.setattr(info._libarrow, "load", missing)
    assert info._bridge_state() == {
        "usable": False,
        "built_for": None,
        "loaded": None,
        "missing": "no such module",
    }
    assert info._version_of(("no-such-distribution", "numpy")) == np.__version__
    assert info._version_of(("no-such-distribution",)) is None
    assert info._missing({"a": "", "b": "left out"}, {"numpy": "1", "torch": None}) == [
        {"part": "b", "why": "left out"},
        {"part": "torch", "why": "not installed (pip install torch)"},
    ]


def test_a_repr_shows_no_values_while_downloads_are_forbidden():
    from sim_devices import simulator

    ctx = simulator().Device(0).context
    table = sa.table({"a": [1, 2]}, ctx)
    with ctx.forbid_downloads():
        assert repr(table).count(display.FORBIDDEN) == 1
        assert display.FORBIDDEN in repr(table["a"])
        assert display.FORBIDDEN in table["a"]._repr_html_()
    assert "1, 2" in repr(table)


def test_a_timeline_needs_a_recording(host, tmp_path):
    with pytest.raises(sa.TypeMismatch, match="recording is of type list, expected a MemoryRecording"):
        host.memory.timeline(tmp_path / "page.html", [])
    with pytest.raises(sa.InvalidError, match=r"nothing was recorded: record with memory\.record"):
        host.memory.timeline(tmp_path / "page.html")


def test_dlpack_device_types_map_to_contexts(monkeypatch):
    monkeypatch.setattr(_core, "context", lambda name: name)
    assert exchange._context_of((1, 0)) == exchange._context_of((3, 0)) == "host"
    assert exchange._context_of((2, 3)) == exchange._context_of((13, 3)) == "cuda:3"
    with pytest.raises(
        sa.ExchangeError, match=r"the tensor is on device type 7: only CPU \(1\) and CUDA \(2, 3, 13\) are"
    ):
        exchange._context_of((7, 0))


def test_memory_of_xlog_is_counted_in_mib(host):
    limited = xlog._context("host", 3)
    assert limited.memory.statistics()["limit"] == 3 << 20
    assert xlog._context("host", None) == host
    for kind, expected in ((1, False), (2, True), (3, False), (13, True)):
        assert xlog.dlpack_is_cuda(SimpleNamespace(__dlpack_device__=lambda kind=kind: (kind, 0))) is expected
    with pytest.raises(
        sa.TypeMismatch, match="int has no __dlpack_device__ and is not a capsule of a tensor"
    ):
        xlog.dlpack_is_cuda(3)


def test_xlogs_helper_accepts_only_structs(host):
    with pytest.raises(
        sa.TypeMismatch, match="the data is of type int64, expected an array or a stream of st"
    ):
        xlog.import_arrow_device(pa.array([1]), device="host")


def test_arrays_of_a_use_token_export_their_memory():
    from saeta import _use

    class Token:
        is_open = True
        waits = 0

        def writable(self, memory):
            return memory == "mine"

        def pointer(self, memory):
            return 4096

        def synchronize(self):
            self.waits += 1

    token = Token()
    lent = _use.BorrowedOnDevice(token, "mine", "<f4", 5)
    assert len(lent) == 5
    assert lent.__cuda_array_interface__ == {
        "version": 3,
        "shape": (5,),
        "typestr": "<f4",
        "data": (4096, False),
        "strides": None,
        "stream": None,
    }
    assert not hasattr(lent, "__array_interface__")
    both = _use.BorrowedOnBoth(token, "theirs", "<f4", 5)
    assert token.waits == 0
    assert both.__array_interface__["data"] == (4096, True)
    assert token.waits == 1, "the CPU must wait for the token's stream"
    assert both.__cuda_array_interface__["data"] == (4096, True)
    token.is_open = False
    for read in (lambda: lent.__cuda_array_interface__, lambda: both.__array_interface__):
        with pytest.raises(sa.ClosedError, match="this array was lent by a token that has ended"):
            read()
    with pytest.raises(sa.ClosedError):
        _use.BorrowedOnHost(token, "mine", "<f4", 5)


@pytest.mark.parametrize(
    ("kind", "number"), [("host", 1), ("pinned", 3), ("managed", 13), ("device", 2), ("device", 8)]
)
def test_the_kind_of_a_columns_memory_follows_its_dlpack_device(kind, number):
    from saeta import _use

    assert _use._kind(SimpleNamespace(__dlpack_device__=lambda: (number, 0))) == kind


@pytest.mark.parametrize(
    ("dtype", "typestr"),
    [
        ("u1", "|u1"),
        ("i4", "<i4"),
        ("uint16", "<u2"),
        ("float16", "<f2"),
        ("float64", "<f8"),
        ("int8", "|i1"),
        ("bool", "|b1"),
        (np.float32, "<f4"),
        ("c8", "<c8"),
        ("i", "<i4"),
    ],
)
def test_dtypes_map_to_typestrs(dtype, typestr):
    from saeta import _use

    size = np.dtype(typestr).itemsize
    assert _use._element(dtype) == (typestr, size, size)


def test_arrays_of_a_use_token_need_whole_aligned_elements(host):
    block = host.allocate(10)
    with sa.use(reads=[block]) as token:
        assert len(token.array(block)) == 10
        assert len(token.array(block, "i2")) == 5
        with pytest.raises(sa.InvalidError, match="10 bytes are not a whole number of elements of 4 bytes"):
            token.array(block, "i4")
    part = block[1:9]
    with (
        sa.use(reads=[part]) as token,
        pytest.raises(sa.InvalidError, match=r"address 0x\w+1 is not aligned to elements of 2 bytes"),
    ):
        token.array(part, "i2")
    column = sa.column([1, None, 3], host, name="n")
    text = sa.column(["a"], host, name="s")
    with sa.use(reads=[column, text]) as token:
        with pytest.raises(sa.ExchangeError, match="column 'n' has 1 nulls, which an array can't represent"):
            token.array(column)
        with pytest.raises(sa.TypeMismatch, match="column 's' of type string is not an array of numbers"):
            token.array(text)
    whole = sa.column([1, 3], host, name="n", type="int16")
    with sa.use(reads=whole) as token:
        assert len(token.array(whole, "int16")) == 2
        with pytest.raises(sa.TypeMismatch, match="column 'n' has elements of <i2, not <i4"):
            token.array(whole, "i4")


def test_arrays_of_empty_or_object_dtypes_are_refused(host):
    block = host.allocate(16)
    with sa.use(reads=[block]) as token:
        for dtype in (np.dtype((np.int32, (0,))), "S0", "U0", np.dtype([]), "V0", object, "O"):
            with pytest.raises(sa.InvalidError, match="is not a type of elements in memory"):
                token.array(block, dtype)


def test_the_length_of_an_array_follows_the_dtypes_size(host):
    block = host.allocate(48)
    with sa.use(reads=[block]) as token:
        for dtype in ("U4", "S3", "M8[ns]", "c16", ">i4", np.dtype((np.int32, (2,))), np.dtype("i4, f8")):
            lent = token.array(block, dtype)
            assert len(lent) == 48 // np.dtype(dtype).itemsize
            assert np.asarray(lent).nbytes == 48
    empty = host.allocate(0)
    with sa.use(reads=[empty]) as token:
        assert np.asarray(token.array(empty, "f4")).shape == (0,)


def test_times_are_formatted_with_sign_and_all_digits():
    def text(format, count):  # noqa: A002 - the word of the lexicon
        return to_python._text_of_temporal(format, struct.pack("<q", count))

    assert text("tDs", -90) == "-90 s"
    assert text("tDm", -1_500) == "-1.500 s"
    assert text("tDu", 1_500_001) == "1.500001 s"
    assert text("tDn", -1) == "-0.000000001 s"
    assert text("ttu", 3_723_000_007) == "01:02:03.000007"
    assert text("tts", 3_723) == "01:02:03"
    assert text("tsm:", 1) == "1970-01-01 00:00:00.001"
    assert text("tsm:", -1) == "1969-12-31 23:59:59.999"
    assert text("tsn:UTC", 5) == "1970-01-01 00:00:00.000000005Z"
    assert text("tdD", 5) is None


def test_the_repr_of_a_column_shows_its_number_of_chunks(host):
    one = sa.column([1, 2], host, name="n", type="int8")
    assert repr(one) == "<saeta.Column 'n': int8 on host, 2 rows, 2 B>\n  1, 2"
    two = sa.Column.from_chunks([one, one])
    assert repr(two) == "<saeta.Column 'n': int8 on host, 4 rows in 2 chunks, 4 B>\n  1, 2, 1, 2"


def test_the_values_of_a_masked_array_are_a_plain_ndarray():
    class Own(np.ndarray):
        pass

    values = np.arange(3).view(Own)
    assert type(from_numpy.plain(np.ma.array(values, mask=[0, 1, 0]))) is np.ndarray
    assert from_numpy.plain(values) is values
    assert from_numpy.mask_of(np.ma.array([1, 2])) is None
    assert from_numpy.mask_of(np.ma.array([1, 2], mask=[False, False])) is None
    assert from_numpy.mask_of(np.ma.array([1, 2], mask=[False, True])).tolist() == [False, True]
    fields = np.ma.array(np.zeros(1, [("x", "i4"), ("y", "i4")]), mask=[(True, False)])
    with pytest.raises(
        sa.TypeMismatch, match="the mask of a NumPy array has the fields x, y, and only whole"
    ):
        from_numpy.mask_of(fields)


def test_iterating_a_column_decodes_growing_blocks(monkeypatch):
    blocks = []
    monkeypatch.setattr(to_python, "column_list", lambda part: [part])
    monkeypatch.setattr(to_python, "LARGEST_BLOCK", 300)

    class Rows:
        def __len__(self):
            return 1000

        def slice(self, start, length):
            blocks.append((start, length))
            return start

    assert list(to_python.column_iter(Rows())) == [0, 64, 192, 448, 748]
    assert blocks == [(0, 64), (64, 128), (192, 256), (448, 300), (748, 252)]
