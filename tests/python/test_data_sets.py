"""Data sets: several files read as one, given as lists, globs, folders and URLs, and files with different
schemas."""

from __future__ import annotations

import io
import itertools
import socket
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

import arrow_data
import saeta as sa
from saeta._files.data_sets import IPC_ENDINGS, list_sources
from saeta._files.readers import ReadArguments, open_reader
from sim_devices import DEVICES, contexts_of

NUMBERS = pa.schema([("n", pa.int64())])


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def write(path, table, *, stream=False, compression=None, rows=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def numbers(first, count, schema=NUMBERS):
    return pa.table({"n": range(first, first + count)}, schema=schema)


@pytest.fixture
def folder(tmp_path):
    """A folder with rows 0 to 9 in "0.arrow", 10 to 19 in "1.arrow" and 20 to 29 in "deep/2.arrows". Batches
    have 4 rows."""
    write(tmp_path / "1.arrow", numbers(10, 10), rows=4)
    write(tmp_path / "0.arrow", numbers(0, 10), rows=4)
    write(tmp_path / "deep" / "2.arrows", numbers(20, 10), rows=4, stream=True)
    write(tmp_path / "_hidden" / "3.arrow", numbers(30, 10))
    write(tmp_path / ".4.arrow", numbers(40, 10))
    (tmp_path / "notes.txt").write_text("no table")
    return tmp_path


def values(table):
    return table["n"].to_pylist()


def scanned(source, device, **options):
    with sa.scan_ipc(source, device, **options) as scan:
        return list(itertools.chain.from_iterable(values(part) for part in scan))


WAYS = {
    "folder": lambda folder, paths: folder,
    "glob": lambda folder, paths: f"{folder}/**/[0-2].arrow*",
    "paths": lambda folder, paths: paths,
    "texts": lambda folder, paths: tuple(map(str, paths)),
    "iterator": lambda folder, paths: iter(paths),
    "mixed": lambda folder, paths: [f"{folder}/[01].arrow", (folder / "deep").as_uri()],
    "url": lambda folder, paths: folder.as_uri(),
    "glob in urls": lambda folder, paths: [f"{folder.as_uri()}/*.arrow", f"{folder.as_uri()}/*/2.arrows"],
    "deep glob in a url": lambda folder, paths: f"{folder.as_uri()}/**/*.arrow*",
    "bytes": lambda folder, paths: [path.read_bytes() for path in paths],
    "objects": lambda folder, paths: [io.BytesIO(path.read_bytes()) for path in paths],
    "nested": lambda folder, paths: [[paths[0]], [[paths[1]], str(paths[2])]],
}


@pytest.mark.parametrize("way", WAYS)
def test_several_sources_can_be_given_in_every_form(device, folder, way):
    if way == "deep glob in a url":  # it would also match the hidden files
        (folder / "_hidden" / "3.arrow").unlink()
        (folder / ".4.arrow").unlink()
    paths = [folder / "0.arrow", folder / "1.arrow", folder / "deep" / "2.arrows"]
    made = WAYS[way]
    assert values(sa.read_ipc(made(folder, paths), device)) == list(range(30))
    assert scanned(made(folder, paths), device) == list(range(30))
    assert scanned(made(folder, paths), device, batch_size=7, window=100, copy=True) == list(range(30))


def test_a_list_keeps_its_order_and_may_repeat(host, folder):
    paths = [folder / "1.arrow", folder / "0.arrow", folder / "1.arrow"]
    for copy in (None, True):
        assert values(sa.read_ipc(paths, host, copy=copy)) == [*range(10, 20), *range(10), *range(10, 20)]


def test_a_file_name_with_glob_characters_is_found(host, tmp_path):
    path = write(tmp_path / "a[1].arrow", numbers(0, 3))
    write(tmp_path / "a1.arrow", numbers(7, 2))
    assert values(sa.read_ipc(path, host)) == [0, 1, 2]
    path.unlink()
    assert values(sa.read_ipc(path, host)) == [7, 8]


def test_sources_without_files_are_a_missing_file_error(host, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for source, text in (
        (tmp_path / "no*.arrow", r"no file matches '.*no\*\.arrow'"),
        (f"{tmp_path.as_uri()}/no*.arrow", "no file matches"),
        (empty, r"folder '.*empty' has no files that end in \.arrow, \.arrows"),
        (empty.as_uri(), "has no files that end in"),
        ([tmp_path / "none.arrow", tmp_path / "other.arrow"], r"none\.arrow"),
    ):
        with pytest.raises(sa.MissingFileError, match=text):
            sa.read_ipc(source, host)
    with pytest.raises(sa.InvalidError, match="the list of sources is empty"):
        sa.read_ipc([], host)


@pytest.mark.parametrize("kind", ["pyarrow", "fsspec"])
def test_folders_and_globs_of_file_systems(host, folder, kind):
    if kind == "pyarrow":
        filesystem, root = pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem()), ""
    else:
        filesystem = pytest.importorskip("fsspec").filesystem("memory")
        root = f"/data-sets-{folder.name}/"
        for name in ("0.arrow", "1.arrow", "deep/2.arrows", "_hidden/3.arrow"):
            filesystem.pipe_file(root + name, (folder / name).read_bytes())
    for source, count in (
        (f"{root}*.arrow", 20),
        (f"{root}d*/2.*", 10),
        (f"{root}[1].arrow", 10),
        ([f"{root}0.arrow", f"{root}1.arrow"], 20),
        (f"{root}deep", 10),
    ):
        assert sa.read_ipc(source, host, filesystem=filesystem).num_rows == count
    if kind == "fsspec":
        assert sa.read_ipc(f"memory:/{root}*.arrow", host).num_rows == 20
        assert sa.read_ipc(f"memory:/{root}deep", host).num_rows == 10
        filesystem.rm(root, recursive=True)


def test_batches_by_number_through_all_files(device, folder):
    parts = [list(range(at, min(at + 4, end))) for end in (10, 20, 30) for at in range(end - 10, end, 4)]
    options = [{"copy": True}, {}] if device.device == "host" else [{}]
    for more in options:
        for wanted, chosen in (
            ([8, 0, 4, 4], [8, 0, 4, 4]),
            (np.array([3, 1]), [3, 1]),
            ([], []),
            (range(2, 5), [2, 3, 4]),
            (range(0, 9, 3), [0, 3, 6]),
            (range(8, -1, -1), list(range(8, -1, -1))),
            ((2, 5), [2, 3, 4]),
            (5, [5]),
        ):
            expected = list(itertools.chain.from_iterable(parts[number] for number in chosen))
            assert values(sa.read_ipc(folder, device, batches=wanted, **more)) == expected
            assert scanned(folder, device, batches=wanted, **more) == expected
            assert scanned(folder, device, batches=wanted, batch_size=3, **more) == expected
        files = f"{folder}/[01].arrow"  # without the stream, whose number of batches is unknown
        assert scanned(files, device, batches=slice(-2, None), **more) == [14, 15, 16, 17, 18, 19]
        assert scanned(files, device, batches=slice(None, None, 4), **more) == [0, 1, 2, 3, 14, 15, 16, 17]
        assert sa.scan_ipc(files, device, batches=[2, 0], **more).num_batches == 2
        assert values(sa.read_ipc(folder / "0.arrow", device, batches=[2, 0], **more)) == [8, 9, 0, 1, 2, 3]
        assert scanned(folder / "deep" / "2.arrows", device, batches=[2, 0, 2], **more) == [
            *range(28, 30),
            *range(20, 24),
            *range(28, 30),
        ]


def test_batches_that_do_not_exist_are_out_of_range(host, folder):
    for source in (folder, folder / "0.arrow"):
        for batches in ([0, 9], [-1], (0, 10), [1 << 62], [1 << 70]):
            with pytest.raises(sa.OutOfRange, match="batch"):
                sa.read_ipc(source, host, batches=batches)
    for batches in ([1.5], [True], ["1"], (1, 2, 3), 1.5):
        with pytest.raises(sa.TypeMismatch, match="batches"):
            sa.read_ipc(folder, host, batches=batches)
    with pytest.raises(sa.InvalidError, match="not a slice"):
        sa.read_ipc(folder, host, batches=slice(-1, None))


def test_batches_of_live_streams_can_be_selected_only_by_a_range(host, folder):
    def pipe():
        ours, theirs = socket.socketpair()
        content = (folder / "deep" / "2.arrows").read_bytes()
        threading.Thread(target=lambda: (theirs.sendall(content), theirs.close())).start()
        return ours.makefile("rb")

    assert values(sa.read_ipc([folder / "0.arrow", pipe()], host)) == [*range(10), *range(20, 30)]
    assert values(sa.read_ipc([pipe(), folder / "0.arrow"], host)) == [*range(20, 30), *range(10)]
    assert scanned([pipe(), folder / "0.arrow"], host) == [*range(20, 30), *range(10)]
    with pytest.raises(sa.UnsupportedError, match="still being sent"):
        sa.read_ipc(pipe(), host, batches=[1, 0])


def test_every_type_of_files_and_streams_compressed_or_not(device, tmp_path):
    table = arrow_data.table(120)
    for number, (stream, compression) in enumerate(itertools.product((False, True), (None, "lz4", "zstd"))):
        part = table.slice(number * 20, 20)
        write(tmp_path / f"{number}.arrow", part, stream=stream, compression=compression, rows=7)
    for options in (
        {},
        {"combine_chunks": True},
        {"combine_chunks": False, "copy": True},
        {"columns": ["string", "int8"]},
    ):
        columns = options.get("columns", table.column_names)
        seen = sa.read_ipc(tmp_path, device, **options).to_arrow()
        assert seen.to_pydict() == table.select(columns).to_pydict()
    for window in (1, "20KiB", "1GiB"):
        parts = [part.to_arrow() for part in sa.scan_ipc(tmp_path, device, copy=True, window=window)]
        assert pa.concat_tables(parts).to_pydict() == table.to_pydict()


def test_files_of_the_corpus_with_equal_schemas(device, shared_data):
    groups = {}
    for path in sorted((shared_data / "golden").rglob("*.arrow_file")) + sorted(
        (shared_data / "golden").rglob("*.stream")
    ):
        try:
            table = sa.read_ipc(path, device, copy=True)
        except sa.UnsupportedError:
            continue
        key = tuple((field.name, field.type, field.nullable) for field in table.schema)
        groups.setdefault(key, []).append((path, table))
    assert max(map(len, groups.values())) > 3
    for group in groups.values():
        paths = [path for path, _ in group]
        expected = pa.concat_tables([plain(table) for _, table in group])
        assert same(plain(sa.read_ipc(paths, device, copy=True)), expected), paths
        parts = [plain(part) for part in sa.scan_ipc(paths, device, copy=True, window=1)]
        assert same(pa.concat_tables(parts), expected) if parts else not expected.num_rows, paths


def plain(table):
    """Returns the table without schema metadata, which may differ between files."""
    table = table.to_arrow()
    fields = [field.remove_metadata() for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def same(seen, expected):
    """Compares values. The dictionaries may differ."""
    return seen.equals(expected) or repr(seen.to_pydict()) == repr(expected.to_pydict())


def test_files_on_the_host_are_viewed(host, folder):
    for options in ({}, {"copy": False}):
        table = sa.read_ipc(folder, host, **options)
        assert host.memory.statistics()["current"] == 0, "views must not allocate"
        assert table.num_batches == 9
    with pytest.raises(sa.ExchangeError, match="batches can't be joined without a copy"):
        sa.read_ipc(folder, host, copy=False, combine_chunks=True)


def test_progress_counts_the_batches_of_all_files(host, folder):
    for options in ({}, {"copy": True}):
        told = []
        sa.read_ipc(folder, host, progress=lambda p, told=told: told.append((p.batches, p.rows)), **options)
        assert told[-1] == (9, 30)
        assert told == sorted(told)


def test_a_schema_that_differs_names_the_file_and_the_column(host, tmp_path):
    first = write(tmp_path / "0.arrow", pa.table({"n": [1], "s": ["x"]}))
    for schema, text in (
        (
            pa.schema([("n", pa.int64()), ("t", pa.string())]),
            r"column 1 is 't' \(string\), expected 's' \(string\)",
        ),
        (pa.schema([("s", pa.string()), ("n", pa.int64())]), r"column 0 is 's'"),
        (pa.schema([("n", pa.int32()), ("s", pa.string())]), r"'n' \(int32\), expected 'n' \(int64\)"),
        (pa.schema([("n", pa.int64())]), r"column 1 is missing, expected 's'"),
        (pa.schema([("n", pa.int64()), ("s", pa.string()), ("u", pa.int8())]), "expected no such column"),
    ):
        other = write(tmp_path / "1.arrow", schema.empty_table())
        for read in (sa.read_ipc, sa.scan_ipc):
            with pytest.raises(sa.TypeMismatch, match=text) as raised:
                read([first, other], host)
            assert str(other) in str(raised.value)
    assert sa.read_ipc(
        [first, write(tmp_path / "1.arrow", pa.table({"s": ["y"], "n": [2]}))], host, columns="n"
    )["n"].to_pylist() == [1, 2], "columns that are not read may differ"
    with pytest.raises(sa.ColumnNameError, match=r"2\.arrow.*no column 'n'"):
        sa.read_ipc([first, write(tmp_path / "2.arrow", pa.table({"s": ["y"]}))], host, columns=["n"])


def test_a_given_schema_decides_about_nullability(device, tmp_path):
    strict = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    plain = write(tmp_path / "0.arrow", numbers(0, 3))
    filled = write(tmp_path / "1.arrow", numbers(3, 3, strict))
    assert values(sa.read_ipc([plain, filled], device)) == list(range(6))
    assert values(sa.read_ipc([filled, plain], device)) == [3, 4, 5, 0, 1, 2]
    for meant in (NUMBERS, sa.Schema({"n": "int64"}), sa.table({"n": [1]}, "host")):
        for copy in (None, True):
            table = sa.read_ipc([filled, plain], device, schema=meant, copy=copy)
            assert table.schema.field("n").nullable
            assert values(table) == [3, 4, 5, 0, 1, 2]
            assert sa.scan_ipc(filled, device, schema=meant, copy=copy).schema.field("n").nullable
    with pytest.raises(sa.TypeMismatch, match="not null"):
        sa.read_ipc(plain, device, schema=strict)
    assert not sa.read_ipc(filled, device, schema=strict).schema.field("n").nullable


def test_files_without_batches_and_without_rows(device, tmp_path):
    files = [
        write(tmp_path / "0.arrow", NUMBERS.empty_table()),
        write(tmp_path / "1.arrow", numbers(0, 3)),
        write(tmp_path / "2.arrows", NUMBERS.empty_table(), stream=True),
        write(tmp_path / "3.arrow", numbers(3, 0)),
    ]
    with pa.ipc.new_file(files[3], NUMBERS) as writer:
        writer.write_batch(pa.record_batch([pa.array([], pa.int64())], schema=NUMBERS))
    for copy in (None, True):
        assert values(sa.read_ipc(files, device, copy=copy)) == [0, 1, 2]
        assert scanned(files, device, copy=copy) == [0, 1, 2]
    assert sa.read_ipc([files[0], files[2]], device).num_rows == 0


def test_the_error_names_a_corrupt_file_and_nothing_is_leaked(host, tmp_path):
    paths = [write(tmp_path / f"{number}.arrow", numbers(number * 10, 10)) for number in range(3)]
    paths[1].write_bytes(paths[1].read_bytes()[:-20])
    for copy in (None, True):
        with pytest.raises(sa.FormatError, match=r"1\.arrow"):
            sa.read_ipc(tmp_path, host, copy=copy)
    assert host.memory.statistics()["current"] == 0


def test_a_data_set_can_have_more_files_than_the_descriptor_limit(host, tmp_path):
    resource = pytest.importorskip("resource")
    count, rows = 300, 1000
    for number in range(count):
        write(tmp_path / f"{number:03}.arrow", numbers(number * rows, rows))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(each.name) for each in Path("/proc/self/fd").iterdir()}  # earlier tests may keep some
    free = (number for number in itertools.count() if number not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, 200, None)), before[1]))
    try:
        for options in ({}, {"copy": True}, {"batches": list(range(count - 1, -1, -1))}):
            seen = sa.read_ipc(tmp_path, host, **options)["n"].to_numpy()
            assert np.array_equal(np.sort(seen), np.arange(count * rows))
        assert scanned(tmp_path, host) == scanned(tmp_path, host, copy=True) == list(range(count * rows))
        with sa.scan_ipc(tmp_path, host, copy=True, window="64KiB", in_flight=1) as scan:
            assert next(scan).num_rows == rows
            write(tmp_path / "150.arrow", numbers(0, rows))
            with pytest.raises(sa.FileError, match=r"150\.arrow' was replaced or changed while it was read"):
                list(scan)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def copied(source, batches=None):
    """Opens a data set reader with `copy=True`."""
    return open_reader(list_sources(source, None, IPC_ENDINGS), ReadArguments(batches=batches, copy=True))


