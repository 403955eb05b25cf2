"""Exchange with cuDF and pylibcudf on a GPU: every type in both directions, slices, tensors, frames, RMM
under a budget, and stream ordering in both directions."""

from __future__ import annotations

import decimal
import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
import saeta.rmm
import saeta.xlog
from gpu_frameworks import cupy_spinner, cupy_with_a_device, installed_rmm

pytestmark = pytest.mark.gpu

plc = pytest.importorskip("pylibcudf")

ROWS = 1000
ROUNDS = 100
MANY = 1 << 20
SPIN_CYCLES = 40_000_000  # some 20 ms

COLUMNS = {
    "int32": pa.array([None if i % 7 == 0 else i for i in range(ROWS)], pa.int32()),
    "uint8": pa.array(np.arange(ROWS) % 200, pa.uint8()),
    "float64": pa.array(np.arange(ROWS) * 0.5),
    "bool": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in range(ROWS)]),
    "string": pa.array([None if i % 3 == 0 else f"word {i}" for i in range(ROWS)]),
    "large_string": pa.array([f"w{i}" for i in range(ROWS)], pa.large_string()),
    "string_view": pa.array(
        [None if i % 2 else f"a long string view, number {i}" for i in range(ROWS)], pa.string_view()
    ),
    "dictionary": pa.array([f"k{i % 9}" for i in range(ROWS)]).dictionary_encode(),
    "list": pa.array(
        [None if i % 11 == 0 else list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int64())
    ),
    "struct": pa.array([None if i % 13 == 0 else {"a": i, "b": str(i)} for i in range(ROWS)]),
    "timestamp": pa.array(np.arange(ROWS), pa.timestamp("us")),
    "duration": pa.array([None if i % 3 else i for i in range(ROWS)], pa.duration("ms")),
    "date": pa.array(np.arange(ROWS, dtype=np.int32), pa.date32()),
    "decimal128": pa.array([decimal.Decimal(i).scaleb(-2) for i in range(ROWS)], pa.decimal128(12, 2)),
}
CUTS = {"whole": (0, ROWS), "slice": (3, 500), "late": (517, 83), "empty": (100, 0)}


@pytest.fixture
def ctx() -> sa.Context:
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    return sa.context("cuda:0")


def values_of(column: Any) -> list[Any]:
    """Returns the rows that pylibcudf downloads. Its structs have no field names, which pyarrow's to_pylist
    needs."""
    shown = column.to_arrow()
    shown = shown.combine_chunks() if isinstance(shown, pa.ChunkedArray) else shown
    if not pa.types.is_struct(shown.type):
        return shown.to_pylist()
    return named(shown).to_pylist()


def named(shown: pa.Array) -> pa.Array:
    parts = [shown.field(i) for i in range(shown.type.num_fields)]
    return pa.StructArray.from_arrays(parts, names=["a", "b"], mask=shown.is_null())


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_passes_in_both_directions(ctx, kind, cut):
    """pylibcudf imports the table's device array, and Saeta imports the device array that pylibcudf
    exports."""
    rows = COLUMNS[kind].slice(*CUTS[cut])
    table = sa.from_arrow(pa.table({"x": rows}), ctx)
    taken = plc.Table.from_arrow(table)
    assert taken.columns()[0].null_count() == rows.null_count
    assert values_of(taken.columns()[0]) == rows.to_pylist()
    back = sa.from_arrow(taken, ctx).columns[0].to_arrow().combine_chunks()
    assert (named(back) if kind == "struct" else back).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_passes_as_a_column(ctx, kind):
    rows = COLUMNS[kind].slice(5, 40)
    taken = plc.Column.from_arrow(sa.from_arrow(rows, ctx, as_column=True))
    assert values_of(taken) == rows.to_pylist()


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind not in ("string_view", "large_string")])
def test_slices_of_pylibcudf_are_imported_correctly(ctx, kind):
    """pylibcudf exports slices incorrectly (saeta/_convert/from_cudf.py has details), so it must copy them
    first."""
    rows = COLUMNS[kind]
    sliced = plc.copying.slice(plc.Column.from_arrow(rows), [3, 503])[0]
    back = sa.from_arrow(sliced, ctx, as_column=True).to_arrow().combine_chunks()
    assert (named(back) if kind == "struct" else back).to_pylist() == rows.slice(3, 500).to_pylist()


