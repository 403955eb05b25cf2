"""The batches of written files: so small that a reader needs little memory, whatever the table is like."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from arrow_data import arrays, nested, nested_twice
from sim_devices import DEVICES, contexts_of

MIB = 1 << 20
ROWS = 1_500_000
BATCH = 4 * MIB


@pytest.fixture(scope="module")
def frame():
    """What `sa.table` and `filter` make: one batch."""
    random = np.random.default_rng(3)
    fares = random.integers(0, 5000, ROWS) / 100
    names = pa.array(["Lyon", "Bern", "Graz"]).take(pa.array(random.integers(0, 3, ROWS)))
    return sa.table({"id": np.arange(ROWS), "fare": fares, "city": names}, "host")


@pytest.fixture(params=DEVICES)
def device(request):
    yield from contexts_of(request.param)


def bytes_of_batches(table):
    return [batch.nbytes for batch in table.batches]


@pytest.mark.parametrize("options", [{"compression": "lz4"}, {"compression": "zstd"}, {"format": "stream"}])
def test_compressed_files_and_streams_have_small_batches(frame, tmp_path, options):
    assert len(frame.batches) == 1
    path = tmp_path / "frame.arrow"
    frame.write_ipc(path, durable=False, **options)
    again = sa.read_ipc(path, "host", combine_chunks=False)
    assert max(bytes_of_batches(again)) < 1.1 * BATCH
    assert min(bytes_of_batches(again)[:-1]) > 0.8 * BATCH
    assert all(batch.num_rows % 64 == 0 for batch in again.batches[:-1])
    assert again.combine_chunks().equals(frame)


def test_a_writer_cuts_each_of_its_tables(frame, tmp_path):
    path = tmp_path / "frames.arrow"
    with sa.ipc_writer(path, compression="lz4", durable=False) as writer:
        writer.write(frame)
        writer.write(frame[:1000])
    sizes = bytes_of_batches(sa.read_ipc(path, "host", combine_chunks=False))
    assert max(sizes) < 1.1 * BATCH
    assert len(sizes) == frame.nbytes // BATCH + 2


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_own_compressed_files_are_read_in_bounded_memory(frame, host, tmp_path, compression):
    """The program of a stranger: a table is made, filtered and written, and trained from under a budget."""
    path = tmp_path / "frame.arrow"
    whole = sa.concat_tables([frame, frame]).filter(np.tile(np.arange(ROWS) % 9 != 0, 2))
    whole.write_ipc(path, compression=compression, durable=False)
    with host.memory.child("small", "32MiB") as small:
        assert whole.nbytes > small.memory.limit
        with sa.scan_ipc(path, small, copy=True) as scan:
            assert sum(batch.num_rows for batch in scan) == whole.num_rows
        numbers = {"columns": ["id", "fare"], "to": "numpy", "batch_size": 8192}
        with sa.loader(path, small, window="4MiB", **numbers) as loader:
            assert sum(int(batch["id"].sum()) for batch in loader) == 2 * sum(
                i for i in range(ROWS) if i % 9 != 0
            )


def test_a_batch_that_does_not_fit_names_the_real_cause(frame, host, tmp_path):
    path = tmp_path / "frame.arrow"
    viewed = pa.table(frame).set_column(2, "city", pa.table(frame)["city"].cast(pa.string_view()))
    sa.write_ipc(viewed, path, compression="zstd", batch_size=ROWS, durable=False)
    options = {"columns": ["id", "fare", "city"], "to": "numpy", "batch_size": 8192}
    with host.memory.child("small", "8MiB") as small:
        for source in (sa.scan_ipc(path, small), sa.loader(path, small, **options)):
            with (
                source,
                pytest.raises(sa.BudgetExceeded, match=r"compressed batch is read as a whole.*batch_size"),
            ):
                list(source)


def test_plain_files_keep_the_batches_of_the_table(frame, tmp_path):
    """They are read in parts, and on the host they are views."""
    path = tmp_path / "frame.arrow"
    frame.write_ipc(path, durable=False)
    assert len(sa.read_ipc(path, "host").batches) == 1


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"format": "stream", "compression": "lz4"}])
@pytest.mark.parametrize("rows", [1, 7, 64, 1000])
def test_batch_rows_cuts_every_type(device, rows, options):
    for name, array in (arrays(200) | nested(200) | nested_twice(200)).items():
        source = sa.from_arrow(pa.table({"x": array}), device)
        content = source.to_ipc_bytes(batch_size=rows, **options)
        again = sa.read_ipc(content, "host", combine_chunks=False)
        assert max(batch.num_rows for batch in again.batches) <= rows, name
        assert again.to_pylist() == source.to_pylist(), name


def test_a_dictionary_is_written_once_for_all_parts(host):
    """Parts share the dictionary of their batch."""
    names = pa.array(np.arange(2000) % 500).cast(pa.string()).dictionary_encode()
    table = sa.from_arrow(pa.table({"name": names}), host)
    for options in ({}, {"format": "stream"}):
        whole = len(table.to_ipc_bytes(batch_size=2000, **options))
        assert len(table.to_ipc_bytes(batch_size=100, **options)) < whole + 20 * 400


def test_progress_knows_the_number_of_parts(frame):
    seen = []
    frame.write_ipc(io.BytesIO(), compression="lz4", progress=seen.append)
    assert seen[-1].batches == seen[-1].total_batches == len(seen) > 5


@pytest.mark.parametrize(("compression", "most"), [("lz4", 12), ("zstd", 22)])
def test_levels_make_smaller_files_that_everybody_reads(frame, compression, most):
    part = frame[:20_000]
    sizes = []
    for level in (1, most):
        content = part.to_ipc_bytes(compression=compression, compression_level=level)
        assert sa.from_arrow(pa.ipc.open_file(content).read_all(), "host").equals(part)
        sizes.append(len(content))
    assert sizes[1] < sizes[0]
    assert sizes[0] == len(part.to_ipc_bytes(compression=compression))


def test_large_buffers_are_compressed_at_the_level(frame):
    """A buffer of more than 16 MiB is compressed in blocks, by other functions of the libraries."""
    part = sa.concat_tables([frame] * 2).combine_chunks().select(["fare"])
    options = {"compression": "lz4", "batch_size": part.num_rows}
    small, large = (len(part.to_ipc_bytes(compression_level=level, **options)) for level in (9, 1))
    assert small < large


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compression_level": 3}, "compression level 3 without a compression: choose lz4 or zstd"),
        ({"compression": "lz4", "compression_level": 13}, "level 13: lz4 has levels from 1 to 12"),
        ({"compression": "zstd", "compression_level": 23}, "level 23: zstd has levels from 1 to 22"),
        ({"compression": "zstd", "compression_level": 0}, "compression_level is 0"),
        ({"compression": "zstd", "compression_level": "fast"}, "compression_level is 'fast'"),
        ({"batch_size": 0}, "batch_size is 0, expected a number of rows from 1 on"),
        ({"batch_size": -5}, "batch_size is -5"),
    ],
)
def test_wrong_levels_and_rows_are_refused_before_anything_is_written(frame, tmp_path, options, said):
    for write in (frame.write_ipc, sa.ipc_writer):
        with pytest.raises(sa.InvalidError, match=said):
            write(tmp_path / "frame.arrow", **options)
    assert list(tmp_path.iterdir()) == []
