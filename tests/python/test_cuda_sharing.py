"""IPC handles of saeta.cuda: device memory that another process opens.

The other process is real. The memory of a simulated device is an anonymous file, which both processes map. To
see the tests fail, remove the offset in `open_bytes` (saeta/memory/loans/imported_pool.cpp), the lease in
`answer` (saeta/share/broker.cpp), or `synchronize_handover` in `share_bytes`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from cuda_module import DEVICES, cuda, opened, run_pyarrows_tests, simulated
from cuda_peer import Peer, RefusedError, handle
from saeta import _core
from sim_devices import simulator
from threads import run_in_threads
from waiting import eventually

SIZES = [0, 1, 1000, 3 << 20]
ROUNDS = 1000


@pytest.fixture(params=DEVICES)
def kind(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def ctx(kind: str) -> Iterator[Any]:
    with opened(kind) as found:
        yield found


@pytest.fixture(scope="module")
def exporters() -> Iterator[dict[str, Peer]]:
    """A process for each kind of device. It is shared by the tests, because starting one takes seconds."""
    started: dict[str, Peer] = {}
    yield started
    for each in started.values():
        each.end()
        assert (each.code, each.errors) == (0, "")


@pytest.fixture
def exporter(kind: str, exporters: dict[str, Peer]) -> Iterator[Peer]:
    found = exporters.get(kind) or exporters.setdefault(kind, Peer(kind))
    yield found
    found.run("reset()")
    assert found.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True


def content(size: int) -> bytes:
    return bytes(np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8))


def pool_is_imported(ctx: Any, text: str) -> bool:
    return handle(text)._handle.broker in _core._imported_brokers(ctx.saeta)


@pytest.mark.parametrize("size", SIZES)
def test_another_process_has_the_same_bytes(ctx: Any, exporter: Peer, size: int) -> None:
    data = content(size)
    text = exporter.run(
        f"made = ctx.buffer_from_data(np.random.default_rng({size})"
        f".integers(0, 256, {size}, dtype=np.uint8))\n"
        "result = export(made)"
    )
    opened_here = ctx.open_ipc_buffer(handle(text))
    assert isinstance(opened_here, cuda.CudaBuffer)
    assert (opened_here.size, opened_here.is_cpu, opened_here.is_mutable) == (size, False, True)
    assert opened_here.context.device_number == 0
    assert opened_here.copy_to_host().to_pybytes() == data
    opened_here.copy_from_host(data[::-1])
    assert exporter.run("result = made.to_pybytes()[::-1] == bytes(made.copy_to_host())[::-1]") is True
    assert exporter.run("result = made.to_pybytes().hex()") == data[::-1].hex()


def test_slices_keep_their_offset(ctx: Any, exporter: Peer) -> None:
    texts = exporter.run(
        "made = ctx.buffer_from_data(np.arange(256, dtype=np.uint8))\n"
        "parts = [made.slice(10, 20), made.slice(10).slice(7, 5), made.slice(255), made.slice(3, 0), made]\n"
        "result = [export(each) for each in parts]"
    )
    whole = bytes(range(256))
    expected = [whole[10:30], whole[17:22], whole[255:], b"", whole]
    found = [ctx.open_ipc_buffer(handle(each)) for each in texts]
    assert [each.to_pybytes() for each in found] == expected
    assert found[0].slice(3, 4).to_pybytes() == whole[13:17]
    assert found[1].address - found[0].address == 7, "all slices use one mapping"
    found[1].copy_from_host(b"-----")
    assert found[4].to_pybytes() == whole[:17] + b"-----" + whole[22:]


@pytest.mark.parametrize("way", ["end", "kill"])
def test_imported_memory_outlives_the_exporter(ctx: Any, kind: str, way: str) -> None:
    with Peer(kind) as exporter:
        text = exporter.run("made = ctx.buffer_from_data(b'x' * 100_000)\nresult = export(made)")
        unopened = exporter.run("other = ctx.buffer_from_data(b'y')\nresult = export(other)")
        opened = ctx.open_ipc_buffer(handle(text))
        assert pool_is_imported(ctx, text)
        getattr(exporter, way)()
        assert opened.to_pybytes() == b"x" * 100_000
        opened.copy_from_host(b"z", position=5)
        assert opened.to_pybytes()[4:7] == b"xzx"
        for each in (text, unopened):
            with pytest.raises(OSError, match="the process that exported the buffer has ended"):
                ctx.open_ipc_buffer(handle(each))
    assert exporter.errors == ""
    assert eventually(lambda: not pool_is_imported(ctx, text)), "the pool of an ended process is closed"


def test_the_exporter_keeps_memory_that_others_have_open(ctx: Any, exporter: Peer) -> None:
    """Otherwise the exporter's pool would reuse the memory while the importer reads it."""
    for turn in range(20):
        text = exporter.run(f"made = ctx.buffer_from_data(bytes([{turn}]) * 5000)\nresult = export(made)")
        opened = ctx.open_ipc_buffer(handle(text))
        exporter.run("del made\ngc.collect()\nctx.synchronize()")
        assert exporter.run("result = ctx.bytes_allocated") == 5000
        exporter.run("others = [ctx.buffer_from_data(b'\\xff' * 5000) for _ in range(50)]\ndel others")
        assert opened.to_pybytes() == bytes([turn]) * 5000
        del opened
        ctx.synchronize()
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True, turn


