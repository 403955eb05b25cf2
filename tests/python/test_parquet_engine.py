"""Which engine reads Parquet, and what a device would decode: choices made from schemas and metadata, without
a device."""

from __future__ import annotations

import datetime
import logging
import sys
import types
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import saeta as sa
from parquet_collection import COLLECTION, COLUMNS, HOST_COLUMNS, ON_HOST
from saeta._files import parquet, parquet_set
from saeta._loader.codes import make_coders
from saeta._loader.data import data_of
from saeta._loader.records import Selection
from saeta._parquet.decoder import Decoder, constant
from saeta._parquet.engine import device_plan
from saeta._parquet.filters import EVERY_ROW, Known, clauses_of, literal
from saeta._parquet.plan import Plan, plan_of
from saeta._parquet.types import reason_for_host


class Device(NamedTuple):
    """Stands in for the context of a GPU, of which the choice needs no more than the name."""

    device: str = "cuda:0"


def data_set_of(source: Any, **options: Any) -> parquet_set.ParquetSet:
    given = {"partitioning": "hive", "columns": None, "schema": None, "index": False, **options}
    return parquet_set.find(source, given.pop("filesystem", None), **given)


def planned(source: Any, filters: Any = None, **options: Any) -> Plan:
    return plan_of(data_set_of(source, **options), filters)


@pytest.fixture
def pylibcudf(monkeypatch):
    monkeypatch.setitem(sys.modules, "pylibcudf", types.ModuleType("pylibcudf"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rides.parquet"
    table = pa.table({"id": range(100), "city": [f"city {number % 7}" for number in range(100)]})
    pq.write_table(table, path, row_group_size=10)
    return path


READERS = {
    "read_parquet": lambda path, engine: sa.read_parquet(path, "host", engine=engine),
    "scan_parquet": lambda path, engine: sa.scan_parquet(path, "host", engine=engine),
    "loader": lambda path, engine: sa.loader(
        path, "host", batch_size=1, to="table", read_options=sa.ReadOptions(engine=engine)
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_an_unknown_engine_is_refused_with_the_choices(file, reader):
    with pytest.raises(sa.InvalidError, match="engine='gpu': expected 'device', 'host' or None"):
        READERS[reader](file, "gpu")


@pytest.mark.parametrize("reader", READERS)
def test_the_host_has_no_device_that_decodes(file, reader):
    with pytest.raises(sa.UnsupportedError, match="needs a context of a CUDA device, not of 'host'"):
        READERS[reader](file, "device")
    READERS[reader](file, "host")


def test_a_context_of_the_host_says_nothing_of_the_engine(file, caplog):
    with caplog.at_level(logging.DEBUG, "saeta.parquet"):
        sa.read_parquet(file, "host")
    assert caplog.records == []


def test_without_pylibcudf_pyarrow_reads_and_one_line_says_so(file, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "pylibcudf", None)
    data_set = data_set_of(file)
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        assert device_plan(None, Device(), data_set, None) is None
    assert len(caplog.records) == 1
    assert "pip install pylibcudf-cu13" in caplog.text
    with pytest.raises(sa.MissingDependency, match="pylibcudf"):
        device_plan("device", Device(), data_set, None)


def test_what_needs_pyarrow_falls_back_with_its_reason_or_is_refused(tmp_path, pylibcudf, caplog):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1], "half": pa.array([np.float16(1)])}), path)
    with caplog.at_level(logging.INFO, "saeta.parquet"):
        assert device_plan(None, Device(), data_set_of(path), None) is None
    assert "column 'half' of type halffloat: cuDF can't give back 16-bit floats" in caplog.text
    with pytest.raises(sa.UnsupportedError, match="column 'half'"):
        device_plan("device", Device(), data_set_of(path), None)
    assert device_plan("device", Device(), data_set_of(path, columns="n"), None) is not None
    assert device_plan("host", Device(), data_set_of(path, columns="n"), None) is None


@pytest.mark.parametrize("name", COLLECTION)
def test_the_decision_is_made_from_the_schema(tmp_path, name):
    path = tmp_path / "a.parquet"
    COLLECTION[name](path)
    if name in ON_HOST:
        with pytest.raises(sa.UnsupportedError, match=r"column '.*' of type"):
            planned(path)
    else:
        rows = sum(group.rows for group in planned(path).groups)
        assert rows == pq.read_metadata(path).num_rows


