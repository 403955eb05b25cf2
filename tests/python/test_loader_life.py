"""Lifetime and failures of a training loader: early exit, close, interrupts, budgets, pickling, and bad
files."""

from __future__ import annotations

import pickle
import sys
import threading
from abc import ABC
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import clean
from loader_files import files_of_rows, flat, numbered, rows_of, write_ipc, write_parquet
from loader_options import grouped
from saeta._files.scan import ReadAhead
from saeta._loader.batches import Windows
from saeta._loader.ipc_data import OfIpc
from saeta._loader.loader import _torch_class
from sim_devices import DEVICES, contexts_of
from waiting import eventually


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def test_a_loop_that_ends_early_frees_everything(tmp_path, ctx):
    files = files_of_rows(tmp_path, [5000], 100)
    before = ctx.memory.statistics()["current"]
    loader = sa.loader(files, ctx, batch_size=50, window="4KiB", shuffle="rows", to="numpy")

    def fail(batches):
        for batch in batches:
            del batch
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail(loader)
    for batch in loader:
        del batch
        break
    loader.close()
    del loader
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before


def test_a_closed_loader_is_refused(tmp_path):
    files = files_of_rows(tmp_path, [500], 100)
    with sa.loader(files, "host", batch_size=50, to="numpy") as loader:
        batches = iter(loader)
        taken = next(batches)
    assert taken["row"].tolist() == list(range(50))
    with pytest.raises(sa.ClosedError, match="the loader is closed"):
        list(batches)
    with pytest.raises(sa.ClosedError, match="the loader is closed"):
        iter(loader)
    loader.close()


def test_a_batch_can_be_read_after_its_loader_is_closed(tmp_path, ctx):
    files = files_of_rows(tmp_path, [500], 100)
    with sa.loader(files, ctx, batch_size=50, to="table") as loader:
        taken = next(iter(loader))
    assert taken["row"].to_pylist() == list(range(50)), "the batch can still be downloaded from a device"
    assert taken.take([3, 1])["row"].to_pylist() == [3, 1]


def test_close_waits_for_the_threads_of_all_iterators(tmp_path, monkeypatch):
    waited, wait = [], Windows.wait
    monkeypatch.setattr(Windows, "wait", lambda self: (waited.append(self), wait(self)))
    files = files_of_rows(tmp_path, [5000], 100, write_parquet)
    loader = sa.loader(files, "host", batch_size=50, window="2KiB", to="table")
    begun = [iter(loader), iter(loader)]
    for each in begun:
        next(each)
    threads = [each for each in threading.enumerate() if each.name == "saeta-loader"]
    assert len(threads) == 2
    loader.close()
    assert len(set(waited)) == 2
    assert not any(each.is_alive() for each in threads)


@pytest.mark.parametrize("shuffle", [False, "batches", "rows"])
def test_the_budget_is_never_exceeded(tmp_path, ctx, shuffle):
    rows, window = 60_000, 32 << 10
    files = files_of_rows(tmp_path, [rows], 1000)
    limit = 8 * window
    with ctx.memory.child("training", limit) as share:
        with sa.loader(files, share, batch_size=256, window=window, shuffle=shuffle, to="table") as loader:
            assert sorted(flat(rows_of(loader))) == list(range(rows))
        assert share.memory.statistics()["peak"] <= limit


def test_a_refused_window_is_read_once_there_is_room(tmp_path, ctx):
    files = files_of_rows(tmp_path, [20_000], 2000)
    with ctx.memory.child("training", 128 << 10) as share:
        loader = sa.loader(
            files,
            share,
            batch_size=500,
            window="24KiB",
            shuffle="rows",
            to="table",
            read_options=sa.ReadOptions(prefetch=9),
        )
        assert sorted(flat(rows_of(loader))) == list(range(20_000))
        loader.close()


def write_older_ipc(table, path, batch_rows):
    """Writes files with metadata version 4, which need the slower reader."""
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return str(path)


