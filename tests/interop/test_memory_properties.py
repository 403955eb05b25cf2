"""Random programs of allocations, children, reservations and drops: the numbers are those of a model, at every step."""

from __future__ import annotations

import pytest

import saeta as sa

hypothesis = pytest.importorskip("hypothesis")
stateful = pytest.importorskip("hypothesis.stateful")
st = hypothesis.strategies

ROOM = 10_000
sizes = st.integers(0, ROOM)


class Account:
    """A context of the program, and what the model says of it."""

    def __init__(self, ctx, parent=None, limit=None, promised=None):
        self.ctx, self.parent, self.limit = ctx, parent, limit
        self.promised = promised  # bytes of a reservation that are left; None for a budget
        self.current = 0
        self.reserved = 0

    def line(self):
        """This budget and its ancestors."""
        at = self
        while at is not None:
            if at.promised is None:
                yield at
            at = at.parent

    def room(self):
        limits = [at.limit - at.current - at.reserved for at in self.line() if at.limit is not None]
        return min(limits)


class MemoryProgram(stateful.RuleBasedStateMachine):
    accounts = stateful.Bundle("accounts")

    def __init__(self):
        super().__init__()
        ctx = sa.context("host")
        ctx.synchronize()
        self.base = ctx.memory.statistics()
        assert self.base["current"] == self.base["reserved"] == 0
        ctx.budget = ROOM
        ctx.memory.reset_peak()
        self.root = Account(ctx, limit=ROOM)
        self.known = [self.root]
        self.live = []
        self.peak = 0

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

    @stateful.rule(where=accounts, size=sizes)
    def allocate(self, where, size):
        if where.ctx.closed:
            with pytest.raises(sa.ClosedError):
                where.ctx.allocate(size)
            return
        if size > (where.room() if where.promised is None else where.promised):
            with pytest.raises(sa.BudgetExceeded) as caught:
                where.ctx.allocate(size)
            assert caught.value.requested == size
            return
        self.live.append((where, where.ctx.allocate(size)))
        for at in where.line():
            at.current += size
            if where.promised is not None:
                at.reserved -= size
        if where.promised is not None:
            where.promised -= size
        self.peak = max(self.peak, self.root.current)

    @stateful.rule(data=st.data())
    def drop(self, data):
        if self.live:
            where, made = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
            for at in where.line():
                at.current -= made.nbytes
            del made
            self.root.ctx.synchronize()

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
        root = self.root.ctx.memory
        assert root.statistics()["peak"] == self.peak
        assert root.statistics()["own"] == sum(root.by_budget().values()) == self.root.current

    def teardown(self):
        self.live.clear()
        for each in reversed(self.known[1:]):
            each.ctx.close()
        self.root.ctx.synchronize()
        now = self.root.ctx.memory.statistics()
        self.root.ctx.budget = None
        assert now["current"] == now["reserved"] == 0
        assert now["buffers"] == self.base["buffers"]


MemoryProgram.TestCase.settings = hypothesis.settings(
    max_examples=60, stateful_step_count=40, deadline=None, database=None
)
TestMemoryProgram = MemoryProgram.TestCase


@hypothesis.settings(max_examples=60, deadline=None, database=None)
@hypothesis.given(
    st.integers(0, 300), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 320)), max_size=5)
)
def test_slices_of_slices_are_those_of_bytes(size, cuts):
    part = made = sa.context("host").allocate(size)
    expected = range(size)
    for start, stop in cuts:
        part = part[start:stop]
        expected = expected[start:stop]
        assert part.nbytes == len(expected)
        if expected:
            assert part.address == made.address + expected[0]
