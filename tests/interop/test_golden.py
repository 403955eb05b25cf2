"""Integration files of the Apache Arrow project: Saeta reads them as pyarrow does, exports them by every
protocol, and writes files that pyarrow reads. tests/conformance/ipc/golden_test.cpp does the same on the
simulated device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import PROJECT
from protocols import OnlyArray, OnlyStream


def names() -> list[str]:
    """Returns the paths of the files below golden/ at collection time, or none if the data are missing."""
    folder = Path(os.environ.get("SAETA_SHARED_DATA", PROJECT.parent / "shared" / "data")) / "golden"
    found = sorted(path for pattern in ("*.arrow_file", "*.stream") for path in folder.rglob(pattern))
    return [str(path.relative_to(folder)) for path in found]


def read_with_pyarrow(path: Path) -> pa.Table:
    if path.suffix == ".stream":
        return pa.ipc.open_stream(path).read_all()
    return pa.ipc.open_file(path).read_all()


@pytest.fixture(params=names() or [pytest.param("", marks=pytest.mark.skip(reason="no golden files"))])
def golden(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    return shared_data / "golden" / request.param


def assert_same(got: pa.Table, expected: pa.Table) -> None:
    got.validate()  # without full=True: some files have times that pyarrow considers invalid
    assert got.schema.equals(expected.schema, check_metadata=True)
    assert got.equals(expected)


def test_golden_files_make_the_round_trip(anywhere, golden, tmp_path):
    expected = read_with_pyarrow(golden)
    table = sa.read_ipc(golden, anywhere)
    assert table.num_rows == expected.num_rows
    assert_same(table.to_arrow(), expected)
    target = tmp_path / f"again{golden.suffix}"
    table.write_ipc(target, format="stream" if golden.suffix == ".stream" else "file")
    assert_same(read_with_pyarrow(target), expected)


def test_golden_tables_pass_arrow_streams(anywhere, golden):
    expected = read_with_pyarrow(golden)
    table = sa.read_ipc(golden, anywhere)
    assert_same(sa.from_arrow(OnlyStream(table), anywhere).to_arrow(), expected)
    assert_same(sa.from_arrow(table.__arrow_c_device_stream__(), anywhere).to_arrow(), expected)


def test_golden_tables_survive_packing(anywhere, golden):
    expected = read_with_pyarrow(golden)
    for combine_chunks in (False, True):
        table = sa.read_ipc(golden, anywhere, combine_chunks=combine_chunks)
        found = sa.unpack(*table.pack())
        assert_same(found.to_arrow(), expected)
        assert [each.num_rows for each in found.batches] == [each.num_rows for each in table.batches]


def parts(table: sa.Table, expected: pa.Table) -> Iterator[tuple[sa.Column, pa.ChunkedArray]]:
    """Yields each chunk of each column with pyarrow's rows. pyarrow can't split every type into chunks
    itself."""
    for column, values in zip(table.columns, expected.columns, strict=True):
        start = 0
        for chunk in column.chunks:
            yield chunk, values.slice(start, len(chunk))
            start += len(chunk)


def test_golden_columns_pass_arrow_arrays(anywhere, golden):
    expected = read_with_pyarrow(golden)
    for chunk, values in parts(sa.read_ipc(golden, anywhere), expected):
        for given in (OnlyArray(chunk), chunk.__arrow_c_device_array__()):
            again = sa.from_arrow(given, anywhere, as_column=True)
            assert again.to_arrow().equals(values), chunk.name


def test_golden_files_pass_through_nanoarrow(host, golden):
    nanoarrow = pytest.importorskip("nanoarrow")
    from nanoarrow.device import c_device_array

    expected = read_with_pyarrow(golden)
    table = sa.read_ipc(golden, host)
    assert_same(sa.from_arrow(nanoarrow.ArrayStream(table), host).to_arrow(), expected)
    for chunk, values in parts(table, expected):
        if "view" in chunk.type.name:
            continue  # nanoarrow 0.9 overruns its buffer list when it exports view types as device arrays
        again = sa.from_arrow(c_device_array(chunk), host, as_column=True)
        assert again.to_arrow().equals(values), chunk.name


NUMBER = r"u?int\d+|halffloat|float|double|bool"


def test_golden_numbers_are_tensors(anywhere, golden):
    """Numeric columns, run-end encoded ones included, pass DLPack unchanged. Errors name any other type."""
    expected = read_with_pyarrow(golden)
    for chunk, values in parts(sa.read_ipc(golden, anywhere), expected):
        is_number = rf"(?:run_end_encoded<run_ends: int\d+, values: )?(?:{NUMBER})>?"
        if re.fullmatch(is_number, chunk.type.name) is None:
            with pytest.raises(sa.ExchangeError, match=re.escape(chunk.type.name)):
                chunk.__dlpack__()
            continue
        seen, valid = chunk.to_numpy(nulls="mask")
        rows = values.to_pylist()
        assert valid.tolist() == [each is not None for each in rows]
        np.testing.assert_array_equal(seen[valid], [each for each in rows if each is not None])
        assert sa.from_dlpack(seen, anywhere).to_numpy().tobytes() == seen.tobytes()


def test_golden_files_can_be_inspected(golden):
    expected = read_with_pyarrow(golden)
    summary = sa.ipc.inspect(golden)
    assert sum(summary["batch_rows"]) == expected.num_rows
    assert [column["name"] for column in summary["columns"]] == expected.column_names
    for column, values in zip(summary["columns"], expected.columns, strict=True):
        assert column["supported"], column
        assert column["nulls"] == values.null_count, column