def test_many_exports_leak_nothing(ctx: Any, exporter: Peer) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    exporter.run("made = ctx.buffer_from_data(b'0123456789')\ntext = export(made)")
    del_first = ctx.open_ipc_buffer(handle(exporter.run("result = text")))
    del del_first
    ctx.synchronize()
    before, here = ctx.saeta.memory.statistics()["buffers"], descriptors()
    there = exporter.run("result = len(os.listdir('/proc/self/fd'))")
    for turn in range(ROUNDS):
        text = exporter.run(
            f"made = ctx.buffer_from_data(b'%09d' % {turn})\nresult = export(made.slice(3))"
            if turn % 2
            else f"made.copy_from_host(b'%09d' % {turn})\nresult = export(made)"
        )
        # A dropped slice is not shared any more, but a handle keeps its memory shared.
        if turn % 2:
            exporter.run("part = made.slice(3)\nhandle = part.export_for_ipc()\ndel part")
            text = exporter.run("result = handle.serialize().to_pybytes().hex()")
        opened = ctx.open_ipc_buffer(handle(text))
        expected = b"%09d" % turn
        assert opened.to_pybytes()[: 9 if turn % 2 == 0 else 6] == (expected[3:] if turn % 2 else expected)
        del opened
    ctx.synchronize()
    exporter.run("del made, handle\ngc.collect()")
    assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True
    assert eventually(lambda: ctx.saeta.memory.statistics()["buffers"] == before)
    assert eventually(lambda: descriptors() <= here + 1)
    assert (
        exporter.run(f"result = wait_until(lambda: len(os.listdir('/proc/self/fd')) <= {there} + 1)") is True
    )


def test_the_handle_or_the_buffer_must_be_kept_until_it_is_opened(ctx: Any, exporter: Peer) -> None:
    by_handle = exporter.run(
        "kept = ctx.buffer_from_data(b'abc').export_for_ipc()\nresult = kept.serialize().to_pybytes().hex()"
    )
    assert ctx.open_ipc_buffer(handle(by_handle)).to_pybytes() == b"abc"
    by_buffer = exporter.run("made = ctx.buffer_from_data(b'def')\nresult = export(made)")
    assert ctx.open_ipc_buffer(handle(by_buffer)).to_pybytes() == b"def"
    by_nobody = exporter.run("result = export(ctx.buffer_from_data(b'ghi'))")
    with pytest.raises(OSError, match=r"is not shared any more: .* must be kept until it is opened"):
        ctx.open_ipc_buffer(handle(by_nobody))


