"""saeta.dask without a cluster: serialization, sizes, registration, contexts of workers, files as tasks, and
dask-cuda's spilling. tests/python/test_dask_cluster.py uses two worker processes."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import dask_tasks
import saeta as sa
from contexts import copies
from sim_devices import DEVICES, contexts_of

distributed = pytest.importorskip("distributed")

import dask  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402
from distributed.protocol import deserialize, deserialize_bytes, serialize, serialize_bytes  # noqa: E402
from distributed.protocol.cuda import cuda_loads  # noqa: E402
from fsspec.implementations.local import LocalFileSystem  # noqa: E402

import saeta.dask  # noqa: E402
from saeta.dask import _contexts, _families, _refused  # noqa: E402


@pytest.fixture(params=DEVICES)
def ctx(request, monkeypatch):
    """The context of a worker on the host, a simulated device, or a GPU."""
    for each in contexts_of(request.param):
        monkeypatch.setattr(
            _families, "worker_context", lambda name=None, each=each: sa.context(name) if name else each
        )
        yield each


class Received:
    """Stands in for received device memory, like an RMM buffer: it exports only the CUDA Array Interface."""

    def __init__(self, sent: Any) -> None:
        self.nbytes = len(sent) if isinstance(sent, sa.Column) else sent.nbytes
        self._address = sent.address if isinstance(sent, sa.Column) else sent.ptr
        self._keeps = sent

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 0,
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "data": (self._address, False),
        }


def tables(ctx: sa.Context) -> list[sa.Table]:
    whole = sa.from_arrow(arrow_data.table(), ctx)
    flags = sa.from_dlpack(np.array([True, False, True]), "host")
    symbols = sa.column(["a", "b", "a"], "host", name="s").as_symbols()
    special = sa.table({"flags": flags, "s": symbols}, "host").to(ctx)
    parts = [whole, whole[3:20], whole[:0], whole.select([]), sa.concat_tables([whole, whole[5:9]]), special]
    return [*parts, whole.replace_schema_metadata({"key": "value"})]


def require_same(found: sa.Table, expected: sa.Table) -> None:
    assert found.schema == expected.schema
    assert found.to_arrow().equals(expected.to_arrow(), check_metadata=True)
    assert [each.num_rows for each in found.batches] == [each.num_rows for each in expected.batches]


def test_every_table_makes_the_round_trip_in_host_memory(ctx):
    for table in tables(ctx):
        header, frames = serialize(table, on_error="raise")
        assert header["serializer"] == "dask"
        received = deserialize(header, [memoryview(each) for each in frames])
        assert received.context.device == ctx.device
        require_same(received, table)
        require_same(deserialize_bytes(serialize_bytes(table, on_error="raise")), table)


def test_every_table_makes_the_round_trip_in_device_memory(ctx):
    for table in tables(ctx):
        header, frames = serialize(table, serializers=("cuda", "dask"), on_error="raise")
        assert header["serializer"] == ("dask" if ctx.device == "host" else "cuda")
        if ctx.device != "host":
            assert len(frames) == (1 if len(table.pack().body) else 0)
            require_same(cuda_loads(header, [Received(each) for each in frames]), table)


def test_misaligned_frames_are_received_without_charging_the_budget(host, monkeypatch):
    full = host.memory.child("full", limit=1)
    monkeypatch.setattr(_families, "worker_context", lambda name=None: full)
    for table in tables(host):
        header, (metadata, body) = serialize(table, on_error="raise")
        for offset in (0, 3, 8):
            moved = memoryview(bytes(offset) + bytes(body))[offset:]
            received = deserialize(header, [metadata, moved])
            assert received.context == full
            require_same(received.to("host"), table)


def test_without_device_budget_a_table_is_sent_through_the_host_and_can_be_retried(ctx):
    if ctx.device == "host":
        pytest.skip("needs a device with its own budget")
    table = sa.table({"a": np.arange(1000)}, ctx)[1:]
    ctx.synchronize()
    ctx.memory.limit = int(ctx.memory.statistics()["current"] or 0)
    header, frames = serialize(table, serializers=("cuda", "dask"), on_error="raise")
    assert header["serializer"] == "dask"
    with pytest.raises(OSError, match="does not fit") as refused:
        deserialize(header, frames)
    assert isinstance(refused.value.__cause__, sa.BudgetExceeded)
    ctx.memory.limit = None
    require_same(deserialize(header, frames), table)


def test_a_device_out_of_memory_sends_through_the_host_too(ctx, monkeypatch):
    if ctx.device == "host":
        pytest.skip("needs a device")
    table = sa.table({"a": np.arange(1000)}, ctx)
    pack = _families.pack

    def pack_on_the_host(source: sa.Table) -> Any:
        if source.device != "host":
            raise sa.OutOfMemory("the device has no memory")
        return pack(source)

    def unpack(*given: Any) -> Any:
        raise sa.OutOfMemory("the device has no memory")

    monkeypatch.setattr(_families, "pack", pack_on_the_host)
    header, frames = serialize(table, serializers=("cuda", "dask"), on_error="raise")
    assert header["serializer"] == "dask"
    require_same(deserialize(header, frames), table)
    monkeypatch.setattr(_families, "unpack", unpack)
    with pytest.raises(OSError, match="does not fit: the device has no memory"):
        deserialize(header, frames)


def refused_frames(ctx: sa.Context) -> list[tuple[Any, list[Any]]]:
    """Returns invalid headers and frames."""
    header, frames = serialize(sa.table({"a": [1, 2]}, ctx), on_error="raise")
    metadata, body = (bytes(each) for each in frames)
    return [
        (header, [metadata[:-9], body]),
        (header, [metadata, b""]),
        (header, [metadata]),
        (header, [b"", body]),
    ]


def test_invalid_frames_are_an_error_for_a_client(ctx):
    for header, frames in refused_frames(ctx):
        with pytest.raises(sa.FormatError, match="a table has arrived that can't be read: "):
            deserialize(header, frames)


def test_invalid_frames_are_an_error_of_the_task_that_uses_them(ctx, monkeypatch, caplog):
    monkeypatch.setattr(_refused, "in_worker_process", lambda: True)
    uses: list[Any] = [
        lambda it: it.num_rows,
        len,
        list,
        bool,
        lambda it: it["a"],
        lambda it: it[0:1],
        lambda it: "a" in it,
        lambda it: it == 1,
        lambda it: it != 1,
        lambda it: hasattr(it, "__arrow_c_stream__"),
        pa.table,
        sa.table,
        np.from_dlpack,
    ]
    for header, frames in refused_frames(ctx):
        received = deserialize(header, frames)
        for use in uses:
            with pytest.raises(sa.FormatError, match="a table has arrived that can't be read"):
                use(received)
        assert repr(received).startswith("<saeta.dask.RefusedTable: a table has arrived that can't be read")
        assert 0 < sizeof(received) < 1000
        assert not dask.is_dask_collection(received)
        again = deserialize(*serialize(received, on_error="raise"))
        with pytest.raises(sa.FormatError, match="a table has arrived that can't be read"):
            len(again)
    assert len(caplog.records) == len(refused_frames(ctx))
    monkeypatch.undo()
    with pytest.raises(sa.FormatError, match="a table has arrived that can't be read"):
        deserialize(*serialize(received, on_error="raise"))  # when a client requests the failed result


def test_a_host_table_stays_on_the_host_of_a_gpu_worker(ctx):
    table = sa.table({"a": [1, 2]}, "host")
    received = deserialize(*serialize(table, serializers=("cuda", "dask"), on_error="raise"))
    assert received.context == sa.context("host")
    assert deserialize(*serialize(table["a"], on_error="raise")).context == sa.context("host")


def test_columns_and_collections_make_the_round_trip(ctx):
    table = sa.from_arrow(pa.table({"a": [1, None, 3], "s": ["x", "y", None]}), ctx)
    for column in table.columns:
        received = deserialize(*serialize(column, on_error="raise"))
        assert isinstance(received, sa.Column)
        assert (received.name, received.to_pylist(), received.device) == (
            column.name,
            column.to_pylist(),
            column.device,
        )
    received = deserialize(*serialize({"t": table, "c": [table["a"]]}, on_error="raise"))
    require_same(received["t"], table)
    assert received["c"][0].to_pylist() == [1, None, 3]


def test_sending_from_a_device_waits_for_pending_writes(ctx):
    if not ctx.device.startswith("sim"):
        pytest.skip("simulated memory can be read before pending writes")
    source = sa.table({"a": np.arange(5000)}, ctx).take(np.arange(4999, -1, -1))
    _, frames = serialize(source, serializers=("cuda",), on_error="raise")
    sent = np.frombuffer(ctypes.string_at(frames[0].address, 8 * 5000), np.int64)
    assert sent.tolist() == list(range(4999, -1, -1))


@pytest.mark.parametrize(("capable", "room"), [(True, True), (False, True), (False, False)])
def test_ucx_sends_memory_with_a_cuda_ipc_handle(ctx, monkeypatch, capable, room):
    """Memory without an IPC handle is copied into RMM memory. tests/interop/test_gpu_dask.py uses the real
    libraries."""
    if not ctx.device.startswith("sim"):
        pytest.skip("simulated memory can be copied by the host")
    asked: list[int] = []

    class DeviceBuffer:
        def __init__(self, ptr: int, size: int) -> None:
            if not room:
                raise MemoryError("std::bad_alloc")
            self.bytes = ctypes.string_at(ptr, size)

    def attribute(which: str, address: int) -> tuple[int, int]:
        asked.append(address)
        return 0, int(capable)

    names = SimpleNamespace(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE="capable")
    driver = SimpleNamespace(CUpointer_attribute=names, cuPointerGetAttribute=attribute)
    for name, module in (
        ("ucxx", SimpleNamespace()),
        ("cuda.bindings", SimpleNamespace(driver=driver)),
        ("rmm", SimpleNamespace(DeviceBuffer=DeviceBuffer)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    source = sa.table({"a": np.arange(5000)}, ctx).take(np.arange(4999, -1, -1))
    header, frames = serialize(source, serializers=("cuda", "dask"), on_error="raise")
    assert len(asked) == 1
    assert header["serializer"] == ("cuda" if room else "dask")
    if not room:
        require_same(deserialize(header, frames), source)
        return
    (sent,) = frames
    bytes_ = ctypes.string_at(sent.address, 8 * 5000) if capable else sent.bytes
    assert np.frombuffer(bytes_, np.int64)[:5000].tolist() == list(range(4999, -1, -1))


def test_a_table_in_one_slab_is_sent_without_a_copy(host, tmp_path):
    sa.table({"a": np.arange(1000)}, "host").write_ipc(tmp_path / "a.arrow")
    table = sa.read_ipc(tmp_path / "a.arrow", host, copy=True, combine_chunks=True)
    host.reset_counters()
    _, (_, body) = serialize(table, on_error="raise")
    assert copies(host) == 0
    assert pa.py_buffer(body).address == table.pack().body.address


def test_the_size_of_a_table_is_what_its_rows_refer_to(ctx):
    for table in tables(ctx):
        assert sizeof(table) == table.nbytes
    table = sa.table({"a": np.arange(1000), "b": np.arange(1000.0)}, ctx)
    assert (sizeof(table), sizeof(table["a"]), sizeof(table[100:300])) == (16000, 8000, 3200)
    assert sizeof([table]) == sizeof([]) + 8 + 16000


IMPORTS = {
    "by the entry point alone": "import distributed",
    "before distributed": "import saeta, distributed",
    "after distributed": "import distributed, saeta",
    "long before dask": "import saeta; import dask; import distributed.worker",
}


@pytest.mark.parametrize("order", IMPORTS)
def test_tables_are_registered_in_every_order_of_imports(run_python, tmp_path, order):
    dask_tasks.pretend_to_be_installed(tmp_path)
    done = run_python(
        f"""
{IMPORTS[order]}
import sys
from distributed.protocol import deserialize_bytes
assert "saeta.dask" not in sys.modules
found = deserialize_bytes(bytes.fromhex(sys.argv[1]))
from dask.sizeof import sizeof
print(found["a"].to_pylist(), sizeof(found))
""",
        serialize_bytes(sa.table({"a": [1, 2, 3]}, "host"), on_error="raise").hex(),
        PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    )
    assert done.stdout.strip() == "[1, 2, 3] 24", done.stderr


def test_dask_can_be_imported_without_distributed(run_python, tmp_path):
    dask_tasks.pretend_to_be_installed(tmp_path)
    done = run_python(
        """
