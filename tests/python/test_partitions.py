"""Hive partitioning: folders named key=value become columns of Parquet files, as in pyarrow's data sets and
polars."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

import saeta as sa
from loader_options import grouped

COLUMN_OF_VALUES = [
    ["1", "2"],
    ["01", "-3"],
    ["0x10"],
    ["3000000000"],
    ["+1"],
    ["1.5"],
    ["2030-01-01"],
    ["true"],
    ["a%2Fb", "c d"],
    ["1", "a"],
    ["1", "__HIVE_DEFAULT_PARTITION__"],
    ["a", "__HIVE_DEFAULT_PARTITION__"],
    ["1=2"],
    [""],
]


def write(root, folder, **columns):
    path = root / folder
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"n": [len(list(path.iterdir()))]}), path / "a.parquet")
    return path / "a.parquet"


def scanned(source, **options):
    with sa.scan_parquet(source, "host", **options) as scan:
        parts = list(scan)
        assert {part.schema for part in parts} == {scan.schema}
    return sa.concat_tables(parts)


def loaded(source, **options):
    with sa.loader(source, "host", batch_size=100, to="table", **grouped(options)) as loader:
        [batch] = loader
        assert batch.schema == loader.schema
    return batch


WAYS = {
    "read_parquet": lambda source, **options: sa.read_parquet(source, "host", **options),
    "scan_parquet": scanned,
    "loader": loaded,
}


@pytest.fixture(params=WAYS)
def read(request):
    return WAYS[request.param]


@pytest.fixture
def folder(tmp_path):
    """A folder partitioned by two years and two cities, such as "year=2030/city=Lyon/a.parquet"."""
    for number, (year, city) in enumerate([(2030, "Bern"), (2030, "Lyon"), (2031, "Bern"), (2031, "Lyon")]):
        write(tmp_path, f"year={year}/city={city}", n=[number, number + 10])
    return tmp_path


@pytest.mark.parametrize("values", COLUMN_OF_VALUES, ids=str)
def test_values_and_types_are_those_of_pyarrow(tmp_path, read, values):
    for number, value in enumerate(values):
        write(tmp_path, f"k={value}", n=[number])
    expected = ds.dataset(tmp_path, partitioning="hive").to_table()
    table = read(tmp_path).to_arrow()
    assert table.sort_by("n").to_pydict() == expected.sort_by("n").to_pydict()
    assert table.schema.types == expected.schema.types
    assert table.column_names == ["n", "k"]


def test_a_partition_with_only_the_default_value_has_type_null(tmp_path, read):
    write(tmp_path, "k=__HIVE_DEFAULT_PARTITION__", n=[1])
    assert read(tmp_path).to_pydict() == {"n": [1], "k": [None]}


def test_every_level_is_a_column_and_some_files_may_lack_one(tmp_path, read):
    write(tmp_path, "a=1/b%20c=x", n=[0])
    write(tmp_path, "a=2", n=[1])
    write(tmp_path, ".", n=[2])
    table = read(tmp_path)
    expected = ds.dataset(tmp_path, partitioning="hive").to_table()
    assert table.to_arrow().sort_by("n").to_pydict() == expected.sort_by("n").to_pydict()


def test_partitioning_none_omits_the_columns(folder, read):
    assert read(folder, partitioning=None).column_names == ["n"]
    assert read(folder).column_names == ["n", "year", "city"]


def test_columns_and_schemas_can_name_partition_columns(folder, read):
    assert read(folder, columns=["city", "n"]).to_pydict() == {
        "city": ["Bern", "Bern", "Lyon", "Lyon"] * 2,
        "n": [0, 10, 1, 11, 2, 12, 3, 13],
    }
    assert read(folder, columns="year")["year"].to_pylist() == [2030] * 4 + [2031] * 4
    table = read(folder, schema={"n": "int64", "year": "int16"})
    assert [str(type_) for type_ in table.schema.types] == ["int64", "int16", "string"]
    with pytest.raises(sa.ColumnNameError, match="no column 'yea'"):
        read(folder, columns="yea")


def test_filters_can_use_partition_columns(folder):
    for made in (
        sa.read_parquet(folder, "host", filters=[("year", "=", 2031), ("city", "=", "Lyon")]),
        scanned(folder, filters=(ds.field("year") > 2030) & (ds.field("city") == "Lyon")),
    ):
        assert made.to_pydict() == {"n": [3, 13], "year": [2031] * 2, "city": ["Lyon"] * 2}


def test_only_folders_below_the_given_path_are_partitions(folder, read):
    assert read(folder / "year=2030").column_names == ["n", "city"]
    assert read(f"{folder}/year=2030/").column_names == ["n", "city"]
    assert read(f"{folder}/year=2030/*/a.parquet").column_names == ["n", "city"]
    assert read(f"{folder}/*/city=Lyon/a.parquet").column_names == ["n", "year", "city"]
    assert read(folder / "year=2030" / "city=Lyon" / "a.parquet").column_names == ["n"]
    assert read([folder / "year=2030", folder / "year=2031"]).column_names == ["n", "city"]
    assert pq.read_table(folder / "year=2030").column_names == ["n", "city"]


def test_partitions_are_found_in_urls_and_file_systems(folder):
    url = folder.as_uri()
    for read in (WAYS["read_parquet"], WAYS["scan_parquet"]):
        assert read(url).column_names == ["n", "year", "city"]
        assert read(f"{url}/year%3D2030").column_names == ["n", "city"]
        assert read(f"{url}/*/*/a.parquet").column_names == ["n", "year", "city"]
        inside = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        assert read("year=2031", filesystem=inside).column_names == ["n", "city"]
        assert read("year=203*/city=Bern/a.parquet", filesystem=inside).column_names == ["n", "year", "city"]


def test_all_folders_in_listed_paths_are_partitions(folder, read):
    paths = sorted(folder.glob("*/*/a.parquet"))[1:3]
    assert read(paths).to_pydict() == {
        "n": [1, 11, 2, 12],
        "year": [2030, 2030, 2031, 2031],
        "city": ["Lyon", "Lyon", "Bern", "Bern"],
    }
    assert pq.read_table(paths).column_names == ["n", "year", "city"]


def test_a_partition_column_that_files_have_keeps_its_type_but_not_its_values(tmp_path, read):
    write(tmp_path, "k=1", k=pa.array([7], pa.int64()), n=[0])
    write(tmp_path, "k=2", k=pa.array([7], pa.int64()), n=[1])
    table = read(tmp_path)
    assert table.to_pydict() == {"k": [1, 2], "n": [0, 1]}
    assert table.schema.field("k").type == "int64"
    assert read(tmp_path, partitioning=None)["k"].to_pylist() == [7, 7]


def test_the_schemas_of_partitions_are_united(tmp_path, read):
    write(tmp_path, "k=1", v=pa.nulls(2))
    write(tmp_path, "k=2", v=[1.5])
    assert read(tmp_path).to_pydict() == {"v": [None, None, 1.5], "k": [1, 1, 2]}
    write(tmp_path, "k=3", v=["x"])
    with pytest.raises(sa.TypeMismatch, match=r"k=3/a\.parquet: column 0 is 'v' \(string\), expected 'v'"):
        read(tmp_path)


def test_folders_of_arrow_files_are_not_partitions(tmp_path):
    (tmp_path / "k=1").mkdir()
    sa.table({"n": [1]}, "host").write_ipc(tmp_path / "k=1" / "a.arrow")
    assert sa.read_ipc(tmp_path, "host").column_names == ["n"]
    assert loaded(tmp_path).column_names == ["n"]


def test_a_loader_yields_partition_columns_as_tensors_and_codes(folder):
    with sa.loader(
        folder,
        "host",
        batch_size=3,
        to="numpy",
        tensor_options=sa.TensorOptions(codes={"city": ["Lyon", "Bern"]}),
    ) as loader:
        batches = list(loader)
    assert [each["year"].tolist() for each in batches] == [[2030] * 3, [2030, 2031, 2031], [2031] * 2]
    assert [each["city"].tolist() for each in batches] == [[1, 1, 0], [0, 1, 1], [0, 0]]
    with sa.loader(folder, "host", batch_size=8, shuffle="rows", columns="year", to="numpy") as loader:
        assert sorted(next(iter(loader))["year"].tolist()) == [2030] * 4 + [2031] * 4