def test_windows_of_parts_of_batches_in_any_order(device, folder):
    reader = copied(folder)
    assert reader.planned
    assert reader.batch_rows == [4, 4, 2] * 3
    assert reader.batch_bytes == [32, 32, 16] * 3
    assert reader.batch_compressed == [False] * 9
    windows = [[(8, 0, 1), (0, 1, 2)], [(4, 0, -1)], [(4, 3, -1), (4, 3, 1), (3, 0, 0)]]
    scan = reader.scan_spans(device, windows, 2)
    assert values(scan.next()) == [28, 1, 2]
    assert values(scan.next()) == [14, 15, 16, 17]
    assert values(scan.next()) == [17, 17]
    assert scan.next() is None
    chosen = copied(folder, [8, 0])
    assert chosen.batch_rows == [2, 4]
    assert values(chosen.scan_spans(device, [[(1, 3, 1), (0, 0, 1)]], 1).next()) == [3, 28]
    for wrong, kind in (
        ([(9, 0, 1)], sa.OutOfRange),
        ([(0, 3, 2)], sa.OutOfRange),
        ([], sa.InvalidError),
        ([(-1, 0, 1)], sa.OutOfRange),
    ):
        with pytest.raises(kind, match="window 0"):
            reader.scan_spans(device, [wrong], 1)
    packed = write(folder / "packed.arrow", numbers(0, 100), compression="lz4")
    reader = copied(packed)
    assert reader.batch_compressed == [True]
    assert reader.undivided == ""
    assert values(reader.scan_spans(device, [[(0, 7, 2)]], 1).next()) == [7, 8]
    views = pa.table({"a": pa.array(["a"] * 100, pa.string_view())})
    reader = copied(write(folder / "views.arrow", views, compression="lz4"))
    assert reader.undivided == "column 'a' of string_view"
    with pytest.raises(sa.InvalidError, match="batch 0 is compressed"):
        reader.scan_spans(device, [[(0, 0, 1)]], 1)
    objects = copied(io.BytesIO(packed.read_bytes()))
    assert not objects.planned
    with pytest.raises(sa.UnsupportedError, match="parts of batches"):
        _ = objects.batch_rows


def test_a_refused_window_can_be_requested_again(device, tmp_path):
    for number in range(3):
        write(tmp_path / f"{number}.arrow", pa.table({"n": np.full(50_000, number)}))
    reader = copied(tmp_path)
    with device.memory.child("small", 600_000) as small:
        scan = reader.scan_spans(small, [[(2, 0, -1)], [(0, 0, -1)], [(1, 0, -1)]], 2)
        held = scan.next()
        for _ in range(2):
            with pytest.raises(sa.BudgetExceeded):
                scan.next()
        seen = []
        while held is not None:
            seen.append(held["n"].to_pylist()[0])
            assert held.num_rows == 50_000
            del held
            small.synchronize()
            held = scan.next()
        assert seen == [2, 0, 1]
        scan.close()