@pytest.mark.parametrize("write", [write_ipc, write_older_ipc, write_parquet])
def test_no_row_is_lost_if_reading_ahead_exceeds_the_budget(tmp_path, ctx, write):
    if ctx.device == "host" and write is not write_ipc:
        pytest.skip("views allocate no memory")
    files = files_of_rows(tmp_path, [8000], 1000, write)
    with ctx.memory.child("training", 128 << 10) as share:
        rest = share.allocate((128 - 20) << 10)  # leaves room for one window
        loader = sa.loader(files, share, batch_size=1000, window="12KiB", to="table")
        batches = iter(loader)
        held = [next(batches)]
        assert eventually(lambda: share.memory.statistics()["refused"] > 0, collect=False)
        rows = flat(rows_of(held))
        del rest
        held.clear()
        assert rows + flat(rows_of(batches)) == list(range(8000))
        loader.close()


@pytest.mark.parametrize("shuffle", [False, "rows"])
def test_only_parquet_and_tables_of_the_host_need_a_python_thread(tmp_path, ctx, shuffle):
    arrow = files_of_rows(tmp_path, [3000], 100)
    parquet = files_of_rows(tmp_path, [3000], 100, write_parquet)
    table = sa.read_ipc(arrow[0], ctx)
    for source, threads in [(arrow, False), (table, ctx.device == "host"), (parquet, True)]:
        with sa.loader(source, ctx, batch_size=100, window="4KiB", shuffle=shuffle, to="table") as loader:
            batches = iter(loader)
            found = flat(rows_of([next(batches)]))
            assert isinstance(batches.windows._reader, ReadAhead) == threads, source
            found += flat(rows_of(batches))
        assert sorted(found) == list(range(3000))


def test_reading_ahead_stops_if_tensors_need_the_memory(tmp_path, ctx):
    rows = 40_000
    files = files_of_rows(tmp_path, [rows], 2000)
    with ctx.memory.child("training", 150 << 10) as share:  # six windows, two of them used by tensors
        loader = sa.loader(
            files,
            share,
            batch_size=500,
            window="24KiB",
            shuffle="rows",
            to="numpy",
            matrix={"x": ["half", "row"]},
            dtype={"x": "float64"},
            read_options=sa.ReadOptions(prefetch=8),
        )
        found = [row for batch in loader for row in batch["x"][:, 1].tolist()]
        loader.close()
        assert sorted(found) == list(range(rows))
        assert share.memory.statistics()["peak"] <= 150 << 10


def test_a_refusal_names_the_rows_and_a_solution(tmp_path, ctx):
    files = files_of_rows(tmp_path, [50_000], 25_000)
    with ctx.memory.child("training", 64 << 10) as share:
        loader = sa.loader(files, share, batch_size=500, shuffle="rows", to="numpy")
        with pytest.raises(sa.BudgetExceeded, match=r"reading file '.*part-0.arrow', 2 batches from 0 to 1.*"
                           r"smaller window=, or prefetch= in read_options") as refused:  # fmt: skip
            list(loader)
        assert refused.value.limit == 64 << 10
        loader.close()


