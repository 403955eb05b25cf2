"""Hand-over at process exit: tables sent through multiprocessing (`install_reducers`) arrive even if the
sender has ended. A keeper process holds their memory until then."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest

import pickled_work
import saeta as sa
from saeta._share import broker, handover, tables, wire
from sharing_peer import Peer
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")

METHODS = ["fork", "spawn", "forkserver"]
ROWS = [[0], [1], [2]]


@pytest.fixture(params=METHODS)
def started(request: Any) -> Any:
    """The multiprocessing context of a start method."""
    return multiprocessing.get_context(request.param)


def test_tables_in_a_queue_arrive_after_the_sender_has_ended(started: Any) -> None:
    queue = started.Queue()
    process = started.Process(target=pickled_work.put_and_end, args=(queue, 3))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert [queue.get(timeout=60)["a"].to_pylist() for _ in range(3)] == ROWS
    queue.close()
    queue.join_thread()


def test_tables_in_a_pipe_arrive_after_the_sender_has_ended(started: Any) -> None:
    ours, theirs = started.Pipe(False)
    process = started.Process(target=pickled_work.send_and_end, args=(theirs, 3))
    process.start()
    theirs.close()
    process.join(60)
    assert [ours.recv()["a"].to_pylist() for _ in range(3)] == ROWS
    ours.close()


def test_results_of_workers_that_exit_after_one_task_arrive(started: Any) -> None:
    with started.Pool(1, maxtasksperchild=1) as pool:
        found = pool.map_async(pickled_work.share_one, range(3), chunksize=1).get(timeout=120)
    assert [each["a"].to_pylist() for each in found] == ROWS


@pytest.mark.parametrize("method", ["spawn", "forkserver"])  # "fork" has no max_tasks_per_child
def test_results_of_an_executor_arrive(method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        found = list(pool.map(pickled_work.share_one, range(3), timeout=120))
    assert [each["a"].to_pylist() for each in found] == ROWS


def messages_of(code: str) -> list[bytes]:
    """Runs code in a process that then exits. Returns the pickled messages that it made."""
    made = subprocess.run(
        [sys.executable, "-c", SENDING.format(path=sys.path, code=code)], capture_output=True, text=True
    )
    assert made.stderr == ""
    return [bytes.fromhex(each) for each in made.stdout.split()]


SENDING = """
import sys
sys.path[:0] = {path!r}
import os
from multiprocessing.reduction import ForkingPickler
import saeta as sa
sa.install_reducers()
def sent(values):
    return bytes(ForkingPickler.dumps(sa.table({{"a": values}}, "host")))
{code}
for each in messages:
    print(each.hex(), flush=True)
"""


def test_a_process_not_started_by_multiprocessing_hands_over() -> None:
    assert pickle.loads(messages_of("messages = [sent([1, 2])]")[0])["a"].to_pylist() == [1, 2]


def test_a_child_of_os_fork_hands_over() -> None:
    (message,) = messages_of("""
messages = []
child = os.fork()
if child:
    os.waitpid(child, 0)
    os._exit(0)
messages = [sent([1, 2])]
""")
    assert pickle.loads(message)["a"].to_pylist() == [1, 2]


def test_every_message_of_an_ended_process_is_counted() -> None:
    """The messages are three of one table, received while it is open or afterwards, and one of another
    table."""
    code = "table = sa.table({'a': [1, 2]}, 'host')\n"
    code += "messages = [bytes(ForkingPickler.dumps(table)) for _ in range(3)] + [sent([])]"
    messages = messages_of(code)
    restored = pickle.loads(messages[0])
    assert pickle.loads(messages[1]) is restored
    del restored
    gc.collect()
    assert pickle.loads(messages[2])["a"].to_pylist() == [1, 2]
    assert pickle.loads(messages[3])["a"].to_pylist() == []
    assert eventually(lambda: not answers(messages[0])), "the keeper must exit after the last message"


def answers(message: bytes) -> bool:
    """Returns whether a process listens on the socket that the message's token names."""
    name = wire.NAME.search(message)
    assert name is not None
    try:
        wire.connect(name[0])
    except wire.GoneError:
        return False
    return True


def test_a_second_message_of_an_open_table_does_not_need_the_sender() -> None:
    with Peer() as other:
        texts = other.run("""
from multiprocessing.reduction import ForkingPickler
sa.install_reducers()
table = sa.table({'a': [1, 2]}, 'host')
for _ in 'ab': print(bytes(ForkingPickler.dumps(table)).hex(), flush=True)
""")
        restored = pickle.loads(bytes.fromhex(texts[0]))
        other.kill()
    assert pickle.loads(bytes.fromhex(texts[1])) is restored


def test_a_table_of_an_ended_process_is_shared_again_as_a_copy(reducers: Any, peer: Peer) -> None:
    restored = pickle.loads(messages_of("messages = [sent([1, 2])]")[0])
    message = bytes(ForkingPickler.dumps(restored))
    assert peer.run(f"print(pickle.loads({message!r})['a'].to_pylist(), flush=True)") == ["[1, 2]"]


