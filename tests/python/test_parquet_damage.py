"""Damaged Parquet files: each way to read them raises FormatError, which names the file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa

ROWS = 5000


def _limited(path: Any, host: sa.Context) -> Any:
    with host.memory.child("small", "64MiB") as small:
        return sa.read_parquet(path, small)


WAYS = {
    "whole": sa.read_parquet,
    "counted": lambda path, host: sa.read_parquet(path, host, progress=lambda _: None),
    "limited": _limited,
    "scan": lambda path, host: list(sa.scan_parquet(path, host)),
    "loader": lambda path, host: list(sa.loader(path, host, batch_size=100, to="numpy")),
}


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A file whose last page of column "n" is not a ZSTD frame."""
    path = tmp_path / "damaged.parquet"
    numbers = np.random.default_rng(5).integers(0, 1 << 40, ROWS)
    pq.write_table(pa.table({"n": numbers, "m": numbers}), path, compression="zstd", use_dictionary=False)
    column = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    end = column.data_page_offset + column.total_compressed_size
    content[end - 20_000 : end] = bytes(20_000)
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_page_is_a_format_error_that_names_the_file(host, damaged, way):
    with pytest.raises(sa.FormatError, match=r"damaged\.parquet'.*: ZSTD"):
        WAYS[way](damaged, host)


@pytest.mark.parametrize("way", WAYS)
def test_of_several_files_one_is_named(host, damaged, tmp_path, way):
    sound = str(tmp_path / "sound.parquet")
    pq.write_table(pa.table({"n": [1], "m": [2]}), sound)
    with pytest.raises(sa.FormatError, match=r"sound\.parquet' or the file behind it|damaged\.parquet'"):
        WAYS[way]([sound, damaged], host)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_not_parquet_is_a_format_error(host, tmp_path, way):
    path = tmp_path / "other.parquet"
    for content in (b"", b"PAR1", b"no Parquet at all", b"PAR1" + bytes(100) + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(sa.FormatError, match=r"other\.parquet"):
            WAYS[way](str(path), host)


def test_an_error_of_the_system_stays_one(host, tmp_path):
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(sa.FileError) as caught:
        sa.read_parquet([str(tmp_path / "folder.parquet" / "gone.parquet")], host)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), sa.MissingFileError)
