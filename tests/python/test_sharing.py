"""Tables shared with other processes: their values, the lifetime of the memory, and cleanup after a process
is killed.

The other processes are real. SAETA_SHARING_ROUNDS=5000 makes a longer run.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from socket import send_fds
from typing import Any

import numpy as np
import pytest

import arrow_data
import pickled_work
import saeta as sa
from saeta import _core
from saeta._share import tables
from share_wire import DONE, SIZES, FalseBroker, limits
from sharing_peer import Peer, charged, few_descriptors, received, sent
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")

ROUNDS = int(os.environ.get("SAETA_SHARING_ROUNDS", "16"))


def test_every_type_can_be_shared(peer: Peer) -> None:
    source = arrow_data.table()
    token = sa.from_arrow(source, "host").share()
    assert len(pickle.dumps(token)) < 500
    assert peer.run(f"print(opened({sent(token)!r}).to_arrow().equals(arrow_data.table()), flush=True)") == [
        "True"
    ]
    (text,) = peer.run("kept = sa.from_arrow(arrow_data.table(), 'host').share(); show(kept)")
    table = sa.open_shared(received(text))
    assert table.device == "host"
    assert table.to_arrow().equals(source)
    assert table.to_arrow().schema.equals(source.schema, check_metadata=True)


def test_shared_memory_is_read_only(peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'a': np.arange(9)}, 'host').share(); show(kept)")
    table = sa.open_shared(received(text))
    array = np.from_dlpack(table["a"])
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)


def test_the_file_of_a_table_is_sealed() -> None:
    token = sa.table({"a": np.arange(9)}, "host").share()
    assert token._entry is not None
    number = token._entry.file
    for change in (
        lambda: os.pwrite(number, b"x", 0),
        lambda: os.ftruncate(number, 1),
        lambda: os.ftruncate(number, 1 << 20),
    ):
        with pytest.raises(PermissionError):
            change()


def test_sharing_a_table_again_uses_the_same_memory(peer: Peer) -> None:
    table = sa.table({"a": np.arange(100_000)}, "host")
    before = charged()
    first = table.share()
    assert charged() == before + first.nbytes, "the metadata are charged too"
    second = table.share()
    assert first._place.token == second._place.token
    assert sa.open_shared(first) is sa.open_shared(second)
    assert sa.open_shared(first)["a"].to_pylist()[-1] == 99_999
    del first, second
    gc.collect()
    assert eventually(lambda: charged() == before)


def test_a_consumer_keeps_the_memory(peer: Peer) -> None:
    before = charged()
    token = sa.table({"a": np.arange(100_000)}, "host").share()
    text = sent(token)
    peer.run(f"found = opened({text!r})")
    del token
    gc.collect()
    assert charged() > before
    peer.run(f"again = opened({text!r}); assert again is found")
    peer.run("del found, again; gc.collect(); sa.context('host').synchronize()")
    assert eventually(lambda: charged() == before)
    assert peer.run(f"""
try:
    opened({text!r})
except sa.ClosedError as gone:
    print("not shared any more" in str(gone), flush=True)