def test_tables_that_are_never_received_are_freed_when_the_parent_ends() -> None:
    with Peer() as parent:
        (text,) = parent.run("""
import multiprocessing, pickled_work
started = multiprocessing.get_context("fork")
ours, theirs = started.Pipe(False)
process = started.Process(target=pickled_work.send_and_end, args=(theirs, 1))
process.start()
process.join()
print(ours.recv_bytes().hex(), flush=True)
""")
        message = bytes.fromhex(text)
        assert answers(message)
        parent.kill()
    assert eventually(lambda: not answers(message))
    with pytest.raises(sa.ClosedError, match="has ended"):
        pickle.loads(message)


class Keeper:
    """Runs the keeper, the program that a process starts at its exit to hold sent tables, in a thread."""

    def __init__(self, monkeypatch: Any, memories: list[Any], *, messages: int = 1) -> None:
        self.broker = broker.Broker()
        self.broker.start()
        self.entries = []
        for memory in memories:
            made = broker.Exported(self.broker, memory.home, memory, memory.reply, memory.file)
            self.broker.add(made)
            for _ in range(messages):
                self.broker.post(made)
            self.entries.append(made)
        monkeypatch.setattr(subprocess, "Popen", self.start)
        monkeypatch.setattr(handover, "broker", self)
        handover._hand_over()
        self.broker.abandon()

    write_file = staticmethod(broker.write_file)

    def running(self) -> broker.Broker:
        return self.broker

    def start(self, *given: Any, **options: Any) -> Any:
        self.program = POPEN(*given, **options)
        self.number = self.program.pid
        return self.program

    def ask(self, request: bytes) -> bytes:
        connection = wire.connect(self.broker.name)
        connection.send(request)
        return connection.receive(4096)[0]

    def join(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])


POPEN = subprocess.Popen


def host_memory() -> Any:
    ctx = sa.context("host")
    metadata, body = sa.table({"a": [1, 2]}, ctx).pack()
    made = tables._HostMemory(ctx, body, metadata)
    made.home = ctx  # type: ignore[attr-defined]
    return made


def test_tables_that_are_never_received_are_freed_after_a_timeout(monkeypatch: Any) -> None:
    monkeypatch.setattr(handover, "_WITHOUT_PARENT", 0.0)
    assert Keeper(monkeypatch, [host_memory()]).join() == 0


def test_the_keeper_counts_only_tokens_of_messages(monkeypatch: Any) -> None:
    keeper = Keeper(monkeypatch, [host_memory(), host_memory()])
    first, second = (each.token for each in keeper.entries)
    assert keeper.ask(b"nonsense")[:1] == bytes([wire.GONE])
    assert keeper.ask(wire.request(wire.TAKE, bytes(16)))[:1] == bytes([wire.GONE])
    for kind in (wire.OPEN, wire.TAKE, wire.TAKE, wire.OPEN):
        assert keeper.ask(wire.request(kind, first))[:1] == bytes([wire.DONE])
    wire.connect(keeper.broker.name).close()  # sends no request
    assert keeper.ask(wire.request(wire.OPEN, second))[:1] == bytes([wire.DONE]), "not received yet"
    assert keeper.ask(wire.request(wire.TAKE, second))[:1] == bytes([wire.DONE])
    assert keeper.join() == 0


def test_the_keeper_waits_for_each_message_of_a_table(monkeypatch: Any) -> None:
    keeper = Keeper(monkeypatch, [host_memory()], messages=3)
    take = wire.request(wire.TAKE, keeper.entries[0].token)
    assert [keeper.ask(take)[:1] for _ in range(3)] == [bytes([wire.DONE])] * 3
    assert keeper.join() == 0


def test_a_failed_hand_over_is_logged_and_other_tables_are_kept(monkeypatch: Any, caplog: Any) -> None:
    lost = host_memory()

    def fail() -> Any:
        raise MemoryError("no room on the host")

    lost.in_file = fail
    with caplog.at_level(logging.WARNING, "saeta.share"):
        keeper = Keeper(monkeypatch, [lost, host_memory()])
    assert "is lost: no room on the host" in caplog.text
    assert keeper.ask(wire.request(wire.TAKE, keeper.entries[0].token))[:1] == bytes([wire.GONE])
    assert keeper.ask(wire.request(wire.TAKE, keeper.entries[1].token))[:1] == bytes([wire.DONE])
    assert keeper.join() == 0


def test_a_failure_to_start_the_keeper_is_logged(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(handover.spawn, "get_executable", lambda: "/nowhere")
    with caplog.at_level(logging.WARNING, "saeta.share"), pytest.raises(AttributeError):
        Keeper(monkeypatch, [host_memory()]).join()
    assert "are lost: [Errno 2] No such file or directory: '/nowhere'" in caplog.text
