"""Functions of other libraries that are called with our tables: the lines of the guide 'I want to ...'.

What a library does not take is tried as well: when it takes it one day, the page can be shorter.
"""

from __future__ import annotations

import io
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import saeta as sa

pa = pytest.importorskip("pyarrow")
COUNT = 6


@pytest.fixture(scope="module")
def table():
    return sa.table({"x": np.arange(float(COUNT)), "y": np.arange(COUNT) % 3, "s": ["a", "b"] * 3}, "host")


def rows_of(made: Any) -> int:
    return getattr(made, "num_rows", None) or len(made)


PYARROW: dict[str, Callable[[Any], Any]] = {
    "table": pa.table,
    "record_batch": pa.record_batch,
    "from_stream": lambda table: pa.RecordBatchReader.from_stream(table).read_all(),
    "array": lambda table: pa.array(table["s"]),
    "chunked_array": lambda table: pa.chunked_array(table["x"]),
    "columns": lambda table: pa.table({"x": table["x"], "s": table["s"]}),
    "to_arrow": lambda table: pa.concat_tables([table.to_arrow()]),
}


@pytest.mark.parametrize("name", PYARROW)
def test_pyarrow(table, name):
    assert rows_of(PYARROW[name](table)) == COUNT


def test_writers_of_pyarrow(table, tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    parquet, csv, feather = (pytest.importorskip(f"pyarrow.{each}") for each in ("parquet", "csv", "feather"))
    dataset.write_dataset(table, tmp_path / "set", format="parquet")
    assert dataset.dataset(tmp_path / "set").count_rows() == COUNT
    parquet.write_table(table.to_arrow(), tmp_path / "a.parquet")
    csv.write_csv(table.to_arrow(), tmp_path / "a.csv")
    feather.write_feather(table.to_arrow(), tmp_path / "a.feather")
    assert sa.read_ipc(tmp_path / "a.feather", "host").equals(table)
    for write in (parquet.write_table, csv.write_csv, feather.write_feather):
        with pytest.raises(TypeError):  # says which class it expects; the guide has to_arrow
            write(table, tmp_path / "b")


def test_pandas(table):
    pandas = pytest.importorskip("pandas")
    frames = [table.to_pandas(), pandas.DataFrame({"x": table["x"], "y": table["y"], "s": table["s"]})]
    if hasattr(pandas.DataFrame, "from_arrow"):
        frames.append(pandas.DataFrame.from_arrow(table))
    assert all(list(frame["x"]) == list(range(COUNT)) for frame in frames)
    assert list(pandas.Series(table["x"])) == list(range(COUNT))
    with pytest.raises(sa.TypeMismatch, match=r"\.to_pandas\(\)"):
        pandas.DataFrame(table)


def test_polars_and_duckdb(table):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    assert polars.DataFrame(table).shape == (COUNT, 3)
    assert polars.Series(table["x"]).sum() == 15
    assert duckdb.from_arrow(table).fetchall()[0] == (0.0, 0, "a")
    assert duckdb.connect().register("v", table).sql("select count(*) from v").fetchall() == [(COUNT,)]


def test_numpy_and_the_standard_library(table):
    assert np.mean(table["x"]) == 2.5
    assert np.column_stack([table["x"], table["y"]]).shape == (COUNT, 2)
    assert statistics.mean(table["x"]) == 2.5
    assert json.loads(json.dumps(table.to_pylist()))[1] == {"x": 1.0, "y": 1, "s": "b"}
    with pytest.raises(sa.TypeMismatch, match=r"\.to_numpy\(\)"):
        np.asarray(table.select(["x", "y"]))


def test_the_interchange_protocol_of_dataframes(table):
    """seaborn and plotly take any object with this method."""
    interchange = pytest.importorskip("pyarrow.interchange")
    again = interchange.from_dataframe(table)
    assert again.to_pydict() == table.to_pydict()
    with_nulls = sa.table({"n": [1, None]}, "host")
    assert interchange.from_dataframe(with_nulls).to_pydict() == {"n": [1, None]}


def test_matplotlib(table):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    (line,) = pyplot.plot(table["x"], table["y"])
    assert list(line.get_ydata()) == [0, 1, 2, 0, 1, 2]
    assert sum(pyplot.hist(table["x"])[0]) == COUNT
    assert len(pyplot.bar(table["s"], table["x"])) == COUNT
    pyplot.scatter("x", "y", data=table)
    pyplot.savefig(io.BytesIO())
    pyplot.close("all")


def test_seaborn_and_plotly(table):
    seaborn, express = pytest.importorskip("seaborn"), pytest.importorskip("plotly.express")
    pytest.importorskip("matplotlib").use("Agg")
    assert seaborn.lineplot(data=table, x="x", y="y").get_xlabel() == "x"
    assert len(express.scatter(table, x="x", y="y").data[0].x) == COUNT


def test_datasets(table):
    datasets = pytest.importorskip("datasets")
    assert datasets.Dataset(table.to_arrow()).num_rows == COUNT


def test_models(table):
    linear = pytest.importorskip("sklearn.linear_model")
    numbers = table.select(["x", "y"])
    for given in (numbers.to_numpy(dtype="float64"), numbers.to_pandas()):
        assert linear.LinearRegression().fit(given, table["y"]).predict(given).shape == (COUNT,)


def test_tensors_of_torch(table):
    torch = pytest.importorskip("torch")
    for make in (torch.from_dlpack, torch.as_tensor, torch.tensor):
        assert make(table["x"]).tolist() == list(range(COUNT))
    assert next(iter(torch.utils.data.DataLoader(table["x"], batch_size=4))).tolist() == [0, 1, 2, 3]