""") == ["True"]


def test_a_killed_consumer_releases_its_tables() -> None:
    before = charged()
    token = sa.table({"a": np.arange(100_000)}, "host").share()
    text = sent(token)
    with Peer() as first, Peer() as second:
        for each in (first, second):
            each.run(f"found = opened({text!r})")
        del token
        gc.collect()
        first.kill()
        time.sleep(0.01)
        assert charged() > before, "the second consumer keeps the memory"
        second.kill()
        assert eventually(lambda: charged() == before)


def test_open_tables_of_a_killed_producer_stay_valid() -> None:
    with Peer() as producer:
        (text, other) = producer.run(
            "table = sa.table({'a': np.arange(100_000)}, 'host'); kept = table.share(); show(kept)\n"
            "unopened = sa.table({'b': [1]}, 'host').share(); show(unopened)"
        )
        table = sa.open_shared(received(text))
        producer.kill()
    assert table["a"].to_pylist() == [*range(100_000)]
    with pytest.raises(sa.ClosedError, match="has ended"):
        sa.open_shared(received(other))
    assert sa.open_shared(received(text)) is table
    del table
    gc.collect()
    with pytest.raises(sa.ClosedError, match="has ended"):
        sa.open_shared(received(text))


def test_a_consumer_can_share_an_opened_table(peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
    table = sa.open_shared(received(text))
    again = table.share()
    assert again._place.token == received(text)._place.token
    with Peer() as third:
        third.run(f"found = opened({sent(again)!r})")
        peer.run("del kept; gc.collect()")
        del table, again
        gc.collect()
        assert third.run("print(found['a'].to_pylist(), flush=True)") == ["[1, 2]"]
        rows = third.run("part = found[1:].share(); show(part)")
        assert sa.open_shared(received(rows[0]))["a"].to_pylist() == [2]


def test_the_producer_can_open_and_share_its_own_table(peer: Peer) -> None:
    token = sa.table({"a": [1, 2]}, "host").share()
    table = sa.open_shared(received(sent(token)))
    del token
    gc.collect()
    assert peer.run(f"print(opened({sent(table.share())!r})['a'].to_pylist(), flush=True)") == ["[1, 2]"]


def test_a_forwarded_table_arrives_after_all_others_dropped_it(reducers: Any, peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
    table = sa.open_shared(received(text))
    messages = [bytes(ForkingPickler.dumps(table)) for _ in range(2)]
    peer.run("del kept")
    del table
    gc.collect()
    with Peer() as third:
        for message in messages:
            seen = third.run(f"print(pickle.loads({message!r})['a'].to_pylist(), flush=True)")
            assert seen == ["[1, 2]"]
    peer.run("gc.collect(); assert not charged(), charged()")


def test_a_table_of_an_ended_process_can_be_forwarded(reducers: Any, peer: Peer) -> None:
    with Peer() as first:
        (text,) = first.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
        table = sa.open_shared(received(text))
    message = bytes(ForkingPickler.dumps(table))
    del table
    gc.collect()
    assert peer.run(f"print(pickle.loads({message!r})['a'].to_pylist(), flush=True)") == ["[1, 2]"]


def test_a_table_of_an_ended_process_can_be_shared_again(peer: Peer) -> None:
    with Peer() as first:
        texts = first.run(
            "tables = [sa.table({'a': values}, 'host') for values in ([1, 2], [])]\n"
            "kept = [each.share() for each in tables]\n"
            "for each in kept: show(each)"
        )
        found = [sa.open_shared(received(text)) for text in texts]
        assert found[0].share()._place == received(texts[0])._place
        first.kill()
    tokens = [each.share() for each in found]
    assert tokens[0]._place == found[0].share()._place
    for token, expected in zip(tokens, ("[1, 2]", "[]"), strict=True):
        assert peer.run(f"print(opened({sent(token)!r})['a'].to_pylist(), flush=True)") == [expected]


def test_a_table_opened_by_two_threads_at_once_is_shared_by_its_own_token() -> None:
    with Peer() as first:
        (text,) = first.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
        table = sa.open_shared(received(text))
        assert tables._open(received(text)._place, None, True) is table
        gc.collect()
        assert table.share()._place == received(text)._place


def test_receiving_one_message_does_not_release_another(reducers: Any, peer: Peer) -> None:
    table = sa.table({"a": [1, 2]}, "host")
    first, second = (bytes(ForkingPickler.dumps(table)) for _ in range(2))
    (text,) = peer.run(f"found = pickle.loads({first!r}); show(found.share())")
    sa.open_shared(received(text))
    del table
    peer.run("del found; gc.collect()")
    gc.collect()
    assert peer.run(f"print(pickle.loads({second!r})['a'].to_pylist(), flush=True)") == ["[1, 2]"]


def test_a_process_can_send_a_table_to_itself(reducers: Any) -> None:
    before = charged()
    message = bytes(ForkingPickler.dumps(sa.table({"a": [1, 2]}, "host")))
    assert _core._posted_shared()
    restored = pickle.loads(message)
    assert restored["a"].to_pylist() == [1, 2]
    assert not _core._posted_shared()
    del restored
    assert eventually(lambda: charged() == before)


def test_receiving_a_table_twice_releases_it_in_the_sender(reducers: Any, peer: Peer) -> None:
    """Both messages are received while the table is open, or one after the other."""
    texts = peer.run("""
from multiprocessing.reduction import ForkingPickler
sa.install_reducers()
table = sa.table({'a': [1, 2]}, 'host')
for _ in 'ab': print(bytes(ForkingPickler.dumps(table)).hex(), flush=True)
del table
""")
    found = [pickle.loads(bytes.fromhex(each)) for each in texts]
    assert found[0] is found[1]
    reserved = "gc.collect(); print(sa.context('host').memory.statistics()['reserved'], flush=True)"
    assert int(peer.run(reserved)[0]) > 0
    del found
    assert eventually(lambda: peer.run(reserved) == ["0"])


def test_sharing_works_again_after_running_out_of_descriptors(monkeypatch: Any) -> None:
    table = sa.table({"a": [1, 2]}, "host")
    in_destructors: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(sys, "unraisablehook", in_destructors.append)
        with (
            few_descriptors(),
            pytest.raises(
                sa.FileError, match=r"no file of \d+ bytes in memory can be made: Too many open files"
            ),
        ):
            table.share()
        gc.collect()
    assert in_destructors == []
    assert sa.open_shared(table.share())["a"].to_pylist() == [1, 2]


def test_values_are_validated_on_request(peer: Peer) -> None:
    """A requested check is made even if the process has already opened the table without one."""
    (text,) = peer.run("""
