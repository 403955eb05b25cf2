"""Exchange with cuDF, tested with stand-ins: pylibcudf's slices, frames with types that their columns lack,
and the device array of a table as `pylibcudf.Table.from_arrow` reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from protocols import CArray, device_array_in
from sim_devices import simulator

ROWS = pa.array([None, 1, 2, 3, None, 5], pa.int32())


@pytest.fixture
def device():
    simulated = simulator().Device()
    yield simulated.context
    assert simulated.races == []


class Column:
    """Stands in for pylibcudf.Column, which exports slices incorrectly: with offset 0 and thus with the wrong
    rows."""

    def __init__(self, ctx: sa.Context, rows: pa.Array, offset: int = 0, children: tuple[Any, ...] = ()):
        self.ctx, self.rows, self.begin, self.parts, self.copied = ctx, rows, offset, children, 0

    def offset(self) -> int:
        return self.begin

    def children(self) -> list[Any]:
        return list(self.parts)

    def copy(self) -> Column:
        self.copied += 1
        return Column(self.ctx, self.rows)

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> Any:
        wrong = self.begin or any(part.begin for part in self.parts)
        shown = pa.nulls(len(self.rows), self.rows.type) if wrong else self.rows
        return sa.from_arrow(shown, self.ctx, as_column=True).__arrow_c_device_array__()


class Table(Column):
    def columns(self) -> list[Any]:
        return list(self.parts)

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> Any:
        parts = {f"c{i}": sa.from_arrow(part, self.ctx) for i, part in enumerate(self.parts)}
        return sa.table(parts, self.ctx).__arrow_c_device_array__()


class Series:
    def __init__(self, rows: pa.Array, below: Column):
        self.rows, self.below, self.downloads = rows, below, 0

    @property
    def iloc(self) -> Any:
        outer = self

        class Rows:
            def __getitem__(self, rows: slice) -> Any:
                return Series(outer.rows[rows], outer.below)

        return Rows()

    def to_arrow(self) -> Any:
        self.downloads += len(self.rows)
        return self.rows

    def to_pylibcudf(self) -> tuple[Column, dict[str, Any]]:
        return self.below, {}


class DataFrame(Series):
    columns = ("x",)

    @property
    def iloc(self) -> Any:
        outer = self

        class Rows:
            def __getitem__(self, rows: slice) -> Any:
                return DataFrame(outer.rows[rows], outer.below)

        return Rows()

    def to_arrow(self, preserve_index: bool | None = None) -> Any:
        self.downloads += len(self.rows)
        labels = pa.array(range(len(self.rows)))
        return self.rows if preserve_index is False else self.rows.append_column("__index_level_0__", labels)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__()


for stand_in, module in ((Column, "pylibcudf.column"), (Table, "pylibcudf.table")):
    stand_in.__module__ = module
Series.__module__ = "cudf.core.series"
DataFrame.__module__ = "cudf.core.dataframe"


@pytest.mark.parametrize("where", ["itself", "its child"])
def test_pylibcudf_copies_a_slice_before_its_export(host, where):
    late = Column(host, ROWS, offset=3)
    column = late if where == "itself" else Column(host, ROWS, children=(late,))
    assert sa.from_arrow(column, host).to_pylist() == ROWS.to_pylist()
    assert column.copied == 1
    with pytest.raises(sa.ExchangeError, match="copy=False"):
        sa.from_arrow(column, host, copy=False)


def test_a_whole_column_of_pylibcudf_is_not_copied(host):
    column = Column(host, ROWS)
    assert sa.from_arrow(column, host, copy=False).to_pylist() == ROWS.to_pylist()
    assert column.copied == 0


def test_a_series_is_imported_from_its_pylibcudf_column(device):
    series = Series(ROWS, Column(device, ROWS))
    assert sa.from_arrow(series, device).to_pylist() == ROWS.to_pylist()
    assert sa.table({"x": series}, device)["x"].to_pylist() == ROWS.to_pylist()
    assert series.downloads == 0


def test_a_series_with_a_time_zone_is_imported_through_the_host(device):
    zoned = pa.array([1, None, 3], pa.timestamp("us", "UTC"))
    series = Series(zoned, Column(device, zoned.cast(pa.timestamp("us"))))
    taken = sa.from_arrow(series, device)
    assert (str(taken.type), taken.to_pylist()) == (str(sa.DataType(zoned.type)), zoned.to_pylist())


def test_batches_of_ray_become_tables_without_a_download(device):
    pytest.importorskip("ray")
    import saeta.ray

    frame = DataFrame(pa.table({"x": ROWS}), Table(device, ROWS, children=(Column(device, ROWS),)))
    with device.forbid_downloads():
        made = saeta.ray.collate(device)(frame)
    assert (made.device, frame.downloads) == (device.device, 0)
    assert made["x"].to_pylist() == ROWS.to_pylist()


def test_a_frame_keeps_its_names_and_types(device):
    plain = pa.table({"x": ROWS})
    frame = DataFrame(plain, Table(device, ROWS, children=(Column(device, ROWS),)))
    assert sa.from_arrow(frame, device).to_arrow().equals(plain)
    assert frame.downloads == 0
    zoned = pa.table({"x": pa.array([1, None, 3], pa.timestamp("us", "UTC"))})
    below = Column(device, zoned["x"].cast(pa.timestamp("us")).combine_chunks())
    assert (
        sa.from_arrow(DataFrame(zoned, Table(device, ROWS, children=(below,))), device)
        .to_arrow()
        .equals(zoned)
    )


def test_the_index_of_a_frame_is_imported_only_on_request(device):
    rows = pa.table({"x": ROWS})
    for where in (device, sa.context("host")):
        frame = DataFrame(rows, Table(device, ROWS, children=(Column(device, ROWS),)))
        assert sa.from_arrow(frame, where).column_names == ["x"]
        assert sa.table(frame, where, index=True).column_names == ["x", "__index_level_0__"]


def test_a_host_context_uses_the_download_of_the_series(host):
    assert sa.from_arrow(Series(ROWS, Column(host, ROWS)), host).to_pylist() == ROWS.to_pylist()
    assert sa.column(Series(ROWS, Column(host, ROWS)), host, name="x").to_pylist() == ROWS.to_pylist()


def test_objects_with_only_to_dlpack_are_imported(host):
    class Old:
        def to_dlpack(self) -> Any:
            return sa.from_arrow(pa.array([1, 2, 3]), host).__dlpack__()

    assert sa.from_dlpack(Old(), host).to_pylist() == [1, 2, 3]
    assert sa.from_dlpack(Old()).to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("copy", [None, True])
def test_the_release_of_a_producer_holds_the_gil(device, copy):
    """pylibcudf's release callback drops Python objects without acquiring the GIL. Saeta releases memory on
    any thread, so it must hold the GIL for this callback."""
    sim = simulator()
    capsules = sa.from_arrow(ROWS, device).__arrow_c_device_array__()
    sim.watch_release(capsules[1])
    taken = sa.from_arrow(capsules, device, copy=copy)
    assert taken.to_pylist() == ROWS.to_pylist()
    del taken
    device.synchronize()
    assert sim.watched_releases() == [True]


def test_a_refused_array_is_released_once(device):
    sim = simulator()
    capsules = sa.from_arrow(ROWS, device).__arrow_c_device_array__()
    sim.watch_release(capsules[1])
    with pytest.raises(sa.Error):
        sa.from_arrow((pa.field("x", pa.string()).__arrow_c_schema__(), capsules[1]), device)
    assert sim.watched_releases() == []
    assert sa.from_arrow(capsules, device).to_pylist() == ROWS.to_pylist()
    device.synchronize()
    assert sim.watched_releases() == [True]


def test_a_series_of_structs_is_a_column(device):
    rows = pa.array([{"a": 1}, None])
    assert sa.from_arrow(Series(rows, Column(device, rows)), device).to_pylist() == rows.to_pylist()


class TestTheDeviceArrayOfATable:
    """pylibcudf imports the struct without a copy: it uses the buffers of the children in place, trusts their
    null counts, and makes its stream wait for the event."""

    SOURCE = pa.table(
        {
            "id": pa.array([1, None, 3, 4], pa.int64()),
            "name": pa.array(["a", None, None, "dd"]),
            "days": pa.array([[1], [], [2, 3], [4]], pa.list_(pa.int32())),
            "fare": pa.array([0.5, 1.5, 2.5, 3.5]),
        }
    )

    def children(self, table: sa.Table, capsule: Any) -> dict[str, CArray]:
        shown = device_array_in(capsule)
        kind, number = table["fare"].__dlpack_device__()
        assert (shown.device_type, shown.device_id) == (kind, number)
        array = shown.array
        assert (array.length, array.null_count, array.offset) == (table.num_rows, 0, 0)
        assert array.n_children == table.num_columns
        return {name: array.children[i].contents for i, name in enumerate(table.column_names)}

    def test_has_a_child_for_each_column_with_its_buffers_where_they_are(self, device):
        table = sa.from_arrow(self.SOURCE, device)
        capsules = table.__arrow_c_device_array__()
        children = self.children(table, capsules[1])
        assert {name: child.n_buffers for name, child in children.items()} == {
            "id": 2,
            "name": 3,
            "days": 2,
            "fare": 2,
        }
        assert children["id"].buffers[1] == table["id"].address
        assert children["fare"].buffers[1] == table["fare"].address
        items = children["days"].children[0].contents
        assert (children["days"].n_children, items.length, items.null_count) == (1, 4, 0)

    @pytest.mark.parametrize("cut", [(0, 4), (1, 3), (3, 1), (2, 0)], ids=str)
    def test_counts_the_nulls_of_the_rows_that_it_has(self, device, cut):
        rows = self.SOURCE.slice(*cut)
        table = sa.from_arrow(self.SOURCE, device).slice(*cut)
        capsules = table.__arrow_c_device_array__()
        for name, child in self.children(table, capsules[1]).items():
            assert (child.length, child.null_count) == (len(rows), rows[name].null_count), name

    def test_has_an_event_for_writers_that_have_not_finished(self):
        from cuda_module import cuda, simulated

        events = []
        with simulated() as (device,):
            memory = cuda.Context(0).buffer_from_data(bytes(64))
            column = sa.from_arrow(pa.Array.from_buffers(pa.uint8(), 64, [None, memory]), device.context)
            table = sa.table({"x": column}, device.context)
            for seconds in (0.02, 0.5, 5.0):  # on a busy machine short writes may already be done
                work = device.fill_late(memory.address, 64, 7, seconds)
                capsules = table.__arrow_c_device_array__()
                events.append(device_array_in(capsules[1]).sync_event)
                taken = sa.from_arrow(capsules, device.context)
                assert taken["x"].to_pylist() == [7] * 64
                del work, capsules, taken
                if events[-1] is not None:
                    break
            del table, memory, column
        assert events[-1] is not None

    def test_has_no_event_where_nothing_is_pending(self, device):
        table = sa.table({"fare": np.arange(1000.0)}, device)
        device.synchronize()
        capsules = table.__arrow_c_device_array__()
        assert device_array_in(capsules[1]).sync_event is None

    def test_needs_one_batch(self, device):
        table = sa.from_arrow(pa.concat_tables([self.SOURCE, self.SOURCE]), device)
        with pytest.raises(BufferError, match="combine_chunks"):
            table.__arrow_c_device_array__()
        capsules = table.combine_chunks().__arrow_c_device_array__()
        assert device_array_in(capsules[1]).array.length == 8
