#!/usr/bin/env python3
"""A stress test of the memory layers: threads use all features at the same time, and invariants are checked.

    tests/soak/soak.py --seconds 180 --device best --guard
    tests/soak/soak.py --rounds 2000 --seed 7          # bounded by rounds, for a test

Several threads share one budget. Each runs a random sequence of operations from its seed: buffers and use
tokens, child budgets, reservations, windows, hooks, trims, refused allocations, Arrow files, forks, graph
captures by another library, and zero-copy exchange with every installed framework. After every lap all
threads stop; then the bytes by tag must be those of the live buffers, and the guard must have found no error.
The values of a buffer are checked before it is freed. At the end nothing may be allocated.

Exit code 0; 1 when something was wrong, with the seed; 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import saeta as sa
from soak_disturbances import fork_a_child, graph_of
from soak_items import Block, Loan, Rows, View, WrongError, require
from soak_peers import Peer, find_peers, kernel_peer

LAP = 50  # operations of each thread between two checks
KEPT = 24  # items that a thread holds at most
ROWS = 20_000  # rows of the Arrow file
TAGS = [f"soak {name}" for name in ("build", "probe", "sort", "scratch", "result", "page", "window", "spill")]


class Soak:
    """The state that the threads share."""

    def __init__(self, ctx: sa.Context, folder: Path, *, guard: bool) -> None:
        self.ctx = ctx
        self.guard = guard
        self.peers = find_peers(ctx)
        self.kernels = kernel_peer(self.peers)
        self.graph = graph_of(ctx, self.kernels and self.kernels.module)
        self.largest = (ctx.memory.limit or 0) // 10  # so large that the budget refuses some allocations
        self.passed_on: deque[Any] = deque()  # items that another thread will own
        self.spillable: deque[Block] = deque()  # buffers that the hook may free
        self.hook = ctx.memory.add_hook(self.spill, name="soak", priority=1)
        self.asked = 0
        self.file = self._write_file(folder)
        self.workers: list[Worker] = []

    def spill(self, _needed: int) -> int:
        self.asked += 1
        try:
            return self.spillable.popleft().nbytes
        except IndexError:
            return 0

    def _write_file(self, folder: Path) -> Path | None:
        try:
            import saeta._ipc  # noqa: F401
        except ImportError:
            return None
        numbers = np.arange(ROWS, dtype=np.int32)
        path = folder / "soak.arrow"
        sa.table({"number": numbers, "half": numbers / 2}, self.ctx).write_ipc(path, compression="lz4")
        return path

    def check(self) -> None:
        """Checks the accounting while all threads are stopped."""
        self.ctx.synchronize()
        held = [item for worker in self.workers for item in worker.held]
        live: Counter[str] = Counter()
        for item in (*held, *self.passed_on, *self.spillable):
            if isinstance(item, Block):
                live[item.tag] += item.nbytes
        memory = self.ctx.memory
        now, tags = memory.statistics(), memory.by_tag()
        ours = {tag: count for tag, count in tags.items() if tag in TAGS}
        require(ours == +live, f"bytes by tag are {ours}, those of the live buffers {dict(live)}")
        own = sum(count for tag, count in tags.items() if not tag.startswith("external:"))
        by_budget = sum(memory.by_budget().values())
        # A download is in the ledger of its device context but charged to the budget of the host.
        elsewhere = 0 if self.ctx.device == "host" else tags.get("download", 0)
        require(
            now["current"] + elsewhere == now["own"] == own == by_budget,
            f"current {now['current']}, own {now['own']}, by tag {own}, by budget {by_budget}",
        )
        require(now["reserved"] == 0, f"{now['reserved']} bytes reserved by nobody")
        self.check_limits()
        if self.guard:
            found = memory.guard_check()
            require(not found, f"the guard found {found}")

    def check_limits(self) -> None:
        """Checks the limit. May be called while threads run."""
        now = self.ctx.memory.statistics()
        limit, current, peak = now["limit"] or 0, now["current"] or 0, now["peak"] or 0
        require(
            current <= limit and peak <= limit, f"current {current} and peak {peak} under a limit of {limit}"
        )

    def close(self) -> None:
        """Frees all items after the threads have ended, and checks that nothing is left."""
        self.hook.remove()
        for worker in self.workers:
            worker.drop_all()
        for left in (self.passed_on, self.spillable):
            while left:
                left.pop().check()
        gc.collect()
        self.check()
        now = self.ctx.memory.statistics()
        left_over = {
            name: now[name] for name in ("current", "own", "external", "buffers", "pending_releases")
        }
        require(not any(left_over.values()), f"left at the end: {left_over}, {self.ctx.memory.by_tag()}")
        alive = self.ctx.close()
        require(alive == {}, f"close() found {alive}")


class Worker:
    """A thread: the items that it holds, and its random operations."""

    def __init__(self, soak: Soak, seed: int, number: int) -> None:
        self.soak = soak
        self.random = random.Random(seed * 1_000_003 + number)
        self.number = number
        self.held: list[Any] = []
        self.count: Counter[str] = Counter()
        self.choices: list[tuple[Callable[[], None], int]] = [
            (self.allocate, 30),
            (self.rewrite, 10),
            (self.copy_over, 6),
            (self.look, 10),
            (self.drop, 12),
            (self.pass_on, 6),
            (self.make_spillable, 4),
            (self.in_a_child, 5),
            (self.in_a_reservation, 5),
            (self.in_a_window, 3),
            (self.with_a_hook, 2),
            (self.take_a_view, 12),
            (self.lend_an_array, 8),
            (self.read_a_file, 2),
            (self.ask_for_too_much, 1),
            (self.trim, 1),
            (self.fork, 1),
            (self.capture, 1),
        ]

    def lap(self) -> None:
        steps, weights = zip(*self.choices, strict=True)
        for step in self.random.choices(steps, weights, k=LAP):
            try:
                step()
            except sa.BudgetExceeded as refusal:
                self.count["refused"] += 1
                # By these numbers the request may fit: they are read after the refusal, and a request is also
                # refused while earlier ones wait.
                require(
                    refusal.required == refusal.limit - refusal.remaining + refusal.requested
                    and refusal.current <= refusal.peak <= refusal.limit,
                    f"a refusal's numbers do not agree: {refusal}",
                )
                self.drop()
            while len(self.held) > KEPT:
                self.drop()

    def size(self) -> int:
        """Returns a random size in bytes, log-uniform and a multiple of 4 (int32)."""
        return int(2 ** self.random.uniform(2, np.log2(self.soak.largest))) // 4 * 4

    def value(self) -> int:
        return self.random.randrange(1, 1 << 20)

    def pick(self, kind: type[Any]) -> Any:
        found = [item for item in self.held if isinstance(item, kind)]
        return self.random.choice(found) if found else None

    def block(self, where: sa.Context, size: int) -> Block:
        buffer = where.allocate(size, tag=self.random.choice(TAGS))
        made = Block(buffer, self.soak.kernels)
        self.count["allocated"] += 1
        made.write(self.value())
        return made

    def allocate(self) -> None:
        self.held.append(self.block(self.soak.ctx, self.size()))

    def rewrite(self) -> None:
        if (block := self.pick(Block)) is not None:
            block.write(self.value())

    def copy_over(self) -> None:
        """Copies a buffer to another one under one use token for both."""
        source, target = self.pick(Block), self.pick(Block)
        if source is not None and source is not target and source.nbytes == target.nbytes:
            target.copy_from(source)

    def look(self) -> None:
        if self.held:
            self.random.choice(self.held).check()

    def drop(self) -> None:
        if self.held:
            self.held.pop(self.random.randrange(len(self.held))).check()

    def drop_all(self) -> None:
        while self.held:
            self.drop()

    def pass_on(self) -> None:
        """Exchanges an item with another thread, so that threads free items of other threads."""
        if self.held:
            self.soak.passed_on.append(self.held.pop())
        try:
            self.held.append(self.soak.passed_on.popleft())
        except IndexError:  # another thread was faster
            return

    def make_spillable(self) -> None:
        block = self.pick(Block)
        if block is not None and len(self.soak.spillable) < KEPT:
            self.held.remove(block)
            self.soak.spillable.append(block)

    def in_a_child(self) -> None:
        self.count["children"] += 1
        size = self.size()
        with self.soak.ctx.memory.child(f"child of {self.number}", 2 * size) as child:
            made = self.block(child, size)
            now = child.memory.statistics()
            require(now["current"] == size, f"a child with one buffer of {size} bytes holds {now['current']}")
            require(child.memory.by_tag() == {made.tag: size}, "a child's bytes by tag")
            try:
                child.allocate(size + 1)
            except sa.BudgetExceeded as refusal:
                limits = {2 * size, self.soak.ctx.memory.limit}
                require(
                    refusal.limit in limits, f"a child of {2 * size} bytes was refused at {refusal.limit}"
                )
            else:
                raise WrongError(f"a child of {2 * size} bytes allocated {2 * size + 1}")
        self.held.append(made)

    def in_a_reservation(self) -> None:
        size = self.size()
        with self.soak.ctx.memory.reserve(2 * size) as promised:
            self.count["reservations"] += 1
            try:
                self.held += [self.block(promised, size), self.block(promised, size)]
            except sa.BudgetExceeded as refusal:
                raise WrongError(f"a draw of promised bytes was refused: {refusal}") from refusal
            left = promised.memory.reservation["left"]  # type: ignore[index]
            require(left == 0, f"{left} bytes are left of a reservation that was used up")

    def in_a_window(self) -> None:
        with self.soak.ctx.memory.window() as window:
            block = self.block(self.soak.ctx, self.size())
        require(window.peak >= block.nbytes, f"a window's peak is {window.peak}, not {block.nbytes} or more")
        require(window.requests >= 1, "a window without its request")
        self.held.append(block)

    def with_a_hook(self) -> None:
        name = f"hook of {self.number}"
        with self.soak.ctx.memory.add_hook(lambda _: None, name=name, priority=self.random.randrange(9)):
            self.allocate()

    def take_a_view(self) -> None:
        """Drops a column while a framework may still be reading it on the framework's own stream."""
        peer = self.random.choice(self.soak.peers)
        value, rows = self.value(), self.size() // 4
        column = sa.from_dlpack(np.full(rows, value, dtype=np.int32), self.soak.ctx, copy=True)
        self.count[f"to {peer.name}"] += 1
        stream = peer.own_stream()
        with stream:
            view = peer.take(column)
            total = peer.total(view)
        self.held.append(View(peer, stream, self.random.choice([view, None]), total, value * rows))

    def lend_an_array(self) -> None:
        peer: Peer = self.random.choice(self.soak.peers)
        value, rows = self.value(), self.size() // 4
        with peer.own_stream():
            column = peer.give(peer.array(value, rows), self.soak.ctx)
        self.count[f"from {peer.name}"] += 1
        self.held.append(Loan(column, value * rows))

    def read_a_file(self) -> None:
        if self.soak.file is not None:
            table = sa.read_ipc(self.soak.file, self.soak.ctx)
            self.count["files"] += 1
            self.held.append(Rows(table, ROWS))

    def ask_for_too_much(self) -> None:
        ctx = self.soak.ctx
        size = (ctx.memory.limit or 0) + 1 + self.size()
        try:
            ctx.allocate(size, tag="too much")
        except sa.BudgetExceeded as refusal:
            require(refusal.requested == size, f"{size} bytes were refused as {refusal.requested}")
            self.count["refused"] += 1
        else:
            raise WrongError(f"{size} bytes were granted under a budget of {ctx.memory.limit}")

    def trim(self) -> None:
        self.soak.ctx.memory.trim()
        self.count["trims"] += 1

    def fork(self) -> None:
        fork_a_child(self.soak.ctx)
        self.count["forks"] += 1

    def capture(self) -> None:
        self.soak.graph()
        self.count["captures"] += 1


