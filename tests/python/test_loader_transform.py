"""`saeta.loader(transform=)`: a function that changes windows and their numbers of rows."""

from __future__ import annotations

import pickle
import threading
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saeta as sa
from loader_files import files_of_rows, flat, numbered, rows_of, thirds, write_ipc, write_parquet
from loader_options import grouped
from property_settings import examples
from sim_devices import DEVICES, contexts_of
from waiting import eventually

WRITERS = [write_ipc, partial(write_ipc, compression="lz4"), write_parquet]
SHUFFLES = ("rows", "batches", False)
WINDOWS = ("6KB", "20KB", "1MiB")  # of 48 lanes, of a few, and of all rows


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


def unchanged(table):
    return table


def by_slots(loaders):
    """Returns the row numbers of batches with their slots, and the state behind each one."""
    found = []
    for rank, loader in enumerate(loaders):
        for batch in loader:
            after = loader.state_dict()["batch"]
            found.append((after - len(loaders) + rank, rows_of([batch])[0], after))
    return sorted(found)


def batches_of(loaders):
    return [rows for _, rows, _ in by_slots(loaders)]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_function_that_changes_nothing_changes_no_batch(tmp_path, write, shuffle, window):
    files = files_of_rows(tmp_path, [777, 300, 523], 40, write)
    options = {"batch_size": 4, "shuffle": shuffle, "window": window, "to": "table"}
    plain = rows_of(sa.loader(files, "host", **options))
    for world_size in (1, 2, 3, 5):
        ranks = [
            sa.loader(files, "host", transform=unchanged, rank=rank, world_size=world_size, **options)
            for rank in range(world_size)
        ]
        assert batches_of(ranks) == plain


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_that_are_left_come_once_from_any_number_of_ranks(tmp_path, ctx, write, shuffle, window):
    files = files_of_rows(tmp_path, [777, 300, 523], 40, write)
    options = {"batch_size": 4, "shuffle": shuffle, "window": window, "transform": thirds, "to": "table"}
    alone = by_slots([sa.loader(files, ctx, **options)])
    rows = [rows for _, rows, _ in alone]
    assert sorted(flat(rows)) == list(range(0, 1600, 3))
    lanes = sa.loader(files, ctx, **options).lanes
    assert lanes == {"6KB": 1 if not shuffle else lanes, "20KB": lanes, "1MiB": 1}[window]
    assert sum(len(each) < 4 for each in rows) <= lanes, "only the last batch of a lane has fewer rows"
    if shuffle == "rows":
        assert flat(rows)[:8] != sorted(flat(rows)[:8])
    for world_size in (2, 3, 7):
        ranks = [
            sa.loader(files, ctx, rank=rank, world_size=world_size, **options) for rank in range(world_size)
        ]
        assert batches_of(ranks) == rows


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_an_epoch_goes_on_at_any_batch_with_another_number_of_ranks(tmp_path, shuffle):
    files = files_of_rows(tmp_path, [777, 300, 523], 40)
    options = {"batch_size": 4, "shuffle": shuffle, "window": "6KB", "transform": thirds, "to": "table"}
    alone = by_slots([sa.loader(files, "host", **options)])
    state = sa.loader(files, "host", **options).state_dict()
    worlds = (1, 2, 3, 5, 8)
    for number, (slot, _, after) in enumerate(alone[:: len(alone) // 23]):
        assert after == slot + 1
        world_size = worlds[number % len(worlds)]
        ranks = [
            sa.loader(files, "host", rank=rank, world_size=world_size, **options)
            for rank in range(world_size)
        ]
        for each in ranks:
            each.load_state_dict({**state, "batch": after})
        assert batches_of(ranks) == [rows for other, rows, _ in alone if other > slot]
        assert {each.epoch for each in ranks} == {1}


@settings(**examples(60))
@given(
    counts=st.lists(st.integers(0, 90), min_size=1, max_size=4),
    kept=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    batch_size=st.integers(1, 9),
    window=st.integers(300, 9000),
    shuffle=st.sampled_from(SHUFFLES),
    worlds=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_any_number_of_rows_of_a_window(
    tmp_path_factory, counts, kept, batch_size, window, shuffle, worlds, drop_last, data
):
    """A row comes `kept` times, by its number: windows shrink, vanish and grow."""
    files = files_of_rows(tmp_path_factory.mktemp("files"), counts, 20)

    def repeated(table):
        rows = table["row"].to_numpy()
        return table.take(np.repeat(np.arange(len(rows)), np.take(kept, rows % len(kept))))

    def ranks(world_size):
        return [
            sa.loader(
                files, "host", transform=repeated, batch_size=batch_size, window=window, shuffle=shuffle,
                drop_last=drop_last, rank=rank, world_size=world_size, to="table",
            )
            for rank in range(world_size)
        ]  # fmt: skip

    alone = by_slots(ranks(1))
    rows = [each for _, each, _ in alone]
    every = np.repeat(np.arange(sum(counts)), np.take(kept, np.arange(sum(counts)) % len(kept))).tolist()
    if drop_last:
        assert {len(each) for each in rows} <= {batch_size}
        assert len(every) - len(flat(rows)) <= ranks(1)[0].lanes * (batch_size - 1)
    else:
        assert sorted(flat(rows)) == every
    assert batches_of(ranks(worlds[0])) == rows
    if alone:
        slot, _, after = data.draw(st.sampled_from(alone))
        resumed = ranks(worlds[1])
        for each in resumed:
            each.load_state_dict({**each.state_dict(), "batch": after})
        assert batches_of(resumed) == [each for other, each, _ in alone if other > slot]


def test_the_function_is_called_once_for_each_window(tmp_path):
    files = files_of_rows(tmp_path, [1600], 40)
    seen = []

    def note(table):
        assert table["row"].num_chunks == 1, "columns can become tensors"
        seen.append(table["row"].to_pylist())
        return table

    loader = sa.loader(files, "host", transform=note, batch_size=4, window="6KB", shuffle="rows", to="numpy")
    for epoch in range(2):
        list(loader)
        assert len(seen) > loader.lanes
        assert sorted(flat(seen)) == list(range(1600)), epoch
        seen.clear()


def test_columns_are_made_and_matrices_have_them(tmp_path):
    files = files_of_rows(tmp_path, [900], 40)

    def add(table):
        double = (table["row"].to_numpy() * 2).astype(np.float32)
        city = sa.column([["oslo", "rome"][row % 2] for row in table["row"].to_pylist()], "host", name="city")
        return sa.table({"double": double, "half": table["half"], "city": city}, table.context)

    loader = sa.loader(
        files,
        "host",
        transform=add,
        batch_size=50,
        shuffle="rows",
        matrix={"x": ["double", "half"]},
        to="numpy",
        tensor_options=sa.TensorOptions(codes={"city": ["rome", "oslo"]}),
    )
    assert loader.schema.names == ["row", "half"], "what the function gets"
    assert loader.codes == {}, "nothing is known before there is a batch"
    for batch in loader:
        assert batch.keys() == {"city", "x"}
        assert (batch["x"][:, 0] == batch["x"][:, 1] * 4).all()
        assert (batch["city"] == 1 - batch["x"][:, 0] // 2 % 2).all()
    assert loader.codes == {"city": ["rome", "oslo"]}


def third_rows(table):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(table).filter(polars.col("row") % 3 == 0)


@pytest.mark.parametrize(
    "kept",
    [
        third_rows,
        lambda table: pa.table(table).filter(pc.equal(pc.bit_wise_and(pa.table(table)["row"], 1), 0)),
    ],
)
def test_tables_of_other_libraries_are_taken(tmp_path, kept):
    files = files_of_rows(tmp_path, [900], 40)
    taken = flat(rows_of(sa.loader(files, "host", transform=kept, batch_size=50, shuffle="rows", to="numpy")))
    assert sorted(taken) == pa.table(kept(sa.from_arrow(numbered(900), "host")))["row"].to_pylist()


def test_no_rows_are_left(tmp_path):
    files = files_of_rows(tmp_path, [900], 40)
    loader = sa.loader(
        files, "host", transform=lambda table: table[:0], batch_size=5, window="6KB", to="numpy"
    )
    assert list(loader) == []
    assert loader.state_dict()["epoch"] == 1


def test_lanes_that_end_early_have_no_batches_in_their_slots(tmp_path):
    files = files_of_rows(tmp_path, [1600], 40)
    options = {"batch_size": 4, "window": "6KB", "shuffle": "batches", "to": "numpy"}
    lanes = sa.loader(files, "host", **options).lanes
    plain = rows_of(sa.loader(files, "host", **options))
    gone = set(flat(plain[3::lanes]))  # all rows of lane 3

    def drop(table):
        keep = [row not in gone for row in table["row"].to_pylist()]
        return table.filter(sa.column(keep, "host", name="kept"))

    loader = sa.loader(files, "host", transform=drop, **options)
    found = by_slots([loader])
    assert all(slot % lanes != 3 for slot, _, _ in found)
    assert [rows for _, rows, _ in found] == [rows for slot, rows in enumerate(plain) if slot % lanes != 3]


def test_weights_count_rows_before_the_function(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    files_of_rows(tmp_path / "a", [900], 20)
    write_ipc(numbered(300, 900), tmp_path / "b" / "few.arrow", 20)
    sources = {str(tmp_path / "a"): 0.5, str(tmp_path / "b"): 0.5}
    options = {"batch_size": 5, "window": "4KB", "shuffle": "rows", "seed": 3, "to": "numpy"}
    plain = flat(rows_of(sa.loader(sources, "host", **options)))
    assert len(plain) == 600
    changed = flat(rows_of(sa.loader(sources, "host", transform=thirds, **options)))
    assert sorted(changed) == sorted(row for row in plain if row % 3 == 0)


def test_what_the_function_raises_names_the_window(tmp_path):
    files = files_of_rows(tmp_path, [300, 300], 40)

    def fail(table):
        if 333 in table["row"].to_pylist():
            raise LookupError("no such city")
        return table

    loader = sa.loader(files, "host", transform=fail, batch_size=4, window="800B", to="numpy")
    batches = iter(loader)
    taken = []
    with pytest.raises(LookupError, match="no such city") as raised:
        taken += rows_of(batches)
    (note,) = raised.value.__notes__
    assert note.startswith("in the transform of file")
    assert "part-1.arrow', batch 0" in note
    with pytest.raises(StopIteration):
        next(batches)
    assert rows_of([next(iter(loader))]) == [[0, 1, 2, 3]], "an epoch that is left is begun again"


def test_a_function_can_not_end_the_epoch(tmp_path):
    files = files_of_rows(tmp_path, [300], 40)

    def fail(table):
        return next(iter([]))

    with pytest.raises(RuntimeError, match="transform raised StopIteration"):
        list(sa.loader(files, "host", transform=fail, batch_size=4, to="numpy"))


def test_results_of_several_contexts_are_mixed(tmp_path):
    """Some are the window itself, in the loader's context, others are in the program's."""
    files = files_of_rows(tmp_path, [300], 40)

    def change(table):
        return sa.table({"row": table["row"], "half": table["half"]}, "host") if 40 in table["row"] else table

    with sa.context("host").memory.child("training", "1MiB") as share:
        for shuffle in SHUFFLES:
            loader = sa.loader(
                files, share, transform=change, batch_size=7, window="800B", shuffle=shuffle, to="numpy"
            )
            assert sorted(flat(rows_of(loader))) == list(range(300))
            loader.close()
            del loader


def test_errors_of_reading_name_the_file(tmp_path):
    (file,) = files_of_rows(tmp_path, [3000], 1000, partial(write_ipc, compression="lz4"))
    content = bytearray((tmp_path / "part-0.arrow").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = b"\xff" * 400
    (tmp_path / "part-0.arrow").write_bytes(content)
    with pytest.raises(sa.FormatError, match=r"^reading file '.*part-0.arrow', batch 1: "):
        list(sa.loader(file, "host", transform=unchanged, batch_size=40, window="1KB", to="numpy"))


def test_results_with_another_schema_are_refused(tmp_path):
    files = files_of_rows(tmp_path, [900], 40)

    def load(change):
        def of_window(table):
            return table if 0 in table["row"].to_pylist() else change(table)

        loader = sa.loader(files, "host", transform=of_window, batch_size=4, window="800B", to="numpy")
        return flat(rows_of(loader))

    with pytest.raises(sa.TypeMismatch, match=r"part-0.arrow', batch.*'half'.*float64.*float32|half"):
        load(
            lambda table: sa.table(
                {"row": table["row"], "half": table["half"].to_numpy().astype(float)}, "host"
            )
        )
    with pytest.raises(sa.TypeMismatch, match=r"has the columns \['row'\], .* has \['row', 'half'\]"):
        load(lambda table: table.select(["row"]))
    assert load(lambda table: table.select(["half", "row"])) == list(range(900)), "columns are found by name"


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"transform": 3}, sa.TypeMismatch, "transform is of type int, expected a function"),
        ({"transform": lambda table: None}, sa.TypeMismatch, "returned an object of type NoneType for file"),
        ({"transform": lambda table: sa.concat_columns}, AttributeError, "concat_columns"),
        ({"transform": unchanged, "codes": True}, sa.InvalidError, "need their values"),
        ({"transform": unchanged, "matrix": ["nothing"]}, sa.ColumnNameError, "nothing"),
    ],
)
def test_arguments_and_results_that_cannot_be_used(tmp_path, options, error, match):
    files = files_of_rows(tmp_path, [90], 40)
    with pytest.raises(error, match=match):
        list(sa.loader(files, "host", batch_size=4, to="numpy", **grouped(options)))


def test_a_loader_with_a_function_has_no_length(tmp_path):
    torch = pytest.importorskip("torch")
    files = files_of_rows(tmp_path, [900], 40)
    loader = sa.loader(files, "host", transform=thirds, batch_size=50)
    with pytest.raises(TypeError, match="has no length"):
        len(loader)
    assert repr(loader) == "<saeta.Loader of 900 rows before transform, batches of 50>"
    batches = list(torch.utils.data.DataLoader(loader, batch_size=None))
    assert torch.cat([batch["row"] for batch in batches]).tolist() == list(range(0, 900, 3))


def test_states_with_and_without_a_function_differ(tmp_path):
    files = files_of_rows(tmp_path, [900], 40)
    plain = sa.loader(files, "host", batch_size=50, to="numpy")
    changed = sa.loader(files, "host", transform=thirds, batch_size=50, to="numpy")
    with pytest.raises(sa.InvalidError, match="transform is False there and True here"):
        changed.load_state_dict(plain.state_dict())
    with pytest.raises(sa.InvalidError, match="transform is True there and False here"):
        plain.load_state_dict(changed.state_dict())


def test_a_loader_with_a_function_pickles_with_its_place(tmp_path):
    files = files_of_rows(tmp_path, [900], 40)
    loader = sa.loader(
        files, "host", transform=thirds, batch_size=7, shuffle="rows", window="2KB", to="table"
    )
    batches = iter(loader)
    taken = rows_of(next(batches) for _ in range(11))
    restored = pickle.loads(pickle.dumps(loader))
    assert rows_of(restored) == rows_of(batches)
    assert restored.epoch == 1
    assert len(taken) == 11


def test_windows_that_the_function_keeps_stay_charged_and_whole(tmp_path, ctx):
    files = files_of_rows(tmp_path, [3000], 100)
    before = ctx.memory.statistics()["current"]
    kept = []

    def keep(table):
        kept.append(table)
        return table

    with sa.loader(
        files, ctx, transform=keep, batch_size=20, window="6KB", shuffle="rows", to="table"
    ) as loader:
        assert sorted(flat(rows_of(loader))) == list(range(3000))
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] - before >= 3000 * 12
    assert sorted(chain.from_iterable(table["row"].to_pylist() for table in kept)) == list(range(3000))
    kept.clear()
    ctx.synchronize()
    assert ctx.memory.statistics()["current"] == before


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_budget_is_never_exceeded(tmp_path, ctx, shuffle):
    rows, window = 60_000, 32 << 10
    files = files_of_rows(tmp_path, [rows], 1000)
    with ctx.memory.child("training", 8 * window) as share:
        with sa.loader(
            files, share, transform=unchanged, batch_size=64, window=window, shuffle=shuffle, to="table"
        ) as loader:
            assert sorted(flat(rows_of(loader))) == list(range(rows))
        assert share.memory.statistics()["peak"] <= 8 * window


def test_no_row_is_lost_if_reading_ahead_exceeds_the_budget(tmp_path, ctx):
    files = files_of_rows(tmp_path, [8000], 1000)
    with ctx.memory.child("training", 128 << 10) as share:
        rest = share.allocate((128 - 20) << 10)  # leaves room for one window
        loader = sa.loader(files, share, transform=unchanged, batch_size=1000, window="12KiB", to="table")
        batches = iter(loader)
        held = [next(batches)]
        assert eventually(lambda: share.memory.statistics()["refused"] > 0, collect=False)
        rows = flat(rows_of(held))
        del rest
        held.clear()
        assert rows + flat(rows_of(batches)) == list(range(8000))
        loader.close()


def test_rows_that_have_no_room_as_tensors_are_converted_without_reading_ahead(tmp_path, monkeypatch):
    files = files_of_rows(tmp_path, [1600], 40)
    loader = sa.loader(
        files, "host", transform=thirds, batch_size=4, window="6KB", shuffle="rows", to="table"
    )
    whole = rows_of(loader)
    loader.set_epoch(0)
    convert, refused = loader._features.batches, []

    def refuse_once(table, rows):
        if len(refused) < 3:  # in the middle of the epoch
            refused.append(rows)
            if len(refused) == 3:
                raise sa.BudgetExceeded("no room")
        return convert(table, rows)

    monkeypatch.setattr(loader._features, "batches", refuse_once)
    assert rows_of(loader) == whole
    assert len(refused) == 3


def test_close_waits_for_a_function_that_runs(tmp_path):
    files = files_of_rows(tmp_path, [1600], 40)
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def wait(table):
        begun.set()
        go_on.wait(60)
        ended.set()
        return table

    loader = sa.loader(files, "host", transform=wait, batch_size=4, window="6KB", shuffle="rows", to="numpy")
    batches = iter(loader)
    failures = []

    def take():
        try:
            next(batches)
        except sa.ClosedError as failure:
            failures.append(type(failure))

    taker = threading.Thread(target=take, daemon=True)
    threading_excepthook, threading.excepthook = (
        threading.excepthook,
        lambda seen: failures.append(seen.exc_type),
    )
    try:
        taker.start()
        assert begun.wait(60)
        threading.Timer(0.1, go_on.set).start()
        loader.close()
        assert ended.is_set()
        taker.join(60)
    finally:
        threading.excepthook = threading_excepthook
    assert failures == [sa.ClosedError]


def test_a_table_is_one_window(ctx):
    seen = []

    def note(table):
        seen.append(len(table))
        return thirds(table)

    table = sa.from_arrow(numbered(900), ctx)
    loader = sa.loader(table, ctx, transform=note, batch_size=20, shuffle="rows", window="1KB", to="table")
    assert sorted(flat(rows_of(loader))) == list(range(0, 900, 3))
    assert seen == [900]