import sys
sys.modules["distributed"] = None
import dask, saeta
from dask.sizeof import sizeof
print(sizeof(saeta.table({"a": [1]}, "host")))
try:
    import saeta.dask
except saeta.MissingDependency as failure:
    print("pip install distributed" in str(failure))
""",
        PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    )
    assert done.stdout.split() == ["8", "True"], done.stderr


@pytest.mark.parametrize(("version", "age"), [("2026.6.1", "too old"), ("2027.1.0", "too new")])
def test_another_release_of_distributed_is_refused_with_its_version(run_python, version, age):
    done = run_python(
        f"""
import distributed
distributed.__version__ = {version!r}
import saeta
try:
    import saeta.dask
except saeta.MissingDependency as failure:
    print(failure)
""",
    )
    assert version in done.stdout, done.stderr
    assert age in done.stdout


def test_outside_of_workers_worker_context_is_the_process_context():
    assert saeta.dask.worker_context("host") == sa.context("host")
    assert saeta.dask.worker_context("host", budget="1MiB").memory.limit == sa.context("host").memory.limit
    with pytest.raises(sa.DeviceError):
        saeta.dask.worker_context("cuda:4711")


@pytest.mark.parametrize(
    ("address", "variable", "stack"),
    [
        ("ucx://1:1", None, "logging, budget, caching, direct"),
        ("ucxx://1:1", None, "logging, budget, caching, direct"),
        ("ucx://1:1", "SAETA_STACK", None),
        ("ucx://1:1", "SAETA_RESOURCE", None),
        ("tcp://1:1", None, None),
    ],
)
def test_workers_with_ucx_use_memory_with_cuda_ipc_handles(monkeypatch, address, variable, stack):
    asked: list[str | None] = []

    def context(name: str, *, stack: str | None = None) -> sa.Context:
        asked.append(stack)
        if stack is not None and exists:
            raise sa.InvalidError("the context of cuda:0 already exists")
        return sa.context("host")

    monkeypatch.setattr(_contexts, "context", context)
    for name in ("SAETA_STACK", "SAETA_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "direct")
    worker = SimpleNamespace(address=address)
    exists = False
    assert _contexts._process_context(worker, "cuda:0") == sa.context("host")
    assert _contexts._process_context(worker, "host") == sa.context("host")
    assert asked == [stack, None]
    exists = True
    assert _contexts._process_context(worker, "cuda:0") == sa.context("host")
    assert asked[-1] is None


def contexts_in_tasks(budget: str | None = None) -> dict[str, Any]:
    found = saeta.dask.worker_context("host", budget=budget)
    return {"ctx": found, "again": saeta.dask.worker_context("host") == found, "budget": found.memory.limit}


@pytest.mark.parametrize(
    ("settings", "limit"), [({}, 300 << 20), ({"saeta.budget.host": "5MiB"}, 5 << 20)], ids=["own", "set"]
)
def test_each_worker_has_a_context_with_its_memory_limit(settings, limit):
    with (
        # The workers run in this process, which may already use more than their limit and would be paused.
        dask.config.set({"distributed.worker.memory.pause": False, **settings}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            memory_limit=300 << 20,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        one, other = client.run(os.getpid)
        first, second = (
            client.submit(contexts_in_tasks, workers=[each], pure=False).result() for each in (one, other)
        )
        assert (first["budget"], second["budget"]) == (limit, limit)
        assert first["again"]
        assert second["again"]
        assert first["ctx"] != second["ctx"]
        changed = client.submit(contexts_in_tasks, "1MiB", workers=[one], pure=False).result()
        assert (changed["ctx"], changed["budget"]) == (first["ctx"], 1 << 20)
        refused = client.submit(_allocate_too_much, workers=[one], pure=False)
        with pytest.raises(sa.BudgetExceeded):
            refused.result()
        assert saeta.dask.worker_context("host") == sa.context("host"), "two workers: neither's"


def test_after_a_task_closes_the_context_of_its_worker_the_next_opens_it_again():
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        closed = client.submit(_close_the_context, pure=False).result()
        found = client.submit(contexts_in_tasks, pure=False).result()
        assert closed.closed
        assert not found["ctx"].closed
        assert found["again"]


def test_a_worker_that_has_ended_is_no_worker_of_the_process():
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster),
    ):
        ended = cluster.workers[0]
        assert saeta.dask.worker_context("host") != sa.context("host")
    assert ended in type(ended)._instances, "it is kept, as a traceback may keep it"
    assert saeta.dask.worker_context("host") == sa.context("host")
    with pytest.raises(sa.FormatError, match="cut off"):
        _refused.arrived_refused("cut off")


def _close_the_context() -> sa.Context:
    with saeta.dask.worker_context("host") as ctx:
        return ctx


def _allocate_too_much() -> None:
    saeta.dask.worker_context("host").allocate("2MiB")


class CountingFiles(LocalFileSystem):
    """A file system that counts the bytes read."""

    taken = 0

    def cat_file(self, path: str, start: int, end: int, **options: Any) -> bytes:
        found: bytes = super().cat_file(path, start, end, **options)
        CountingFiles.taken += len(found)
        return found


def write_parts(folder: Path, batches: list[list[int]]) -> None:
    """Writes a file for each list in `batches`, which has the number of rows of each batch."""
    begin = 0
    for number, rows in enumerate(batches):
        parts = []
        for count in rows:
            parts.append(sa.table({"n": np.arange(begin, begin + count)}, "host"))
            begin += count
        path = folder / f"{number}.arrow"
        (sa.concat_tables(parts) if parts else sa.table({"n": np.arange(0)}, "host")).write_ipc(path)


def rows_of(tasks: list[Any]) -> list[int]:
    return [each.num_rows for each in dask.compute(*tasks, scheduler="synchronous")]


def test_files_become_tasks_of_consecutive_batches(tmp_path):
    write_parts(tmp_path, [[100, 200, 300], [50], [500, 10, 10]])
    whole = saeta.dask.read_ipc(tmp_path, blocksize=8 * 300)
    assert rows_of(whole) == [300, 300, 50, 500, 20]
    found = dask.compute(*whole, scheduler="synchronous")
    assert [row for each in found for row in each["n"].to_pylist()] == list(range(1170))
    assert rows_of(saeta.dask.read_ipc(tmp_path, blocksize=1)) == [100, 200, 300, 50, 500, 10, 10]
    assert rows_of(saeta.dask.read_ipc(tmp_path)) == [1170]
    assert rows_of(saeta.dask.read_ipc(str(tmp_path / "[02].arrow"), blocksize="2400 B")) == [
        300,
        300,
        500,
        20,
    ]


def test_only_the_tasks_read_message_bodies(tmp_path):
    write_parts(tmp_path, [[1_000_000], [1_000_000]])
    CountingFiles.taken = 0
    tasks = saeta.dask.read_ipc(str(tmp_path), filesystem=CountingFiles(), blocksize="8MB")
    assert 0 < CountingFiles.taken < 1_000_000, "the ends of the files"
    assert rows_of(tasks) == [1_000_000, 1_000_000]
    assert CountingFiles.taken > 16_000_000


def test_read_options_reach_the_tasks(tmp_path):
    table = sa.table({"a": [1, 2], "b": [3, 4]}, "host")
    sa.concat_tables([table, table]).write_ipc(tmp_path / "a.arrow")
    (task,) = saeta.dask.read_ipc(tmp_path / "a.arrow", columns="b", combine_chunks=True, device="host")
    found = task.compute(scheduler="synchronous")
    assert (found.column_names, found.num_batches, found["b"].to_pylist()) == (["b"], 1, [3, 4, 3, 4])


def test_relative_paths_are_resolved_by_the_caller(tmp_path, monkeypatch):
    write_parts(tmp_path, [[3]])
    monkeypatch.chdir(tmp_path)
    tasks = saeta.dask.read_ipc("0.arrow")
    monkeypatch.chdir("/")
    assert rows_of(tasks) == [3]


def test_streams_and_empty_files_are_read_as_a_whole(tmp_path):
    one = sa.table({"n": np.arange(1)}, "host")
    sa.concat_tables([one, one, one]).write_ipc(tmp_path / "a.arrows", format="stream")
    write_parts(tmp_path, [[2, 2]])
    tasks = saeta.dask.read_ipc([tmp_path / "0.arrow", tmp_path / "a.arrows"], blocksize="1MiB")
    assert sum(rows_of(tasks)) == 7
    with pa.ipc.new_file(str(tmp_path / "empty.arrow"), pa.schema([("n", pa.int64())])):
        pass
    (empty,) = saeta.dask.read_ipc(tmp_path / "empty.arrow")
    assert empty.compute(scheduler="synchronous").schema.names == ["n"]


@pytest.mark.parametrize("blocksize", [1, 8 * 5, "1MiB"])
def test_streams_and_files_in_any_order_are_read_once(tmp_path, blocksize):
    stream = tmp_path / "a.arrows"
    parts = [sa.table({"n": np.array(each)}, "host") for each in ([-1, -2], [-3])]
    sa.concat_tables(parts).write_ipc(stream, format="stream")
    write_parts(tmp_path, [[2, 2, 2], [3, 1]])
    files = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    for place, rows_before in enumerate((0, 6, 10)):
        sources = [*files[:place], stream, *files[place:]]
        expected = [*range(rows_before), -1, -2, -3, *range(rows_before, 10)]
        tasks = saeta.dask.read_ipc(sources, blocksize=blocksize)
        found = dask.compute(*tasks, scheduler="synchronous")
        assert [row for each in found for row in each["n"].to_pylist()] == expected


def test_wrong_arguments_are_refused_before_files_are_opened(tmp_path):
    for wrong in (0, 1.5, None, "0"):
        with pytest.raises(sa.InvalidError, match=r"blocksize is .*, expected a number of bytes"):
            saeta.dask.read_ipc(tmp_path / "none.arrow", blocksize=wrong)
    with pytest.raises(sa.TypeMismatch, match=r"client is of type str, expected distributed\.Client"):
        saeta.dask.read_ipc(tmp_path / "none.arrow", "host")


def test_sources_that_tasks_could_not_read_are_refused(tmp_path):
    with pytest.raises(sa.MissingFileError):
        saeta.dask.read_ipc(tmp_path / "none.arrow")
    with pytest.raises(sa.TypeMismatch, match="bytes"):
        saeta.dask.read_ipc(sa.table({"a": [1]}, "host").to_ipc_bytes())
    sa.table({"n": [1]}, "host").write_ipc(tmp_path / "a.arrow")
    sa.table({"m": [1]}, "host").write_ipc(tmp_path / "b.arrow")
    with pytest.raises(sa.TypeMismatch, match=r"b\.arrow"):
        saeta.dask.read_ipc(tmp_path)


def test_dask_cuda_knows_which_tables_are_on_a_device(ctx):
    objects = pytest.importorskip("dask_cuda.is_device_object")
    table = sa.table({"a": [1, 2]}, ctx)
    on_device = ctx.device != "host"
    assert objects.is_device_object(table) is on_device
    assert objects.is_device_object(table["a"]) is on_device
    assert objects.is_device_object([1, {"t": table}]) is on_device


def test_workers_of_dask_cuda_spill_tables_to_the_host_and_to_files(ctx, tmp_path):
    files = pytest.importorskip("dask_cuda.device_host_file")
    if ctx.device == "host":
        pytest.skip("dask-cuda spills only device tables")
    made = [sa.table({"a": np.arange(1000) + each}, ctx) for each in range(12)]
    store = files.DeviceHostFile(str(tmp_path), device_memory_limit=4 * 8000, memory_limit=5 * 8000)
    for number, table in enumerate(made):
        store[f"t{number}"] = table
    assert len(store.device) <= 4
    assert len(store.host) > 0
    assert len(store.disk) > 0
    for number, table in enumerate(made):
        found = store[f"t{number}"]
        assert found.context == ctx
        require_same(found, table)
