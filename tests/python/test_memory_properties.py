"""Random programs of memory operations, compared with a model: all statistics match, and no buffer is
corrupted.

Operations: tagged allocations, writes and copies through use tokens, drops, children, reservations, windows,
a hook that drops spillable blocks, trims and closes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import saeta as sa
from property_settings import examples

hypothesis = pytest.importorskip("hypothesis")
stateful = pytest.importorskip("hypothesis.stateful")
st = hypothesis.strategies

ROOM = 10_000
TAGS = ("", "build", "probe")
sizes = st.integers(0, ROOM)


class Account:
    """A context and its model: current and reserved bytes."""

    def __init__(self, ctx, parent=None, limit=None, promised=None):
        self.ctx, self.parent, self.limit = ctx, parent, limit
        self.promised = promised  # remaining bytes of a reservation; None for a budget
        self.current = 0
        self.reserved = 0
        self.windows = []

    def line(self):
        """Yields this budget and its ancestors."""
        at = self
        while at is not None:
            if at.promised is None:
                yield at
            at = at.parent

    def room(self, without=()):
        """Returns the bytes that fit after the blocks in `without` are freed."""
        limits = [
            at.limit - at.current - at.reserved + sum(block.size for block in without if at in block.line)
            for at in self.line()
            if at.limit is not None
        ]
        return min(limits)

    def never_fits(self, size):
        """Returns whether a limit is smaller than the request. Such a request is refused without calling
        hooks."""
        return any(at.limit is not None and size > at.limit for at in self.line())


class Block:
    """A live buffer, its account, and the value of all its bytes once written."""

    def __init__(self, where, buffer, tag):
        self.line, self.buffer, self.tag = list(where.line()), buffer, tag
        self.size = buffer.nbytes
        self.value = None

    def check(self):
        if self.value is not None:
            with sa.use(reads=[self.buffer]) as token:
                assert (np.asarray(token.array(self.buffer)) == self.value).all()


class Window:
    """A window and its model."""

    def __init__(self, at):
        self.window = at.ctx.memory.window()
        self.start = self.current = self.peak = at.current
        self.requests = 0
        self.refused = 0
        self.is_open = True

    def check(self):
        for name in ("start", "current", "peak", "requests"):
            assert getattr(self.window, name) == getattr(self, name), name
        assert (
            self.window.refused >= self.refused
        )  # requests of other budgets that this one refused are counted too


class MemoryProgram(stateful.RuleBasedStateMachine):
    accounts = stateful.Bundle("accounts")

    def __init__(self):
        super().__init__()
        ctx = sa.context("host")
        ctx.synchronize()
        self.base = ctx.memory.statistics()
        assert self.base["current"] == self.base["reserved"] == 0
        ctx.memory.limit = ROOM
        ctx.memory.reset_peak()
        self.root = Account(ctx, limit=ROOM)
        self.known = [self.root]
        self.live = []
        self.spillable = []
        self.peak = 0
        self.asked = 0
        self.hook = ctx.memory.add_hook(self.spill, name="spill")

    def spill(self, needed):
        self.asked += 1
        freed = 0
        for block in self.to_spill(needed):
            self.spillable.remove(block)
            freed += block.size
            self.gone(block)
        return freed

    def to_spill(self, needed):
        """Returns the blocks that the hook drops: as many of the oldest as are needed."""
        chosen = []
        for block in self.spillable:
            if sum(each.size for each in chosen) >= needed:
                break
            chosen.append(block)
        return chosen

    def charged(self, where, size):
        for at in where.line():
            at.current += size
            for window in at.windows:
                if window.is_open:
                    window.current = at.current
                    window.peak = max(window.peak, at.current)
                    window.requests += 1
        self.peak = max(self.peak, self.root.current)

    def gone(self, block):
        block.check()
        for at in block.line:
            at.current -= block.size
            for window in at.windows:
                if window.is_open:
                    window.current = at.current
        block.buffer = None

    @stateful.initialize(target=accounts)
    def begin(self):
        return self.root

    @stateful.rule(target=accounts, parent=accounts, limit=st.none() | sizes)
    def child(self, parent, limit):
        if parent.promised is not None or parent.ctx.closed:
            return parent
        made = Account(parent.ctx.memory.child(f"child {len(self.known)}", limit), parent, limit)
        self.known.append(made)
        return made

    @stateful.rule(target=accounts, parent=accounts, size=sizes)
    def reserve(self, parent, size):
        if parent.promised is not None or parent.ctx.closed:
            return parent
        if size > parent.room():
            with pytest.raises(sa.BudgetExceeded):
                parent.ctx.memory.reserve(size)
            return parent
        made = Account(parent.ctx.memory.reserve(size), parent, promised=size)
        for at in made.line():
            at.reserved += size
        self.known.append(made)
        return made

    @stateful.rule(where=accounts, size=sizes, tag=st.sampled_from(TAGS))
    def allocate(self, where, size, tag):
        if where.ctx.closed:
            with pytest.raises(sa.ClosedError):
                where.ctx.allocate(size)
            return
        asked = self.asked
        if where.promised is not None:
            fits = size <= where.promised
        else:
            asked += size > where.room() and not where.never_fits(size)
            fits = size <= where.room() or size <= where.room(self.to_spill(size))
        if not fits:
            with pytest.raises(sa.BudgetExceeded) as caught:
                where.ctx.allocate(size, tag=tag)
            assert caught.value.requested == size
            for window in next(where.line()).windows:
                window.refused += window.is_open
        else:
            block = Block(where, where.ctx.allocate(size, tag=tag), tag)
            self.live.append(block)
            if where.promised is not None:
                where.promised -= size
                for at in where.line():
                    at.reserved -= size
            self.charged(where, size)
        assert self.asked == asked, "the hook is called once if a request exceeds what is free but no limit"

    @stateful.rule(data=st.data(), value=st.integers(0, 255))
    def write(self, data, value):
        if self.live:
            chosen = data.draw(st.lists(st.sampled_from(self.live), min_size=1, max_size=3, unique=True))
            with sa.use(writes=[block.buffer for block in chosen]) as token:
                for block in chosen:
                    view = np.asarray(token.array(block.buffer))
                    assert len(view) == block.buffer.nbytes  # or the write overruns it
                    view[:] = value
            for block in chosen:
                block.value = value

    @stateful.rule(data=st.data())
    def copy(self, data):
        written = [block for block in self.live if block.value is not None]
        if written:
            source, target = data.draw(st.sampled_from(written)), data.draw(st.sampled_from(self.live))
            size = min(source.size, target.size)
            if source is target or size < target.size:
                return
            part = source.buffer[:size]
            with sa.use(reads=[part], writes=[target.buffer]) as token:
                np.asarray(token.array(target.buffer))[:] = np.asarray(token.array(part))
            target.value = source.value

    @stateful.rule(data=st.data())
    def drop(self, data):
        if self.live:
            self.gone(self.live.pop(data.draw(st.integers(0, len(self.live) - 1))))
            self.root.ctx.synchronize()

    @stateful.rule(data=st.data())
    def let_spill(self, data):
        if self.live:
            self.spillable.append(self.live.pop(data.draw(st.integers(0, len(self.live) - 1))))

    @stateful.rule(at=accounts)
    def open_window(self, at):
        if at.promised is None:
            at.windows.append(Window(at))

    @stateful.rule(at=accounts)
    def close_window(self, at):
        for window in at.windows:
            if window.is_open:
                window.is_open = False
                with window.window:
                    pass
                return

    @stateful.rule(where=accounts)
    def close(self, where):
        if where is self.root or where.ctx.closed:
            return
        with where.ctx:
            pass
        for at in where.line():
            at.reserved -= where.promised or 0
        if where.promised is not None:
            where.promised = 0

    @stateful.rule()
    def trim(self):
        assert self.root.ctx.memory.trim() >= 0

    @stateful.invariant()
    def the_numbers_are_exact(self):
        for each in self.known:
            if each.promised is not None:
                assert each.ctx.memory.reservation["left"] == each.promised
                continue
            now = each.ctx.memory.statistics()
            assert (now["current"], now["reserved"]) == (each.current, each.reserved)
            assert each.limit is None or now["remaining"] == each.room()
            for window in each.windows:
                window.check()
            tags = Counter()
            for block in (*self.live, *self.spillable):
                if each in block.line:
                    tags[block.tag] += block.size
            assert Counter(each.ctx.memory.by_tag()) == tags
        root = self.root.ctx.memory
        assert root.statistics()["peak"] == self.peak
        assert root.statistics()["own"] == sum(root.by_budget().values()) == self.root.current

    def teardown(self):
        self.hook.remove()
        for blocks in (self.live, self.spillable):
            while blocks:
                self.gone(blocks.pop())
        for each in reversed(self.known[1:]):
            each.ctx.close()
        self.root.ctx.synchronize()
        now = self.root.ctx.memory.statistics()
        self.root.ctx.memory.limit = None
        assert now["current"] == now["reserved"] == 0
        assert now["buffers"] == self.base["buffers"]


MemoryProgram.TestCase.settings = hypothesis.settings(stateful_step_count=40, **examples())
TestMemoryProgram = MemoryProgram.TestCase


@hypothesis.settings(**examples())
@hypothesis.given(
    st.integers(0, 300), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 320)), max_size=5)
)
def test_slices_of_slices_match_those_of_bytes(size, cuts):
    part = made = sa.context("host").allocate(size)
    expected = range(size)
    for start, stop in cuts:
        part = part[start:stop]
        expected = expected[start:stop]
        assert part.nbytes == len(expected)
        if expected:
            assert part.address == made.address + expected[0]