def test_memory_is_closed_after_pending_foreign_reads() -> None:
    with Peer("sim") as exporter, simulated() as (device,):
        ctx = cuda.Context(0)
        text = exporter.run("made = ctx.buffer_from_data(b'\\x07' * 4096)\nresult = export(made)")
        opened = ctx.open_ipc_buffer(handle(text))
        work = device.read_late(opened.address, 4096, 2.0)
        exporter.run("del made\ngc.collect()")
        del opened
        assert exporter.run("ctx.synchronize()\nresult = ctx.bytes_allocated") == 4096, "read pending"
        assert work.seen() == b"\x07" * 4096
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True
        del work


def test_an_export_waits_for_pending_foreign_writes() -> None:
    """Each export waits: the buffer is written again after every export."""
    with Peer("sim") as importer, simulated() as (device,):
        ctx = cuda.Context(0)
        buffer = ctx.buffer_from_data(bytes(64))
        for value in range(1, 6):
            work = device.fill_late(buffer.address, 64, value, 0.02)
            text = buffer.export_for_ipc().serialize().to_pybytes().hex()
            # Checked in this process, because the write would be done before the other process reads.
            assert ctypes.string_at(buffer.address, 64) == bytes([value]) * 64
            assert importer.run(f"result = opened_handle({text!r}).to_pybytes()") == bytes([value]) * 64
            del work
        del buffer


def test_the_exporting_process_can_open_its_own_handle(exporter: Peer) -> None:
    """The test runs in the other process, because this one may have opened the GPU without an exportable
    pool."""
    found = exporter.run("""
made = ctx.buffer_from_data(b"0123456789")
part = made.slice(2, 4)
again = ctx.open_ipc_buffer(cuda.IpcMemHandle.from_buffer(part.export_for_ipc().serialize()))
again.copy_from_host(b"abcd")
result = (again.address - made.address, again.size, made.to_pybytes())
""")
    assert found == (2, 4, b"01abcd6789")
    assert exporter.run("result = export(made) == export(made)") is True, "a buffer is shared once"
    assert exporter.run("result = repr(made.export_for_ipc())") == "<saeta.cuda.IpcMemHandle of 10 bytes>"
    with pytest.raises(RefusedError, match=r"OSError.*is not shared any more"):
        exporter.run("opened_handle(export(ctx.buffer_from_data(b'x')))")


def test_only_memory_of_the_context_itself_can_be_exported(ctx: Any, exporter: Peer) -> None:
    with pytest.raises(
        RefusedError, match=r"UnsupportedError.*5 bytes 'saeta.cuda' of .*: copy them into a buffer"
    ):
        exporter.run(
            "made = ctx.buffer_from_data(b'0123456789')\n"
            "ctx.foreign_buffer(made.address, 5, made).export_for_ipc()"
        )
    text = exporter.run("result = export(made)")
    with pytest.raises(NotImplementedError, match="memory of another owner"):
        ctx.open_ipc_buffer(handle(text)).export_for_ipc()
    host = cuda.Context.from_saeta(sa.context("host"))
    with pytest.raises(NotImplementedError, match="are host memory: only device memory is shared"):
        host.buffer_from_data(b"abc").export_for_ipc()


def test_the_error_without_an_exportable_pool_names_the_option() -> None:
    with simulated(exportable=False):
        buffer = cuda.Context(0).buffer_from_data(b"abc")
        with pytest.raises(sa.UnsupportedError, match=r"saeta.context\(..., exportable_pool=True\)"):
            buffer.export_for_ipc()
        del buffer


def test_the_host_has_no_exportable_pool(run_python: Any) -> None:
    program = """
import saeta as sa
try:
    sa.context("host", exportable_pool=True)
except sa.UnsupportedError as refused:
    print(refused)
print(sa.context("host").options["exportable_pool"])
try:
    sa.context("host", exportable_pool=True)
except sa.InvalidError as refused:
    print(refused)
"""
    done = run_python(program)
    assert done.stderr == ""
    first, second, third = done.stdout.splitlines()
    assert first.startswith("the host has no pool of memory to export")
    assert second == "False"
    assert third.startswith("the context of host already exists without an exportable pool")