from saeta import _core
from saeta._share import tables
metadata, body = sa.table({'s': ['aaaa', 'bbbb']}, 'host').pack()
right, wrong = (np.array([0, 4, last], np.int32).tobytes() for last in (8, 1 << 30))
content = bytes(np.from_dlpack(body)).replace(right, wrong)
body = sa.column(np.frombuffer(content, np.uint8), 'host', name='body')
kept = tables._token_of(_core._share_packed(metadata, body))
show(kept)
""")
    trusted = sa.open_shared(received(text), validate=False)
    assert sa.open_shared(received(text), validate=False) is trusted
    for _ in range(2):
        with pytest.raises(sa.FormatError, match="column 's'"):
            sa.open_shared(received(text))
    del trusted


def test_a_table_opened_without_validation_is_validated_once(peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'s': ['aaaa', 'bbbb']}, 'host').share(); show(kept)")
    trusted = sa.open_shared(received(text), validate=False)
    known = tables._find(trusted)
    assert known is not None
    assert known.opened is not None
    assert known.opened.unchecked
    assert sa.open_shared(received(text)) is trusted
    assert not known.opened.unchecked
    assert sa.open_shared(received(text)) is trusted


FORKED = """
child = os.fork()
if child == 0:
    try:
        exec({code!r})
    finally:
        os._exit(0)
print(child, flush=True)
"""


class Child:
    """A process forked by another process, which takes milliseconds to start."""

    def __init__(self, parent: Peer, code: str) -> None:
        self.parent = parent
        self.pid = int(parent.run(FORKED.format(code=code))[0])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.parent.run(f"os.waitpid({self.pid}, 0)")


CONSUMER = """
while True:
    found = opened({text!r})
    found['a'].to_pylist()
    del found
    gc.collect()
"""
PRODUCER = """
table = sa.table({{'a': np.arange(5000)}}, 'host')
kept = table.share()
with open({path!r} + '.part', 'w') as target:
    target.write(pickle.dumps(kept).hex())
os.rename({path!r} + '.part', {path!r})
while True:
    sa.table({{'b': np.arange(9)}}, 'host').share()
"""


def test_processes_killed_at_any_moment_leak_nothing(peer: Peer, tmp_path: Path) -> None:
    """Kills producers and consumers at random moments while they share and open tables."""
    chance = random.Random(3)
    table = sa.table({"a": np.arange(5000)}, "host")
    expected = table["a"].to_pylist()
    before = charged()
    for turn in range(ROUNDS):
        if turn % 2:
            token = table.share()
            consumer = Child(peer, CONSUMER.format(text=sent(token)))
            time.sleep(chance.random() * 0.05)
            consumer.kill()
            assert sa.open_shared(token)["a"].to_pylist() == expected
            del token
        else:
            path = tmp_path / f"token-{turn}"
            producer = Child(peer, PRODUCER.format(path=str(path)))
            assert eventually(path.exists)
            shared = received(path.read_text())
            moment = time.monotonic() + chance.random() * 0.05
            found = sa.open_shared(shared)
            while time.monotonic() < moment:
                found = sa.open_shared(shared)
            producer.kill()
            assert found["a"].to_pylist() == expected
            del found
            gc.collect()
            with pytest.raises(sa.ClosedError):
                sa.open_shared(shared)
        assert eventually(lambda: charged() == before), turn


def test_another_user_is_refused() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    table = sa.table({"a": [1]}, "host")
    token = table.share()
    with Peer() as other:
        assert other.run(f"""
os.setresuid(65534, 65534, 65534)
try:
    opened({sent(token)!r})
except PermissionError as refused:
    print(type(refused).__name__, refused, flush=True)
mine = sa.table({{'a': [2]}}, 'host').share()
""") == [
            "AccessError the table can't be opened: the buffer was exported by user 0, this process is of "
            "user 65534"
        ]
        (text,) = other.run("show(mine)")
        with pytest.raises(sa.AccessError, match="by user 65534"):
            sa.open_shared(received(text))


def test_after_setuid_a_process_shares_as_the_new_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    with Peer() as other:
        assert other.run("""
