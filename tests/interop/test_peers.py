"""Exchange of tables and columns with polars, DuckDB, pandas, NumPy, JAX and torch on the CPU, in both
directions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import PROJECT, clean, copies


@pytest.fixture
def source():
    return pa.table(
        {
            "id": pa.array(range(100), pa.int64()),
            "price": pa.array(np.arange(100) / 4, pa.float64()),
            "name": pa.array([None if row % 9 == 0 else f"n{row}" for row in range(100)]),
            "flag": pa.array([None if row % 5 == 0 else row % 2 == 0 for row in range(100)]),
        }
    )


def test_polars_reads_a_table(host, source):
    table = sa.from_arrow(source, host)
    polars = pytest.importorskip("polars")
    frame = table.to_polars()
    assert frame.equals(polars.from_arrow(source))
    assert polars.DataFrame(table).equals(frame)
    assert polars.Series(table["price"]).sum() == sum(range(100)) / 4


def test_columns_of_polars_are_imported(host):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, None, 3], "b": [0.5, 1.5, 2.5]})
    ours = sa.from_arrow(frame, host)
    assert ours.to_polars().equals(frame)
    series = sa.table({"a": frame["a"]}, host)
    assert series["a"].to_pylist() == [1, None, 3]
    texts = polars.DataFrame({"text": ["polars hands out string views", None, "short"]})
    assert sa.from_arrow(texts, host).to_polars().equals(texts)


def test_duckdb_queries_a_table_by_its_variable_name(host, source):
    trips = sa.from_arrow(source, host)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        # DuckDB finds `trips` among the local variables
        found = connection.sql(
            "select count(*), sum(price), count(name) from trips where id >= 50"
        ).fetchall()
    del trips
    assert found == [(50, sum(range(50, 100)) / 4, 44)]


def test_results_of_duckdb_are_imported(host):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = connection.sql("select i::integer as i, i / 2.0::double as half from range(5) as t(i)")
        ours = sa.from_arrow(relation, host)
        assert ours.column_names == ["i", "half"]
        assert ours["i"].to_pylist() == [0, 1, 2, 3, 4]
        del ours, relation


def test_pandas_exports_and_imports_a_table(host, source):
    table = sa.from_arrow(source, host)
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(table.to_pandas(), source.to_pandas())
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, np.nan, 2.5]})
    if not hasattr(frame, "__arrow_c_stream__"):
        pytest.skip("pandas 2.2 and newer have the Arrow protocol")
    ours = sa.from_arrow(frame, host)
    assert ours["a"].to_pylist() == [1, 2, 3]
    assert ours["b"].null_count == 1


def test_every_numpy_conversion_is_a_view(host, source):
    table = sa.from_arrow(source, host)
    copies_before = copies(host)
    price = table["price"]
    assert np.from_dlpack(price).ctypes.data == price.address
    assert np.asarray(price).ctypes.data == price.address
    assert price.to_numpy().ctypes.data == price.address
    assert np.asarray(price, dtype=np.float32).dtype == np.float32
    assert copies(host) == copies_before
    with pytest.raises(sa.ExchangeError, match="12 nulls"):
        table["name"].to_numpy()


@pytest.mark.gpu
def test_only_explicit_conversions_to_numpy_download_from_a_gpu(source):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    with clean("cuda") as ctx:
        price = sa.from_arrow(source, ctx)["price"]
        assert price.to_numpy().tolist() == source["price"].to_pylist()
        with pytest.raises(TypeError, match="to_numpy"):
            np.asarray(price)
        with pytest.raises(sa.ExchangeError, match="cuda"):
            price.to_numpy(copy=False)
        del price


def test_to_numpy_converts_types_that_dlpack_lacks(host):
    stamps = sa.from_arrow(pa.array([1, 2], pa.timestamp("us")), host)
    assert stamps.to_numpy().dtype == np.dtype("datetime64[us]")
    assert stamps.to_numpy(copy=False).ctypes.data == stamps.address
    text = sa.from_arrow(pa.array(["a", "b"]), host)
    assert text.to_numpy().tolist() == ["a", "b"]
    with pytest.raises(sa.ExchangeError, match="string"):
        text.to_numpy(copy=False)
    bits = sa.from_arrow(pa.array([True, False]), host)
    assert bits.to_numpy().tolist() == [True, False]
    with pytest.raises(sa.ExchangeError, match="bits"):
        bits.to_numpy(copy=False)


def test_jax_exports_and_imports_a_column(host):
    jax = pytest.importorskip("jax")
    cpu = jax.devices("cpu")[0]
    column = sa.table({"x": np.arange(128, dtype=np.float32)}, host)["x"]
    with jax.default_device(cpu):
        array = jax.numpy.from_dlpack(column)
        assert float(array.sum()) == 8128.0
        doubled = (array * 2).block_until_ready()
        back = sa.from_dlpack(doubled, host)
        assert back.to_numpy().tolist() == list(np.arange(0, 256, 2))
        assert back.address == doubled.unsafe_buffer_pointer()
    del array, doubled, back, column


def test_torch_exports_and_imports_a_column(host):
    pytest.importorskip("torch")
    column = sa.table({"x": np.arange(128, dtype=np.float32)}, host)["x"]
    tensor = column.to_torch()
    assert tensor.data_ptr() == column.address
    back = sa.from_dlpack(tensor * 2, host)
    assert back.to_numpy().tolist() == list(np.arange(0, 256, 2))
    assert copies(host) == 0
    bits = sa.from_dlpack(tensor > 5, host)
    assert bits.type.is_bool8


def test_the_error_names_a_library_that_is_not_installed(host, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    column = sa.from_dlpack(np.arange(3), host)
    with pytest.raises(sa.MissingDependency, match="pip install torch"):
        column.to_torch()
    with pytest.raises(ImportError, match="cupy"):
        column.to_cupy()


def test_the_exchange_page_matches_the_installed_libraries():
    """scripts/exchange_table.py writes docs/exchange.md. It runs in a new process, because it enables JAX's
    64-bit mode."""
    for module in ("nanoarrow", "polars", "pandas", "duckdb", "jax"):
        pytest.importorskip(module)
    script = PROJECT / "scripts" / "exchange_table.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"run {script} and look at what changed: {done.stdout}{done.stderr}"
