"""Errors for unknown column names and unreachable URLs. No test needs a network."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import saeta as sa

READERS = [sa.read_ipc, sa.read_parquet, sa.scan_ipc]


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def missing_names(table: sa.Table, path: str, parquet: str) -> dict[str, Any]:
    return {
        "item": lambda: table["nope"],
        "column": lambda: table.column("nope"),
        "select": lambda: table.select(["a", "nope"]),
        "set": lambda: table.set_column("nope", "b", [1]),
        "drop_columns": lambda: table.drop_columns(["nope"]),
        "rename": lambda: table.rename_columns({"nope": "b"}),
        "field": lambda: table.schema.field("nope"),
        "schema": lambda: table.schema["nope"],
        "surrogates": lambda: table["\udcff nope"],
        "read_ipc": lambda: sa.read_ipc(path, "host", columns=["nope"]),
        "scan_ipc": lambda: sa.scan_ipc(path, "host", columns=["nope"]),
        "read_parquet": lambda: sa.read_parquet(parquet, "host", columns=["nope"]),
    }


@pytest.mark.parametrize("way", missing_names(None, "", ""))  # type: ignore[arg-type]
def test_an_unknown_column_name_is_a_key_error(host: sa.Context, tmp_path: Any, way: str) -> None:
    source = pa.table({"a": [1], "b": [2]})
    path, parquet = str(tmp_path / "x.arrow"), str(tmp_path / "x.parquet")
    table = sa.from_arrow(source, host)
    sa.write_ipc(table, path)
    pq.write_table(source, parquet)
    with pytest.raises(KeyError) as raised:
        missing_names(table, path, parquet)[way]()
    assert isinstance(raised.value, sa.ColumnNameError)
    assert isinstance(raised.value, sa.InvalidError)
    assert "nope" in str(raised.value)
    assert "'a'" in str(raised.value), "the existing names"
    assert not str(raised.value).startswith(("'", '"')), "KeyError must not show the repr of the message"


def test_a_duplicate_column_name_is_a_key_error(host: sa.Context) -> None:
    twice = sa.from_arrow(pa.table([[1], [2]], names=["a", "a"]), host)
    with pytest.raises(KeyError, match="2 columns are named 'a': choose one by its index"):
        twice["a"]


def test_a_column_index_out_of_range_is_an_index_error(host: sa.Context) -> None:
    table = sa.table({"a": [1]}, host)
    with pytest.raises(IndexError):
        table[1]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "url", ["nowhere://a/b", "foo+bar://x", "s3://key:secret@bucket/x?scheme=bogus", "memory://nothing"]
)
def test_errors_of_urls_are_saetas_and_hide_secrets(read: Any, url: str) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(sa.Error) as raised:
        read(url, "host")
    assert "secret" not in str(raised.value)


def test_without_pyarrow_a_url_is_opened_by_fsspec(host: sa.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    table = sa.table({"a": [1, 2]}, host)
    table.write_ipc("memory://without_pyarrow/x.arrow")
    assert sa.read_ipc("memory://without_pyarrow/x.arrow", host).equals(table)
    with sa.scan_ipc("memory://without_pyarrow/*.arrow", host) as scan:
        assert [batch.num_rows for batch in scan] == [2]


def test_without_pyarrow_and_fsspec_a_url_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(sa.MissingDependency, match=r"pip install 'pyarrow.*pip install fsspec"):
        sa.read_ipc("memory://x.arrow", "host")


@pytest.mark.parametrize("read", READERS)
def test_an_unreachable_server_is_a_file_error_not_a_missing_file(read: Any, closed_port: int) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(sa.FileError, match="Connection refused") as raised:
        read(f"ftp://127.0.0.1:{closed_port}/x.arrow", "host")
    assert not isinstance(raised.value, sa.MissingFileError)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("gs://bucket/x", "gs://bucket/x?retry_limit_seconds=10"),
        ("gs://bucket/x?scheme=http", "gs://bucket/x?scheme=http&retry_limit_seconds=10"),
        ("gcs://bucket/x?retry_limit_seconds=99", "gcs://bucket/x?retry_limit_seconds=99"),
    ],
)
def test_a_store_that_does_not_respond_times_out(
    read: Any, url: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    seen = []

    class Files:
        @staticmethod
        def from_uri(uri: str) -> Any:
            seen.append(uri)
            raise OSError("no answer")

    monkeypatch.setattr(pyarrow.fs, "FileSystem", Files)
    with pytest.raises(sa.FileError, match=r"can't read 'g.*://bucket/x': no answer"):
        read(url, "host")
    assert seen == [asked]


class Failing:
    """A file of an object store whose reads fail."""

    def open_input_file(self, path: str) -> Any:
        class File:
            def size(self) -> int:
                return 1000

            def read_at(self, count: int, offset: int) -> bytes:
                raise OSError("the store has gone")

        return File()


def test_a_store_that_fails_during_a_read_is_a_file_error() -> None:
    with pytest.raises(sa.FileError, match=r"can't read 'x/y\.arrow': the store has gone"):
        sa.read_ipc("x/y.arrow", "host", filesystem=Failing())