def test_errors_name_missing_and_corrupt_files(tmp_path, ctx):
    files = files_of_rows(tmp_path, [300, 300], 100)
    loader = sa.loader(files, ctx, batch_size=50, window=1, to="numpy")
    content = bytearray(Path(files[1]).read_bytes())
    Path(files[1]).write_bytes(content[: len(content) // 2])
    found = []
    with pytest.raises(sa.Error, match=r"part-1\.arrow"):
        found.extend(batch["row"].tolist() for batch in loader)
    taken = loader.state_dict()["batch"]
    assert flat(found) == list(range(50 * taken))
    assert taken >= 6
    Path(files[1]).write_bytes(content)
    loader.load_state_dict(loader.state_dict())
    assert flat(rows_of(loader)) == list(range(50 * taken, 600))
    with pytest.raises(sa.MissingFileError, match=r"no\.arrow"):
        sa.loader(tmp_path / "no.arrow", ctx, batch_size=1, to="numpy")
    with pytest.raises(sa.MissingFileError, match=r"no file matches .*x-\*.arrow"):
        sa.loader(str(tmp_path / "x-*.arrow"), ctx, batch_size=1, to="numpy")
    with pytest.raises(sa.InvalidError, match="the list of sources is empty"):
        sa.loader([], ctx, batch_size=1, to="numpy")
    with pytest.raises(sa.TypeMismatch, match="files is of type int"):
        sa.loader(3, ctx, batch_size=1, to="numpy")


def test_files_must_have_the_same_columns(tmp_path):
    one = write_ipc(numbered(10), tmp_path / "one.arrow", 5)
    names = write_ipc(numbered(10).rename_columns(["row", "other"]), tmp_path / "two.arrow", 5)
    types = write_ipc(pa.table({"row": np.arange(4), "half": np.arange(4)}), tmp_path / "three.arrow", 5)
    with pytest.raises(
        sa.TypeMismatch, match=r"two.arrow: column 1 is 'other' .*, expected 'half' .*one.arrow"
    ):
        sa.loader([one, names], "host", batch_size=1, to="numpy")
    with pytest.raises(sa.TypeMismatch, match=r"three.arrow: column 1 is 'half' \(int64\), expected"):
        sa.loader([one, types], "host", batch_size=1, to="numpy")
    stream = tmp_path / "stream.arrow"
    sa.from_arrow(numbered(5), "host").write_ipc(stream, format="stream")
    with pytest.raises(sa.UnsupportedError, match="is an Arrow IPC stream"):
        sa.loader(stream, "host", batch_size=1, to="numpy")


def test_folders_and_patterns_list_files_in_order(tmp_path):
    files_of_rows(tmp_path, [30, 40], 10)
    (tmp_path / "note.txt").write_text("no data")
    for files in (
        tmp_path,
        str(tmp_path / "part-*.arrow"),
        [tmp_path / "part-0.arrow", f"{tmp_path}/part-1*"],
    ):
        assert flat(rows_of(sa.loader(files, "host", batch_size=8, to="numpy"))) == list(range(70))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_are_read_as_a_whole(tmp_path, ctx, compression):
    file = write_ipc(numbered(1000), tmp_path / "packed.arrow", 400, compression)
    loader = sa.loader(file, ctx, batch_size=64, window=1, shuffle="batches", to="table")
    rows = flat(rows_of(loader))
    assert sorted(rows) == list(range(1000))
    assert {first % 400 for first, before in zip(rows[1:], rows, strict=False) if first != before + 1} <= {0}


def test_a_loader_pickles_with_its_state(tmp_path):
    files = files_of_rows(tmp_path, [500], 100)
    loader = sa.loader(files, "host", batch_size=50, shuffle="rows", seed=2, to="numpy")
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert rows_of(copy) == rows_of(batches)
    assert repr(copy) == "<saeta.Loader of 500 rows, 10 batches of 50>"
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(batches)
    share = sa.context("host").memory.child("share")
    with sa.unpickling(share):
        assert len(pickle.loads(pickle.dumps(loader))) == 10


@pytest.mark.parametrize("write", [write_ipc, write_parquet])
def test_a_dropped_loader_leaks_nothing(tmp_path, write):
    files = files_of_rows(tmp_path, [5000], 100, write)
    others = set(threading.enumerate())
    with clean("host"):
        loader = sa.loader(files, "host", batch_size=50, shuffle="rows", to="numpy", window="4KiB")
        batches = iter(loader)
        next(batches)
        reading = set(threading.enumerate()) - others
        assert bool(reading) == (write is write_parquet)
        del loader, batches
        for thread in reading:
            thread.join()  # dropping a loader stops its thread without waiting


FORK = """
import os, signal, sys
import pyarrow.parquet as pq
import saeta as sa

def refused(use):
    try:
        use()
    except sa.ClosedError as failure:
        return "parent of this forked process" in str(failure)
    return False

files, kind, shuffle, taken = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
source = sa.read_ipc(files, "host") if kind == "table" else files
order = shuffle if shuffle != "no" else False
loader = sa.loader(source, "host", batch_size=1, shuffle=order, to=sys.argv[5])
batches = iter(loader)
rows = [next(batches)["row"] for _ in range(taken)]
child = os.fork()
if child == 0:
    signal.alarm(60)
    assert refused(lambda: next(batches))
    assert refused(lambda: iter(loader))
    assert loader.state_dict()["batch"] == taken
    loader.close()
    del batches
    assert len(list(sa.loader(files, "host", batch_size=1, to="table"))) == 400
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(taken + len(list(batches)), loader.epoch)
"""


@pytest.mark.parametrize("taken", [1, 50, 399])
@pytest.mark.parametrize(
    ("kind", "shuffle", "to"),
    [
        ("arrow", "no", "numpy"),
        ("arrow", "rows", "table"),
        ("table", "rows", "numpy"),
        ("parquet", "no", "numpy"),
    ],
)
def test_a_forked_child_gets_no_batch_and_its_parent_gets_all(tmp_path, run_python, kind, shuffle, to, taken):
    write = write_parquet if kind == "parquet" else write_ipc
    [file] = files_of_rows(tmp_path, [400], 100, write)
    done = run_python(FORK, file, kind, shuffle, str(taken), to)
    assert (done.returncode, done.stdout, done.stderr) == (0, "400 1\n", "")


@pytest.mark.parametrize("shuffle", [False, "rows"])
def test_an_iterator_yields_nothing_after_close(tmp_path, shuffle):
    files = files_of_rows(tmp_path, [500], 100)
    loader = sa.loader(files, "host", batch_size=50, shuffle=shuffle, to="numpy")
    batches = iter(loader)
    next(batches)
    loader.close()
    for _ in range(2):
        with pytest.raises(sa.ClosedError, match=r"^the loader is closed$"):
            next(batches)


WAITING = """
import os, signal, sys, threading
import saeta as sa

ctx = sa.context("host", budget="1MiB", wait=86400)
held = ctx.allocate("1000KiB")
loader = sa.loader(sys.argv[1], ctx, batch_size=50_000, shuffle="rows", to="numpy")
asked = threading.Event()
hook = ctx.memory.add_hook(lambda _: asked.set(), name="asked")

def interrupt():
    asked.wait()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    list(loader)
except KeyboardInterrupt:
    print("interrupted")
loader.close()
print(loader.state_dict()["batch"])
"""


def test_ctrl_c_ends_the_wait_for_a_window(tmp_path, run_python):
    [file] = files_of_rows(tmp_path, [100_000], 100_000)
    done = run_python(WAITING, file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n0\n", "")


class FakeTorch:
    """Stands in for the parts of torch that a loader uses."""

    class IterableDataset(ABC):  # noqa: B024 - torch's class has the metaclass ABCMeta too
        pass

    worker = None

    @classmethod
    def get_worker_info(cls):
        return cls.worker


def test_a_loader_for_torch_is_a_dataset_and_refuses_workers(tmp_path, monkeypatch):
    for name in ("torch", "torch.utils", "torch.utils.data"):
        monkeypatch.setitem(sys.modules, name, FakeTorch)
    _torch_class.cache_clear()
    try:
        loader = sa.loader(files_of_rows(tmp_path, [500], 100), "host", batch_size=64)
        assert isinstance(loader, FakeTorch.IterableDataset)
        assert isinstance(loader, sa.Loader)
        assert len(pickle.loads(pickle.dumps(loader))) == 8
        monkeypatch.setattr(FakeTorch, "worker", object())
        with pytest.raises(sa.InvalidError, match="num_workers=0"):
            iter(loader)
    finally:
        _torch_class.cache_clear()


def test_torch_iterates_a_loader(tmp_path):
    torch = pytest.importorskip("torch")
    files = files_of_rows(tmp_path, [500], 100)
    loader = sa.loader(files, "host", batch_size=64, shuffle="rows")
    wrapped = torch.utils.data.DataLoader(loader, batch_size=None)
    assert len(wrapped) == len(loader) == 8
    found = [batch["row"].tolist() for batch in wrapped]
    assert sorted(flat(found)) == list(range(500))
    assert isinstance(pickle.loads(pickle.dumps(loader)), torch.utils.data.IterableDataset)
    with pytest.raises(Exception, match="num_workers=0"):
        list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1))


@pytest.mark.parametrize("shuffle", [False, "rows"])
def test_tables_of_other_libraries_are_sources(ctx, shuffle):
    """An object with `__arrow_c_stream__` is a table, not a list of file names."""
    polars = pytest.importorskip("polars")
    rows = numbered(100)
    for source in (
        rows,
        polars.from_arrow(rows),
        pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()),
    ):
        found = flat(rows_of(sa.loader(source, ctx, batch_size=32, shuffle=shuffle, to="table")))
        assert sorted(found) == list(range(100))