def test_types_inside_of_others_decide_too():
    for name, array in {**COLUMNS, **HOST_COLUMNS}.items():
        is_host = name in HOST_COLUMNS or name in ("date64", "null", "number_dictionary")
        for nested in (array.type, pa.list_(array.type), pa.struct([("a", pa.int8()), ("b", array.type)])):
            assert (reason_for_host(nested) is not None) == is_host, (name, nested)


def test_only_row_groups_that_may_match_are_read(file):
    assert [group.number for group in planned(file, [("id", ">=", 75)]).groups] == [7, 8, 9]
    assert [group.number for group in planned(file, [[("id", "<", 5)], [("id", "=", 42)]]).groups] == [0, 4]
    assert planned(file, [("id", ">", 1000)]).groups == []
    assert planned(file, [("id", ">", 50)], columns="city").files[0].names == ["city", "id"]
    assert planned(file, columns="city").files[0].names == ["city"]


def test_a_window_has_row_groups_whose_values_fit(file):
    plan = planned(file, columns="id")
    assert [group.nbytes for group in plan.groups] == [80] * 10
    assert [[group.number for group in part.groups] for part in plan.parts(250)] == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8], [9]
    ]  # fmt: skip
    assert [part.rows for part in plan.parts(1)] == [10] * 10
    assert len(plan.parts(1 << 30)) == 1


def test_text_that_a_file_has_once_counts_for_each_of_its_rows(tmp_path):
    word = "x" * 1000
    pq.write_table(pa.table({"word": [word] * 1000}), tmp_path / "a.parquet")
    (group,) = planned(tmp_path / "a.parquet").groups
    assert group.nbytes >= 1000 * len(word)


def test_files_that_one_call_decodes_go_together(tmp_path):
    for number in range(4):
        columns = {"a": [1, 2], "b": [3.0, 4.0]}
        if number == 3:
            columns = dict(reversed(columns.items()))
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    parts = planned(tmp_path, columns=["a", "b"]).parts(1 << 20)
    assert [part.by_file for part in parts] == [{0: [0], 1: [0], 2: [0]}, {3: [0]}]


def test_columns_of_folders_are_compared_before_files_are_read(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / f"year={year}" / "a.parquet", row_group_size=1)
    plan = planned(tmp_path, [("year", "=", 2024)])
    assert {group.file for group in plan.groups} == {1}
    assert plan.files[1].clauses == EVERY_ROW
    assert plan.files[1].known == {"year": Known(2024, pa.int32())}
    either = planned(tmp_path, [[("year", "=", 2024)], [("n", "=", 3)]])
    assert [(group.file, group.number) for group in either.groups] == [(0, 2), (1, 0), (1, 1), (1, 2)]
    assert [file.clauses for file in either.files] == [[[("n", "=", 3)]], EVERY_ROW]


def test_a_column_of_nothing_but_nulls_is_not_read(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2], "b": pa.nulls(1)}), tmp_path / "2.parquet")
    plan = planned(tmp_path)
    assert [file.names for file in plan.files] == [["a", "b"], ["a"]]
    assert plan.files[1].known == {"b": Known(None, pa.string())}


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        (pyarrow.dataset.field("id") > 3, "filters is an expression"),
        ([("id", ">", 2.5)], r"'id' of type int64 > 2.5 is compared by pyarrow only"),
        ([("id", "=", None)], "is compared by pyarrow only"),
        ([("other", "=", 1)], "'other', which is not the name of one column"),
    ],
    ids=str,
)
def test_filters_that_a_device_may_apply_otherwise_are_left_to_pyarrow(file, filters, reason):
    with pytest.raises(sa.UnsupportedError, match=reason):
        planned(file, filters)


def test_a_value_is_compared_on_a_device_only_if_pyarrow_compares_the_same():
    day, moment = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3)
    zoned = moment.replace(tzinfo=datetime.UTC)
    assert literal(5, pa.int8()) == pa.scalar(5, pa.int8())
    assert literal(np.int64(5), pa.uint32()) == pa.scalar(5, pa.uint32())
    assert literal("a", pa.dictionary(pa.int8(), pa.string())) == pa.scalar("a")
    assert literal(day, pa.date32()) == pa.scalar(day)
    assert literal(moment, pa.timestamp("ms")) == pa.scalar(moment, pa.timestamp("ms"))
    assert literal(zoned, pa.timestamp("us", "UTC")) == pa.scalar(moment, pa.timestamp("us"))
    for value, column in (
        (300, pa.int8()),
        (-1, pa.uint8()),
        (True, pa.int8()),
        (1, pa.bool_()),
        (1.5, pa.int8()),
        (0.1, pa.float32()),
        (float("nan"), pa.float64()),
        (moment, pa.date32()),
        (day, pa.timestamp("ms")),
        (moment, pa.timestamp("us", "UTC")),
        (zoned, pa.timestamp("us")),
        (moment.replace(microsecond=1), pa.timestamp("ms")),
        ("a", pa.binary()),
        (None, pa.int8()),
        (1, pa.decimal128(5, 2)),
    ):
        assert literal(value, column) is None, (value, column)