class Run:
    """Runs the threads lap by lap, and keeps the first error."""

    def __init__(self, soak: Soak, seed: int, threads: int, more: Callable[[int], bool]) -> None:
        self.soak = soak
        self.more = more
        self.laps = 0
        self.done = False
        self.failure = ""
        self.barrier = threading.Barrier(threads, self.end_of_lap)
        soak.workers = [Worker(soak, seed, number) for number in range(threads)]
        self.threads = [
            threading.Thread(target=self.work, args=(worker,), daemon=True) for worker in soak.workers
        ]

    def end_of_lap(self) -> None:
        self.soak.check()
        self.laps += 1
        self.done = not self.more(self.laps)

    def work(self, worker: Worker) -> None:
        try:
            while not self.done:
                worker.lap()
                self.barrier.wait()
        except threading.BrokenBarrierError:
            return  # the thread that failed reports the error
        except BaseException:
            self.failure = self.failure or traceback.format_exc()
            self.barrier.abort()

    def go(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            while thread.is_alive():
                self.soak.check_limits()
                thread.join(0.05)
        require(not self.failure, self.failure)
        self.soak.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--rounds", type=int, help="of each thread, instead of seconds")
    parser.add_argument("--device", default="best", help="best, host, cuda:0, ...")
    parser.add_argument("--budget", default="32MiB")
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--guard", action="store_true", help="watch every block (slower)")
    parser.add_argument("--seed", type=int, help="as a failure printed it; random without")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    ctx = sa.context(
        None if given.device == "best" else given.device,
        budget=given.budget,
        stack="logging, statistics, budget, guard, caching" if given.guard else None,
        wait=0.005,
    )
    print(f"soak of {ctx.device}: seed {seed}, {given.threads} threads, {given.budget}", flush=True)
    begun = time.monotonic()
    laps = None if given.rounds is None else max(1, given.rounds // LAP)

    def more(done: int) -> bool:
        return done < laps if laps is not None else time.monotonic() < begun + float(given.seconds)

    with tempfile.TemporaryDirectory(prefix="saeta-soak-") as folder:
        soak = Soak(ctx, Path(folder), guard=given.guard)
        run = Run(soak, seed, given.threads, more)
        try:
            run.go()
        except WrongError as failure:
            print(f"soak: failed with seed {seed}: {failure}", file=sys.stderr)
            return 1
        finally:
            soak.hook.remove()
    count = sum((worker.count for worker in soak.workers), Counter({"asked hooks": soak.asked}))
    text = ", ".join(f"{name} {number:,}" for name, number in sorted(count.items()))
    rounds = run.laps * LAP * given.threads
    print(f"soak: {rounds:,} rounds and {run.laps:,} checks in {time.monotonic() - begun:.0f} s: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
