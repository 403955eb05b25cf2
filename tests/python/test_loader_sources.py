"""Several sources of a loader: files of both formats together, and weights."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from loader_files import flat, numbered, rows_of, write_ipc, write_parquet
from saeta._loader.order import Order
from saeta._loader.records import Batch, Rank

SHUFFLES = ("rows", "batches", False)


def loader_of(files, **options):
    return sa.loader(files, "host", **{"batch_size": 10, "window": "8KiB", "to": "table", **options})


@pytest.fixture
def both(tmp_path):
    """Files of both formats in turn, with rows numbered through all of them."""
    writers = (write_ipc, write_parquet, write_ipc, write_parquet)
    for number, write in enumerate(writers):
        write(
            numbered(500, 500 * number),
            tmp_path / f"part-{number}.{'arrow' if number % 2 == 0 else 'parquet'}",
            40,
        )
    return tmp_path


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_folder_may_have_arrow_and_parquet_files(both, shuffle):
    loader = loader_of(both, shuffle=shuffle)
    alone = rows_of(loader)
    assert sorted(flat(alone)) == list(range(2000))
    if not shuffle:
        assert flat(alone) == list(range(2000))
    ranks = [rows_of(loader_of(both, shuffle=shuffle, rank=rank, world_size=3)) for rank in range(3)]
    assert list(chain.from_iterable(zip(*ranks, strict=True)))[: len(alone)] == alone
    state = {**loader.state_dict(), "epoch": 0, "batch": 77}
    loader.load_state_dict(state)
    assert rows_of(loader) == alone[77:]


def test_a_mixed_folder_has_one_schema(both, tmp_path):
    write_ipc(numbered(10).rename_columns(["row", "other"]), tmp_path / "z.arrow", 5)
    with pytest.raises(sa.TypeMismatch, match="other"):
        loader_of(both)
    assert sum(batch.num_rows for batch in loader_of(both, columns="row")) == 2010


def test_a_schema_is_for_files_of_both_formats(tmp_path):
    strict = pa.schema([pa.field("row", pa.int64(), False), pa.field("half", pa.float64(), False)])
    rows = pa.table({"row": np.arange(20), "half": np.arange(20) / 2}, schema=strict)
    write_ipc(rows, tmp_path / "a.arrow", 10)
    write_parquet(rows, tmp_path / "b.parquet", 10)
    meant = pa.schema([pa.field("row", pa.int64()), pa.field("half", pa.float64(), False)])
    for source in (tmp_path, {tmp_path / "a.arrow": 1, tmp_path / "b.parquet": 1}, tmp_path / "a.arrow",
                   tmp_path / "b.parquet", rows):  # fmt: skip
        loader = loader_of(source, read_options=sa.ReadOptions(schema=meant), shuffle="rows")
        assert loader.schema.field("row").nullable is True, source
        assert {batch.schema.field("row").nullable for batch in loader} == {True}


@pytest.fixture
def sources(tmp_path):
    """Two sources: 1000 rows from 0 on and 3000 rows from 1000 on."""
    for name, rows, first, write in (("a", 1000, 0, write_ipc), ("b", 3000, 1000, write_parquet)):
        (tmp_path / name).mkdir()
        write(numbered(rows, first), tmp_path / name / f"rows.{'arrow' if name == 'a' else 'parquet'}", 30)
    return str(tmp_path / "a"), str(tmp_path / "b")


@pytest.mark.parametrize("shuffle", ["rows", "batches"])
@pytest.mark.parametrize(
    ("weights", "counts"),
    [((0.5, 0.5), (1000, 1000)), ((1, 2), (1000, 2000)), ((3, 1), (1000, 333)), ((1, 30), (100, 3000))],
)
def test_an_epoch_has_rows_of_each_source_by_its_weight(sources, shuffle, weights, counts):
    loader = loader_of(dict(zip(sources, weights, strict=True)), shuffle=shuffle)
    assert len(loader) == -(-sum(counts) // 10)
    epochs = [flat(rows_of(loader)) for _ in range(2)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch), "no row comes twice in an epoch"
        assert (sum(row < 1000 for row in epoch), sum(row >= 1000 for row in epoch)) == counts
    if counts[1] < 3000:
        assert {row for row in epochs[0] if row >= 1000} != {row for row in epochs[1] if row >= 1000}


def test_weighted_sources_are_the_same_for_all_ranks_and_resume(sources):
    given = {sources[0]: 0.7, sources[1]: 0.3}
    loader = loader_of(given, shuffle="rows")
    alone = rows_of(loader)
    for begin in (0, 1, 50, len(alone)):
        state = {**loader.state_dict(), "epoch": 0, "batch": begin}
        parts = []
        for rank in range(4):
            part = loader_of(given, shuffle="rows", rank=rank, world_size=4)
            part.load_state_dict(state)
            parts.append(rows_of(part))
        left = alone[begin:]
        assert list(chain.from_iterable(zip(*parts, strict=True)))[: len(left)] == left
    with pytest.raises(sa.InvalidError, match=r"weights is \[0.7, 0.3\] there and \[0.6, 0.4\] here"):
        loader_of({sources[0]: 0.6, sources[1]: 0.4}, shuffle="rows").load_state_dict(loader.state_dict())


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan"), "1", None, True])
def test_weights_are_numbers_above_zero(sources, weight):
    with pytest.raises(sa.InvalidError, match=r"the weight of .* is .*, expected a number above 0"):
        loader_of({sources[0]: weight, sources[1]: 1}, shuffle="rows")


def test_weights_need_a_shuffle_and_sources(sources):
    with pytest.raises(sa.InvalidError, match="weights of sources are for shuffle"):
        loader_of({sources[0]: 1, sources[1]: 1})
    with pytest.raises(sa.InvalidError, match="mapping from sources to weights is empty"):
        loader_of({}, shuffle="rows")


def test_weighted_units_have_lanes_too():
    batches = [Batch(100, 800, False) for _ in range(200)]
    order = Order(batches, batch_size=5, window=16_000, shuffle="batches", seed=1, drop_last=False,
                  shares=[(50, 1), (150, 1)])  # fmt: skip
    assert (order.rows, order.lanes) == (10_000, 48)
    read = [span for rank in range(8) for load in order.loads(0, Rank(0, rank, 8)) for span in load.spans]
    assert sum(span.rows for span in read) == 10_000
    assert sum(span.rows for span in read if span.batch < 50) == 5000