kept = [sa.table({'a': [1]}, 'host').share()]
os.setresuid(65534, 65534, 65534)
kept.append(sa.table({'a': [2]}, 'host').share())
for token in pickle.loads(pickle.dumps(kept)):
    child = os.fork()
    if child == 0:
        try:
            print(sa.open_shared(token)['a'].to_pylist(), flush=True)
        except sa.Error as refused:
            print(type(refused).__name__, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
""") == ["AccessError", "[2]"]


def test_errors_describe_invalid_tokens(monkeypatch: Any) -> None:
    token = sa.table({"a": [1]}, "host").share()
    far = received(sent(token))
    far._place = far._place._replace(boot=bytes(16))
    with pytest.raises(sa.ExchangeError, match="another machine"):
        sa.open_shared(far)
    with pytest.raises(sa.TypeMismatch, match="expected a SharedTable"):
        sa.open_shared(b"token")  # type: ignore[arg-type]
    with pytest.raises(sa.TypeMismatch, match=r"use Table\.share"):
        sa.SharedTable()
    assert repr(token).startswith("<saeta.SharedTable of ")
    unknown = received(sent(token))
    unknown._place = unknown._place._replace(token=bytes(16))
    with pytest.raises(sa.ClosedError, match="not shared any more"):
        sa.open_shared(unknown)


@pytest.mark.parametrize("content", ["open file", "memory without seals", "too short"])
def test_an_unsealed_file_is_refused(tmp_path: Path, content: str) -> None:
    """The process that shares the table sends such a file in place of a sealed one."""
    if content == "open file":
        (tmp_path / "a").write_bytes(bytes(4096))
        number = os.open(tmp_path / "a", os.O_RDWR)
    else:
        number = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(number, 4096 if content == "memory without seals" else 100)
    false = FalseBroker(
        lambda connection: send_fds(connection, [bytes([DONE]) + SIZES.pack(4000, 96)], [number])
    )
    place = tables._Place(_core._machine_id(), false.name, bytes(16), b"", 4096, False)
    try:
        with pytest.raises(sa.FormatError, match="seals"):
            sa.open_shared(tables._restored_token(*place))
    finally:
        false.close()
        os.close(number)


def test_shared_memory_is_charged_to_the_budget() -> None:
    child = sa.context("host").memory.child("share", "1MiB")
    table = sa.table({"a": np.arange(20_000)}, child)
    token = table[:10_000].share()
    with pytest.raises(sa.BudgetExceeded):
        sa.table({"a": np.arange(200_000)}, child).share()
    del token, table
    gc.collect()
    child.close()


def test_a_forked_child_shares_its_own_tables(peer: Peer) -> None:
    token = sa.table({"a": [1, 2]}, "host").share()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            seen = sa.open_shared(token)["a"].to_pylist()
            mine = sa.table({"b": [3]}, "host").share()
            os.write(writing, repr((seen, mine._place.broker != token._place.broker)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000).decode() == "([1, 2], True)"
    os.close(reading)
    os.close(writing)


def test_a_forked_child_can_open_the_tables_of_its_parent(peer: Peer) -> None:
    """The parent caches an idle connection, which the child must close."""
    (text,) = peer.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
    token = received(text)
    table = sa.open_shared(token)
    del table
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if sa.open_shared(token)["a"].to_pylist() == [1, 2] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sa.open_shared(token)["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_shares_tables(reducers: Any, method: str) -> None:
    words = [None, "x", "y"] * 10
    table = sa.table({"a": np.arange(30), "w": words}, "host")
    with multiprocessing.get_context(method).Pool(1) as pool:
        turned, seen = pool.apply(pickled_work.turned, (table, table["w"]))
        assert turned["a"].to_pylist() == [*range(1, 30), 0]
        assert seen["values"] == words
        for each in pool.map(pickled_work.total, [table] * 10):
            assert each == 435
    assert eventually(lambda: not _core._posted_shared())


def test_torch_queues_share_tables(reducers: Any) -> None:
    torch = pytest.importorskip("torch.multiprocessing")
    table = sa.table({"a": np.arange(30)}, "host")
    context = torch.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    worker = context.Process(target=pickled_work.total_of_queue, args=(queue, answers))
    worker.start()
    queue.put(table)
    assert answers.get(timeout=60) == 435
    worker.join()
    queue.close()
    answers.close()
    queue.join_thread()
    answers.join_thread()


def test_a_peer_that_does_not_reply_is_an_error(reducers: Any) -> None:
    with limits(wait=0.2), Peer() as other:
        (text, second) = other.run(
            "kept = [sa.table({'a': [1]}, 'host').share() for _ in 'ab']; [show(x) for x in kept]"
        )
        table = sa.open_shared(received(second))
        other.process.send_signal(signal.SIGSTOP)
        os.waitpid(other.process.pid, os.WUNTRACED)
        try:
            with pytest.raises(sa.ExchangeError, match=r"has not replied for 0\.2 seconds"):
                sa.open_shared(received(text))
            with pytest.raises(
                sa.ExchangeError, match=r"can't be sent on: .* has not replied for 0\.2 seconds"
            ):
                ForkingPickler.dumps(table)
        finally:
            other.process.send_signal(signal.SIGCONT)
        assert sa.open_shared(received(text))["a"].to_pylist() == [1]