def test_filters_are_clauses_of_tuples():
    one = [("a", "=", 1), ("b", "in", {2})]
    assert clauses_of(one) == [one]
    assert clauses_of([one, [("c", "<", 1)]]) == [one, [("c", "<", 1)]]
    for other in ([("a", "like", 1)], [("a", "=")], [("a", "in", "text")], [], "a", [[("a", 1)]], [1]):
        assert clauses_of(other) is None


def test_files_of_another_machine_are_read_by_pyarrow(tmp_path, file):
    system = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    with pytest.raises(sa.UnsupportedError, match="is not on a file system of this machine"):
        planned("rides.parquet", filesystem=system)


def test_names_that_cudf_takes_for_paths_are_read_by_pyarrow(tmp_path):
    pq.write_table(pa.table({"a.b": [1]}), tmp_path / "a.parquet")
    with pytest.raises(sa.UnsupportedError, match=r"column 'a\.b' of type int64: cuDF takes the dot"):
        planned(tmp_path / "a.parquet")


def test_a_type_that_differs_from_the_schema_is_converted_by_pyarrow(tmp_path):
    pq.write_table(pa.table({"a": pa.array(["x"]).dictionary_encode()}), tmp_path / "a.parquet")
    meant = pa.schema([("a", pa.dictionary(pa.int32(), pa.string()))])
    assert planned(tmp_path / "a.parquet", schema=meant).files[0].names == ["a"]
    with pytest.raises(sa.UnsupportedError, match="no column"):
        planned(tmp_path / "a.parquet", columns=[])


@pytest.mark.parametrize(
    "known",
    [
        Known(5, pa.int32()),
        Known("a", pa.string()),
        Known(None, pa.list_(pa.int8())),
        Known("a", pa.dictionary(pa.int32(), pa.string())),
        Known(None, pa.null()),
    ],
    ids=str,
)
def test_a_column_with_one_value_has_it_in_all_rows(known):
    array = constant(known, 3)
    assert array.type == known.type
    assert array.to_pylist() == [known.value] * 3


def test_a_plan_for_some_columns_reads_these_only(file):
    plan = planned(file)
    narrowed = plan.narrowed(["city"])
    assert narrowed.schema.names == ["city"]
    assert [file_plan.names for file_plan in narrowed.files] == [["city"]]
    assert plan.files[0].names == ["id", "city"]


@pytest.mark.parametrize("limit", [None, "4MiB"])
def test_pyarrow_reads_the_part_that_cudf_refuses(file, host, monkeypatch, limit):
    data_set, filters = data_set_of(file, columns="city"), [("id", ">=", 25)]
    plan = plan_of(data_set, filters)
    monkeypatch.setattr(parquet, "Decoder", lambda ctx, plan, on_host: on_host)
    with host.memory.child("reading", limit) as child:
        assert parquet.decoder_of(plan, "device", child, data_set, filters) is None
        read = parquet.decoder_of(plan, None, child, data_set, filters)
        tables = [read(part) for part in plan.parts(1 << 20)]
        assert [table.column_names for table in tables] == [["city"]]
        assert tables[0]["city"].to_pylist() == [f"city {number % 7}" for number in range(25, 100)]
        (third, *_) = plan.parts(1)
        assert read(third)["city"].to_pylist() == [f"city {number % 7}" for number in range(25, 30)]


def test_the_host_reads_the_values_of_dictionaries_for_a_device(tmp_path, pylibcudf):
    path = tmp_path / "cities.parquet"
    pq.write_table(pa.table({"city": pa.array(["oslo", "rom", "oslo"]).dictionary_encode()}), path)
    data = data_of(path, Device(), Selection(engine="device"))
    coder = make_coders(True, data, data.schema)["city"]
    assert coder.values == ["oslo", "rom"]


def test_a_decoder_for_memory_of_the_host_is_refused(file):
    with pytest.raises(sa.UnsupportedError, match="memory of a CUDA device, not of 'host'"):
        Decoder(sa.context("host"), planned(file), None)