@pytest.mark.gpu
@pytest.mark.parametrize("option", ["", ", exportable_pool=True"])
def test_a_program_that_opens_the_context_first_chooses_its_pool(run_python: Any, option: str) -> None:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    program = f"""
import saeta as sa
first = sa.context("cuda:0"{option})
import saeta.cuda as cuda
made = cuda.Context(0).buffer_from_data(b"abc")
assert cuda.Context(0).saeta == first
try:
    print(cuda.Context(0).open_ipc_buffer(made.export_for_ipc()).to_pybytes())
except sa.UnsupportedError as refused:
    print("exportable_pool=True" in str(refused))
"""
    done = run_python(program)
    assert done.stderr == ""
    assert done.stdout.strip() == ("b'abc'" if option else "True")


def test_a_handle_is_valid_on_one_device() -> None:
    with simulated(2):
        buffer = cuda.Context(0).buffer_from_data(b"abc")
        with pytest.raises(pa.ArrowInvalid, match="memory of another device than sim:1"):
            cuda.Context(1).open_ipc_buffer(buffer.export_for_ipc())
        del buffer


def test_a_handle_is_valid_on_one_machine(ctx: Any, exporter: Peer) -> None:
    known = handle(exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)"))._handle
    other = cuda.IpcMemHandle._make(known._replace(boot=bytes(16)))
    with pytest.raises(OSError, match="on another machine, or before this one was started again"):
        ctx.open_ipc_buffer(other)


def test_a_handle_with_a_wrong_size_is_refused(ctx: Any, exporter: Peer) -> None:
    known = handle(exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)"))._handle
    for size in (0, 2, 1 << 40):
        with pytest.raises(OSError, match=f"the handle is of {size} bytes, but the shared buffer has 3"):
            ctx.open_ipc_buffer(cuda.IpcMemHandle._make(known._replace(size=size)))
    assert (
        exporter.run("del made\ngc.collect()\nresult = wait_until(lambda: ctx.bytes_allocated == 0)") is True
    )


def test_a_wrong_token_opens_nothing(ctx: Any, exporter: Peer) -> None:
    known = handle(exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)"))._handle
    with pytest.raises(OSError, match="is not shared any more"):
        ctx.open_ipc_buffer(cuda.IpcMemHandle._make(known._replace(token=bytes(16))))


def test_a_pool_is_imported_once() -> None:
    """Each import is a connection to the exporter that stays open, beside that of the lease."""
    with Peer("sim") as exporter, simulated():
        ctx = cuda.Context(0)
        counts = []
        for turn in range(6):
            text = exporter.run(f"made = ctx.buffer_from_data(b'%d' % {turn})\nresult = export(made)")
            assert ctx.open_ipc_buffer(handle(text)).to_pybytes() == b"%d" % turn
            assert pool_is_imported(ctx, text)
            counts.append(exporter.run("result = len(os.listdir('/proc/self/fd'))"))
    later = counts[1:]  # after the first turn the broker may not have closed yet what it has sent
    assert later == later[:1] * 5


def test_threads_open_and_close_handles_concurrently(ctx: Any, exporter: Peer) -> None:
    texts = exporter.run(
        "made = [ctx.buffer_from_data(bytes([number]) * 3000) for number in range(8)]\n"
        "result = [export(each) for each in made]"
    )

    def work(number: int) -> None:
        for turn in range(30):
            which = (number + turn) % 8
            assert ctx.open_ipc_buffer(handle(texts[which])).to_pybytes() == bytes([which]) * 3000

    run_in_threads(8, work)
    ctx.synchronize()
    assert (
        exporter.run("del made\ngc.collect()\nresult = wait_until(lambda: ctx.bytes_allocated == 0)") is True
    )


