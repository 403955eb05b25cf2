"""Operations on whole tables: refused arguments and exact error messages."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import saeta as sa
from saeta import hooks
from saeta._convert.tables import column_place


def test_concatenated_tables_must_have_the_same_columns(host):
    one = sa.table({"a": [1], "b": ["x"]}, host)
    with pytest.raises(sa.TypeMismatch, match="concat_tables takes a sequence of tables, not one Table"):
        sa.concat_tables(one)
    with pytest.raises(sa.InvalidError, match="no tables: at least one is needed to know the columns"):
        sa.concat_tables([])
    with pytest.raises(sa.TypeMismatch, match="table number 1 is of type int, expected a Table"):
        sa.concat_tables([one, 3])
    other = one.rename_columns(["a", "c"])
    with pytest.raises(
        sa.TypeMismatch, match=r"table 2: column 1 is 'c' \(string\), expected 'b' \(string\) as in table 0"
    ):
        sa.concat_tables([one, one, other])
    with pytest.raises(
        sa.TypeMismatch, match=r"table 1: column 0 is 'a' \(int8\), expected 'a' \(int64\) as in table 0"
    ):
        sa.concat_tables([one, one.set_column("a", "a", sa.column([1], host, type="int8"))])


def test_a_concatenated_column_is_nullable_if_one_part_is(host):
    strict = sa.table({"a": [1]}, host, schema=sa.schema([sa.field("a", "int8", nullable=False)]))
    loose = sa.table({"a": [1]}, host, schema=sa.schema([sa.field("a", "int8")], metadata={"k": "v"}))
    joined = sa.concat_tables([strict, loose])
    assert (joined.schema.fields[0].nullable, joined.schema.metadata) == (True, {})
    assert not sa.concat_tables([strict, strict]).schema.fields[0].nullable
    assert sa.concat_tables([loose, strict]).schema.metadata == {b"k": b"v"}


def test_columns_are_renamed_by_position_or_by_name(host):
    table = sa.table({"a": [1], "b": [2]}, host)
    assert table.rename_columns(["x", "y"]).column_names == ["x", "y"]
    assert table.rename_columns({"b": "y"}).column_names == ["a", "y"]
    assert table.rename_columns(iter("xy")).column_names == ["x", "y"]
    for wrong, number in ((["x"], 1), (["x", "y", "z"], 3)):
        with pytest.raises(sa.InvalidError, match=f"{number} names for 2 columns"):
            table.rename_columns(wrong)
    with pytest.raises(sa.ColumnNameError, match="no column 'q': the columns are 'a', 'b'"):
        table.rename_columns({"q": "x"})
    for wrong in ("xy", 3):
        with pytest.raises(
            sa.TypeMismatch, match=f"names is of type {type(wrong).__name__}, expected a name for"
        ):
            table.rename_columns(wrong)
    assert table.drop_columns(0).column_names == ["b"]
    assert table.drop_columns(-1).column_names == ["a"]
    with pytest.raises(sa.OutOfRange, match="2"):
        table.drop_columns(2)


def test_batches_have_a_maximum_number_of_rows(host):
    part = sa.table({"a": list(range(5))}, host)
    table = sa.concat_tables([part, part.slice(0, 2), part.slice(0, 0)])
    assert [batch.num_rows for batch in table.to_batches()] == [batch.num_rows for batch in table.batches]
    assert [batch.num_rows for batch in table.to_batches(2) if batch.num_rows] == [2, 2, 1, 2]
    assert [batch.num_rows for batch in table.to_batches(5) if batch.num_rows] == [5, 2]
    assert [batch["a"].to_pylist() for batch in part.to_batches(3)] == [[0, 1, 2], [3, 4]]
    assert [batch.num_rows for batch in part.slice(0, 0).to_batches(1)] in ([0], [])
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(
            sa.InvalidError, match=r"max_chunksize is .*, expected a number of rows from 1 on"
        ):
            table.to_batches(wrong)


def test_to_pylist_needs_distinct_names(host):
    table = sa.table({"a": [1, None], "b": ["x", "y"]}, host)
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
    assert table.to_pydict() == {"a": [1, None], "b": ["x", "y"]}
    assert table.select([]).to_pylist() in ([{}, {}], [])
    twice = sa.table([("a", [1]), ("b", [1]), ("a", [2])], host)
    for wrong in (twice.to_pydict, twice.to_pylist):
        with pytest.raises(
            sa.InvalidError, match="several columns are named 'a', and a dict has each name once"
        ):
            wrong()


def test_an_index_must_be_an_integer_within_bounds():
    assert [column_place(index, 3, last=2) for index in (0, 2, -1, -3)] == [0, 2, 2, 0]
    assert column_place(3, 3, last=3) == 3
    for wrong in (3, -4):
        with pytest.raises(sa.OutOfRange, match=f"column {wrong} of a table with 3 columns"):
            column_place(wrong, 3, last=2)
    for wrong in (True, "a", 1.0):
        with pytest.raises(sa.TypeMismatch, match="index is of type"):
            column_place(wrong, 3, last=2)


class Memory:
    def __init__(self):
        self.added = []

    def add_hook(self, trim, *, name, priority):
        self.added.append((name, priority))
        return trim


@pytest.fixture
def gpu():
    return SimpleNamespace(device="cuda:3", memory=Memory())


class Block:
    def __init__(self, number, entered):
        self._number, self._entered = number, entered

    def __enter__(self):
        self._entered.append(self._number)

    def __exit__(self, *_):
        self._entered.append("left")


def test_trim_torch_empties_the_cache_of_the_contexts_device(gpu, monkeypatch):
    reserved, done = {3: [100, 40, 40, 70]}, []
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(
        memory_reserved=lambda number: reserved[number].pop(0),
        device=lambda number: Block(number, done),
        empty_cache=lambda: done.append("emptied"),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    trim = hooks.trim_torch(gpu, 5)
    assert gpu.memory.added == [("torch", 5)]
    assert trim(1) == 60
    assert done == [3, "emptied", "left"]
    assert trim(1) == 0, "the freed bytes are never negative"


def test_trim_cupy_frees_the_pool_of_the_contexts_device(gpu, monkeypatch):
    totals, done = [100, 40, 40, 70], []
    pool = SimpleNamespace(total_bytes=lambda: totals.pop(0), free_all_blocks=lambda: done.append("freed"))
    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(Device=lambda number: Block(number, done))
    cupy.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    trim = hooks.trim_cupy(gpu, 6)
    assert gpu.memory.added == [("cupy", 6)]
    assert trim(1) == 60
    assert done == [3, "freed", "left"]
    assert trim(1) == 0


def test_trim_rmm_trims_the_pool_below_a_resource(gpu, monkeypatch):
    levels, trimmed = [100, 40], []
    bindings = ModuleType("cuda.bindings.runtime")
    ok, failed = "success", "failure"
    bindings.cudaError_t = SimpleNamespace(cudaSuccess=ok)
    bindings.cudaMemPool_t = lambda handle: ("pool", handle)
    bindings.cudaMemPoolAttr = SimpleNamespace(cudaMemPoolAttrReservedMemCurrent="reserved")
    bindings.cudaMemPoolGetAttribute = lambda pool, what: (ok, levels.pop(0)) if what == "reserved" else None
    bindings.cudaMemPoolTrimTo = lambda pool, size: (trimmed.append((pool, size)), (ok,))[1]
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", bindings)
    monkeypatch.setitem(sys.modules, "rmm", ModuleType("rmm"))
    over_driver = SimpleNamespace(pool_handle=lambda: 77)
    adaptor = SimpleNamespace(upstream_mr=SimpleNamespace(upstream_mr=over_driver))
    trim = hooks.trim_rmm(gpu, adaptor, 7)
    assert gpu.memory.added == [("rmm", 7)]
    assert trim(1) == 60
    assert trimmed == [(("pool", 77), 0)]
    bindings.cudaMemPoolGetAttribute = lambda pool, what: (failed, 0)
    with pytest.raises(sa.DeviceError, match="trimming an RMM resource: failure"):
        trim(1)
    with pytest.raises(
        sa.UnsupportedError, match="SimpleNamespace has no driver pool to trim: expected a resource"
    ):
        hooks.trim_rmm(gpu, SimpleNamespace(upstream_mr=None))

    class PoolMemoryResource:
        upstream_mr = over_driver

    with pytest.raises(sa.UnsupportedError, match="PoolMemoryResource has no driver pool to trim"):
        hooks.trim_rmm(gpu, PoolMemoryResource())


def test_trim_functions_need_a_gpu_context(host):
    for trim, what in (
        (hooks.trim_torch, "torch's cache"),
        (hooks.trim_cupy, "CuPy's pool"),
        (lambda ctx: hooks.trim_rmm(ctx, None), "an RMM resource"),
    ):
        with pytest.raises(sa.InvalidError, match=f"{what} is GPU memory; trimming it makes no room on host"):
            trim(host)