def test_columns_pass_without_a_copy(ctx):
    cupy = cupy_with_a_device()
    column = sa.from_dlpack(cupy.arange(1000), ctx)
    taken = plc.Column.from_arrow(column)
    assert taken.data().__cuda_array_interface__["data"][0] == column.address
    assert sa.from_arrow(taken, ctx).address == column.address


def test_a_table_of_several_batches_is_joined_first(ctx):
    columns = {kind: rows for kind, rows in COLUMNS.items() if kind != "dictionary"}
    table = sa.from_arrow(pa.concat_tables([pa.table(columns)] * 4), ctx)
    taken = plc.Table.from_arrow(table.combine_chunks())
    assert (taken.num_rows(), taken.num_columns()) == (4 * ROWS, len(columns))


def test_tensors_pass_in_both_directions(ctx):
    numbers = plc.Table([plc.Column.from_arrow(pa.array(np.arange(100.0)))])
    assert sa.from_dlpack(plc.interop.to_dlpack(numbers), ctx).to_pylist() == list(range(100))
    capsule = sa.from_arrow(pa.array(np.arange(100.0)), ctx).__dlpack__()
    assert values_of(plc.interop.from_dlpack(capsule).columns()[0]) == list(range(100))


class TestCudf:
    """Exchange of cuDF's Series and DataFrame."""

    @pytest.fixture
    def cudf(self) -> Any:
        return pytest.importorskip("cudf")

    def test_a_series_makes_the_round_trip_of_xlog(self, cudf):
        cupy = cupy_with_a_device()
        series = cudf.Series([1, 2, 3], dtype="int32")
        capsule = sa.xlog.dlpack_roundtrip(series, device=0, memory_mb=256)
        assert cupy.from_dlpack(sa.from_dlpack(capsule)).tolist() == [1, 2, 3]

    def test_a_table_converts_to_a_frame(self, ctx, cudf):
        table = sa.from_arrow(pa.table({kind: COLUMNS[kind] for kind in ("int32", "float64", "string")}), ctx)
        frame = cudf.DataFrame.from_arrow(table.to_arrow())
        assert frame.to_arrow().to_pydict() == table.to_pydict()
        named = cudf.DataFrame.from_pylibcudf(plc.Table.from_arrow(table), {"columns": table.column_names})
        assert named.to_arrow().to_pydict() == table.to_pydict()

    @pytest.mark.parametrize("cut", CUTS)
    def test_frames_and_series_are_imported_with_their_types(self, ctx, cudf, cut):
        first, count = CUTS[cut]
        kinds = (
            "int32",
            "float64",
            "bool",
            "string",
            "list",
            "struct",
            "timestamp",
            "decimal128",
            "dictionary",
        )
        frame = cudf.DataFrame.from_arrow(pa.table({kind: COLUMNS[kind] for kind in kinds}))
        frame["zoned"] = cudf.Series(frame["timestamp"]).dt.tz_localize("UTC")
        for shown in (frame, frame[["int32", "float64", "bool", "string", "list"]]):
            cut_out = shown.iloc[first : first + count]
            assert sa.from_arrow(cut_out, ctx).to_pydict() == cut_out.to_arrow().to_pydict()
        for name in frame.columns:
            series = frame[name].iloc[first : first + count]
            assert sa.from_arrow(series, ctx).to_pylist() == series.to_arrow().to_pylist()
            assert sa.table({"x": series}, ctx)["x"].to_pylist() == series.to_arrow().to_pylist()

    def test_numbers_of_a_series_are_not_downloaded(self, ctx, cudf):
        series = cudf.Series(np.arange(MANY))
        before = ctx.counters()["device_to_host"]["bytes"]
        column = sa.from_arrow(series, ctx)
        assert ctx.counters()["device_to_host"]["bytes"] == before
        assert column.address == series.to_pylibcudf()[0].data().__cuda_array_interface__["data"][0]