FORK = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
found = opened_handle({text!r})
child = os.fork()
if child == 0:
    os.closerange(0, 3)
    time.sleep(100)
    os._exit(0)
result = child
"""


@pytest.mark.parametrize("way", ["del found", "os._exit(0)"])
def test_a_forked_child_of_the_importer_holds_no_lease(way: str) -> None:
    with Peer("sim") as exporter:
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        importer = Peer("sim")
        child = importer.run(FORK.format(text=text))
        try:
            exporter.run("del made\ngc.collect()\nctx.synchronize()")
            assert exporter.run("result = ctx.bytes_allocated") == 3
            if way == "del found":
                importer.run("del found\nctx.synchronize()")
            else:
                importer.kill()
            assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True
        finally:
            os.kill(child, signal.SIGKILL)
            importer.end()
    assert exporter.errors == ""


def test_a_forked_child_of_the_exporter_has_its_own_broker() -> None:
    program = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
made = ctx.buffer_from_data(b"abc")
handle = made.export_for_ipc()
name = _core._broker_name()
reading, writing = os.pipe()

def broker_threads():
    tasks = os.listdir("/proc/self/task")
    return sum(open(f"/proc/self/task/{each}/comm").read() == "saeta-broker\\n" for each in tasks)

child = os.fork()
if child == 0:
    own = _core._broker_name()
    while broker_threads() == 0:  # a thread names itself
        time.sleep(0.001)
    alive = broker_threads() == 1
    found = _core._find_shared(handle._handle.token)
    os.write(writing, repr((own != name, alive, found is None)).encode())
    os.closerange(0, 3)
    time.sleep(100)
    os._exit(0)
result = (os.read(reading, 1000).decode(), child, handle.serialize().to_pybytes().hex())
"""
    with simulated():
        ctx = cuda.Context(0)
        exporter = Peer("sim")
        seen, child, text = exporter.run(program)
        try:
            assert seen == "(True, True, True)"
            opened = ctx.open_ipc_buffer(handle(text))
            assert opened.to_pybytes() == b"abc"
            assert pool_is_imported(ctx, text)
            exporter.kill()
            assert eventually(lambda: not pool_is_imported(ctx, text)), (
                "the child must not keep the pool alive"
            )
            with pytest.raises(OSError, match="has ended"):
                ctx.open_ipc_buffer(handle(text))
            del opened
        finally:
            os.kill(child, signal.SIGKILL)


def test_processes_exit_cleanly_with_open_handles(kind: str) -> None:
    with Peer(kind) as exporter:
        text = exporter.run("made = ctx.buffer_from_data(b'abc')\nresult = export(made)")
        with Peer(kind) as importer:
            assert importer.run(f"found = opened_handle({text!r})\nresult = found.to_pybytes()") == b"abc"
        assert (importer.code, importer.errors) == (0, "")
        exporter.run("del made\ngc.collect()")
        assert exporter.run("result = wait_until(lambda: ctx.bytes_allocated == 0)") is True
        exporter.run("kept = ctx.buffer_from_data(b'abc')\nhandle = kept.export_for_ipc()")
    assert (exporter.code, exporter.errors) == (0, "")


SIMULATED = """
import sys
sys.path[:0] = {path!r}
import saeta.cuda
from saeta.cuda import _devices
from sim_devices import simulator
device = simulator().Device(0, None, True)
_devices.stand_ins[0] = device.context
saeta.cuda.install()
"""


def test_pyarrows_own_test_of_handles_passes(tmp_path: Path) -> None:
    """Runs pyarrow's test on simulated devices. tests/interop/test_gpu_cuda_module.py runs all its tests on a
    GPU."""
    simulator()
    (tmp_path / "sitecustomize.py").write_text(SIMULATED.format(path=sys.path))
    assert "3 passed" in run_pyarrows_tests("test_cuda", "test_IPC", tmp_path)
