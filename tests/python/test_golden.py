"""The Apache Arrow project's integration files: read, compared with what pyarrow reads, written, and read by pyarrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import saeta as sa
from contexts import PROJECT

pytest.importorskip("saeta._ipc", reason="this build has no IPC module")


def names() -> list[str]:
    """Files by their place below golden/, found when the tests are collected; none where there is no data."""
    import os

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


def test_golden_files_make_the_round_trip(anywhere, golden, tmp_path):
    expected = read_with_pyarrow(golden)
    table = sa.read_ipc(golden, anywhere)
    assert table.num_rows == expected.num_rows
    got = table.to_arrow()
    assert got.schema.equals(expected.schema, check_metadata=True)
    assert got.equals(expected)
    target = tmp_path / "again.arrow"
    table.write_ipc(target, format="stream" if golden.suffix == ".stream" else "file")
    again = (
        pa.ipc.open_stream(target).read_all()
        if golden.suffix == ".stream"
        else pa.ipc.open_file(target).read_all()
    )
    assert again.schema.equals(expected.schema, check_metadata=True)
    assert again.equals(expected)


def test_golden_files_can_be_inspected(golden):
    expected = read_with_pyarrow(golden)
    found = sa.ipc.inspect(golden)
    assert sum(found["batch_rows"]) == expected.num_rows
    assert [column["name"] for column in found["columns"]] == expected.column_names
    for column, values in zip(found["columns"], expected.columns, strict=True):
        assert column["supported"], column
        assert column["nulls"] == values.null_count, column