def test_integers_of_numpy_are_accepted(tmp_path):
    files = files_of_rows(tmp_path, [500], 100)
    like = {"batch_size": 64, "shuffle": "rows", "seed": 3, "world_size": 2, "rank": 1, "window": 2000}
    given = {name: value if name == "shuffle" else np.int32(value) for name, value in like.items()}
    assert rows_of(sa.loader(files, "host", to="numpy", **grouped(given))) == rows_of(
        sa.loader(files, "host", to="numpy", **grouped(like))
    )
    for name in ("batch_size", "seed", "rank", "prefetch"):
        for wrong in (True, 1.0, "1", None, np.float32(1)):
            with pytest.raises(sa.InvalidError, match=f"{name} is .*, expected an integer"):
                sa.loader(files, "host", to="numpy", **grouped({"batch_size": 1, name: wrong}))


def large_batches(folder):
    """Two files with batches of 1 MiB."""
    rows = pa.table({"row": np.arange(1 << 18), "half": np.arange(1 << 18) / 2})
    return [
        write_ipc(rows.slice(first, 1 << 17), folder / f"{first}.arrow", 1 << 16) for first in (0, 1 << 17)
    ]


def test_arrays_that_view_a_file_are_read_only(tmp_path):
    with clean("host") as ctx:
        with sa.loader(large_batches(tmp_path), ctx, batch_size=5000, to="numpy") as loader:
            held = list(loader)
        whole = [batch["row"] for batch in held if batch["row"].base is not None]
        assert ctx.memory.statistics()["current"] < 1 << 20, "views must not allocate"
        assert not any(rows.flags.writeable for rows in whole)
        assert flat(rows_of(held)) == list(range(1 << 18))
        del loader, held, whole


@pytest.mark.parametrize(
    ("changed", "views"),
    [
        ({}, True),
        ({"to": "table", "shuffle": "batches"}, True),
        ({"shuffle": "rows"}, False),
        ({"to": "torch"}, False),
        ({"batch_size": (1 << 16) + 1}, False),
        ({"columns": "row"}, False),
    ],
    ids=str,
)
def test_a_loader_views_files_only_if_batches_are_read_only(tmp_path, monkeypatch, changed, views):
    opened = []

    def spy(self, *args, views, **options):
        opened.append(views)
        return open_files(self, *args, views=views, **options)

    open_files = OfIpc.open
    monkeypatch.setattr(OfIpc, "open", spy)
    for name in ("torch", "torch.utils", "torch.utils.data"):
        monkeypatch.setitem(sys.modules, name, FakeTorch)
    _torch_class.cache_clear()
    try:
        with sa.loader(
            large_batches(tmp_path), "host", **{"batch_size": 64, "to": "numpy", **changed}
        ) as loader:
            iter(loader).close()
    finally:
        _torch_class.cache_clear()
    assert opened == [views]
