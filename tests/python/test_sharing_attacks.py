"""Robustness of shared tables: mutated tokens, replies and requests, many threads, and producers that
exit."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import threading
from typing import Any

import numpy as np
import pytest

import saeta as sa
from saeta import _core
from saeta._share import tables
from share_wire import DONE, OPEN, SIZES, FalseBroker, connect, receive, request, sealed_file
from sharing_peer import Peer, charged, received, sent
from threads import run_in_threads
from waiting import eventually

pytestmark = pytest.mark.usefixtures("nothing_left")

ROUNDS = 200
REFUSALS = (sa.Error, PermissionError)


def mutated(value: Any, chance: random.Random) -> Any:
    """Returns a value of another type, or the value with changed bytes."""
    if not isinstance(value, bytes) or chance.random() < 0.2:
        return chance.choice([None, -1, 1 << 70, 0.5, True, "text", b"", bytes(16), [b"x"]])
    content = bytearray(value or b"x")
    turn = chance.randrange(3)
    if turn == 0:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif turn == 1:
        del content[chance.randrange(len(content)) :]
    else:
        content += chance.randbytes(chance.randrange(1, 40))
    return bytes(content)


def test_mutated_tokens_open_the_table_or_are_refused(peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
    good = received(text)._place
    chance = random.Random(5)
    opened = 0
    for _ in range(ROUNDS):
        place = list(good)
        which = chance.randrange(len(place))
        place[which] = mutated(place[which], chance)
        with contextlib.suppress(*REFUSALS):
            assert sa.open_shared(tables._restored_token(*place))["a"].to_pylist() == [1, 2]
            opened += 1
    assert 0 < opened < ROUNDS / 2, "only changes of the size and of the message flag are harmless"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("boot", "text"),
        ("broker", b"saeta-1-xyz"),
        ("token", bytes(15)),
        ("device", bytes(3)),
        ("nbytes", -1),
        ("posted", None),
    ],
)
def test_the_error_names_the_invalid_field_of_a_token(field: str, value: object) -> None:
    good = sa.table({"a": [1]}, "host").share()._place
    with pytest.raises(sa.FormatError, match=f"its {field}"):
        tables._restored_token(*good._replace(**{field: value}))
    with pytest.raises(sa.FormatError, match="5 values, expected 6"):
        tables._restored_token(*good[:5])


def test_mutated_replies_are_refused_or_give_a_valid_table() -> None:
    metadata, body = sa.table({"a": [1, 2, None], "w": ["x", "", "long text"]}, "host").pack()
    content = body.to_numpy().tobytes()
    chance = random.Random(7)

    def answer(connection: socket.socket) -> None:
        file = bytearray(content + metadata)
        sizes = [len(content), len(metadata)]
        code = DONE
        turn = chance.randrange(6)
        if turn == 0:
            code = chance.randrange(256)
        elif turn == 1:
            sizes[chance.randrange(2)] = chance.choice([0, 1, 7, len(file), 1 << 40, (1 << 64) - 1])
        else:
            file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)
        reply = bytes([code]) + SIZES.pack(*sizes)
        if turn == 2:
            reply = reply[: chance.randrange(len(reply))]
        with sealed_file(bytes(file), sealed=chance.random() < 0.9) as number:
            socket.send_fds(connection, [reply], [number] * chance.choice([0, 1, 1, 1, 1, 2]))

    false = FalseBroker(answer)
    opened = 0
    for _ in range(ROUNDS):
        place = tables._Place(_core._machine_id(), false.name, random.randbytes(16), b"", 100, False)
        with contextlib.suppress(*REFUSALS):
            sa.open_shared(tables._restored_token(*place)).to_arrow().validate(full=True)
            opened += 1
    false.close()
    assert 0 < opened < ROUNDS


def test_mutated_requests_do_not_disturb_the_broker(peer: Peer) -> None:
    (text,) = peer.run("kept = sa.table({'a': [1, 2]}, 'host').share(); show(kept)")
    place = received(text)._place
    good = request(OPEN, place.token)
    chance = random.Random(9)
    for _ in range(ROUNDS):
        with connect(place.broker) as connection:
            said = mutated(good, chance)
            connection.send(said if isinstance(said, bytes) and said else b"?")
            if chance.random() < 0.5:
                receive(connection)
    assert sa.open_shared(received(text))["a"].to_pylist() == [1, 2]


def test_fifty_threads_open_one_token(peer: Peer) -> None:
    (text,) = peer.run(
        "before = charged(); kept = sa.table({'a': np.arange(1000)}, 'host').share(); show(kept)"
    )
    start = threading.Barrier(50)
    found: list[sa.Table] = []

    def work(_: int) -> None:
        start.wait()
        found.append(sa.open_shared(received(text)))

    run_in_threads(50, work)
    assert len(found) == 50
    assert all(each is found[0] for each in found)
    assert found[0]["a"].to_pylist() == [*range(1000)]
    peer.run("del kept")
    found.clear()
    gc.collect()
    assert eventually(lambda: peer.run("gc.collect(); print(charged() == before, flush=True)") == ["True"])


def test_the_error_names_a_producer_that_exited_before_open() -> None:
    with Peer() as producer:
        texts = producer.run(
            "kept = [sa.table({'a': [i]}, 'host').share() for i in range(2)]\nfor each in kept: show(each)"
        )
        table = sa.open_shared(received(texts[0]))
    with pytest.raises(sa.ClosedError, match="has ended"):
        sa.open_shared(received(texts[1]))
    assert table["a"].to_pylist() == [0]


def test_hundreds_of_tables_can_be_open_and_are_dropped_together() -> None:
    before = charged()
    shared = [sa.table({"a": np.arange(i, i + 10)}, "host").share() for i in range(200)]
    with Peer() as consumer:
        consumer.run("kept = []")
        for token in shared:
            consumer.run(f"kept.append(opened({sent(token)!r}))")
        del token
        shared.clear()
        gc.collect()
        assert charged() > before
        assert consumer.run("print([each['a'].to_pylist()[0] for each in kept][::50], flush=True)") == [
            "[0, 50, 100, 150]"
        ]
        consumer.run("kept.clear(); gc.collect()")
        assert eventually(lambda: charged() == before)