def test_cudf_allocates_under_a_budget(ctx):
    rmm = installed_rmm()
    child = ctx.memory.child("cudf", "64MiB")
    before = rmm.mr.get_current_device_resource()
    rmm.mr.set_current_device_resource(saeta.rmm.resource(child))
    try:
        held = plc.Table.from_arrow(pa.table({"a": np.arange(1_000_000)}))
        assert child.memory.statistics()["current"] >= 8_000_000
        with pytest.raises(MemoryError, match="cudf"):
            plc.Table.from_arrow(pa.table({"a": np.arange(20_000_000)}))
        del held
        gc.collect()
    finally:
        rmm.mr.set_current_device_resource(before)
    child.synchronize()
    assert child.memory.statistics()["current"] == 0


class Adder:
    """Runs pylibcudf operations on its stream, behind a spinning CuPy kernel on that stream."""

    def __init__(self) -> None:
        self.cupy = cupy_with_a_device()
        self.spinner = cupy_spinner(self.cupy)
        self.type = plc.DataType(plc.TypeId.INT32)

    def spin(self) -> None:
        with self.cupy.cuda.Stream.null:
            self.spinner(SPIN_CYCLES)

    def plus(self, column: Any, number: int) -> Any:
        added = plc.Scalar.from_arrow(pa.scalar(number, pa.int32()))
        return plc.binaryop.binary_operation(column, added, plc.binaryop.BinaryOperator.ADD, self.type)

    def total(self, column: Any) -> int:
        whole = plc.reduce.reduce(column, plc.aggregation.sum(), plc.DataType(plc.TypeId.INT64))
        return int(whole.to_arrow().as_py())


def test_cudf_waits_for_pending_writes_of_saetas_column(ctx):
    adder = Adder()
    cupy = adder.cupy
    side = cupy.cuda.Stream(non_blocking=True)
    wrong = 0
    for number in range(1, ROUNDS + 1):
        array = cupy.zeros(MANY, dtype=cupy.int32)
        cupy.cuda.runtime.deviceSynchronize()
        with side:
            adder.spinner(SPIN_CYCLES)
            array.fill(number)
            column = sa.from_dlpack(array, ctx)
        wrong += adder.total(plc.Column.from_arrow(column)) != number * MANY
    assert wrong == 0


def test_importing_a_column_waits_for_pending_writes_of_cudf(ctx):
    adder = Adder()
    cupy = adder.cupy
    side = cupy.cuda.Stream(non_blocking=True)
    zeros = plc.Column.from_arrow(pa.array(np.zeros(MANY, np.int32)))
    wrong = 0
    for number in range(1, ROUNDS + 1):
        adder.spin()
        column = sa.from_arrow(adder.plus(zeros, number), ctx)
        with side:
            wrong += int(cupy.from_dlpack(column).sum(dtype=cupy.int64)) != number * MANY
    assert wrong == 0


def test_memory_that_cudf_still_reads_is_not_reused(ctx):
    adder = Adder()
    sums = []
    for number in range(1, ROUNDS + 1):
        column = sa.from_dlpack(np.full(MANY, number, np.int32), ctx)
        view = plc.Column.from_arrow(column)
        adder.spin()
        sums.append(adder.plus(view, 0))
        del view, column
        overwritten = sa.from_dlpack(np.full(MANY, -1, np.int32), ctx)
        del overwritten
    assert sum(adder.total(each) != number * MANY for number, each in enumerate(sums, 1)) == 0
