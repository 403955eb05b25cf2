"""Arrow IPC files as sources and sinks of Ray Data, and conversion of its batches to tables."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

pytest.importorskip("ray")

import ray
import ray.data

import saeta as sa
import saeta.ray
from ray_cluster import cluster, double
from saeta.ray._files import Blocks, IpcDatasink, IpcDatasource

ROWS, BATCHES = 1000, 5


@pytest.fixture(scope="module")
def running() -> Any:
    with cluster():
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A folder with two files of several batches, with numbers, texts and nulls."""
    made = tmp_path_factory.mktemp("files")
    rows().write_ipc(made / "1.arrow")
    rows()[:2500].write_ipc(made / "2.arrow")
    return Path(made)


def rows() -> sa.Table:
    return sa.concat_tables([batch(number) for number in range(BATCHES)])


def batch(number: int) -> sa.Table:
    numbers = range(number * ROWS, (number + 1) * ROWS)
    columns = {
        "a": np.array(numbers),
        "text": [f"x{each % 7}" for each in numbers],
        "n": [each if each % 3 else None for each in numbers],
    }
    return sa.table(columns, "host")


def expected(columns: list[str] | None = None) -> pa.Table:
    table = pa.concat_tables([rows().to_arrow(), rows()[:2500].to_arrow()])
    return table if columns is None else table.select(columns)


def tasks(source: Any, parts: int, columns: Any = None) -> Any:
    return IpcDatasource(source, columns, None).get_read_tasks(parts)


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    return bool(one.combine_chunks().equals(other.combine_chunks()))


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 8, 100])
def test_tasks_read_all_batches_once_and_in_order(folder, parts):
    found = tasks(str(folder), parts)
    assert len(found) == min(parts, 8)  # there are eight batches
    assert same_rows(pa.concat_tables([block for task in found for block in task()]), expected())


@pytest.mark.parametrize("columns", [None, ["text"], ["n", "a"]])
def test_the_rows_and_bytes_of_a_task_are_known_before_it_runs(folder, columns):
    for task in tasks(folder, 3, columns):
        blocks = list(task())
        assert task.metadata.num_rows == sum(block.num_rows for block in blocks)
        assert all(block.schema.names == (columns or ["a", "text", "n"]) for block in blocks)
        read = sum(block.nbytes for block in blocks)
        assert read <= task.metadata.size_bytes <= read + 64 * len(blocks)  # the size includes padding


def test_a_function_gets_batches_before_they_are_blocks(folder):
    def last_two(table):
        assert isinstance(table, sa.Table)
        return table[-2:] if table["a"][0] else pa.table(table).slice(0, 1)

    source = IpcDatasource(folder, "a", None, Blocks("host", last_two))
    assert not source.supports_projection_pushdown(), "the function may need the other columns"
    found = source.get_read_tasks(3)
    rows = [row for task in found for block in task() for row in block["a"].to_pylist()]
    assert rows == [0, 1998, 1999, 2998, 2999, 3998, 3999, 4998, 4999, 0, 1998, 1999, 2498, 2499]
    assert {(task.metadata.num_rows, task.metadata.size_bytes) for task in found} == {(None, None)}


def test_tasks_have_about_the_same_bytes(folder):
    sizes = [task.metadata.size_bytes for task in tasks(folder, 4)]
    assert max(sizes) < 1.7 * min(sizes)
    assert sum(sizes) == IpcDatasource(folder, None, None).estimate_inmemory_data_size()


def test_a_task_names_the_files_that_it_reads(folder):
    assert [task.metadata.input_files for task in tasks(folder, 2)] == [
        (str(folder / "1.arrow"),),
        (str(folder / "1.arrow"), str(folder / "2.arrow")),
    ]


def test_tasks_open_the_files_from_any_working_directory(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    found = [*tasks("1.arrow", 1), *tasks("*.arrow", 1)]
    monkeypatch.chdir(tmp_path)
    assert [sum(block.num_rows for block in task()) for task in found] == [5000, 7500]


def test_a_source_that_tasks_can_not_open_is_refused(folder):
    with pytest.raises(sa.TypeMismatch, match="source is of type bytes"):
        saeta.ray.read_ipc((folder / "1.arrow").read_bytes())


def test_files_of_a_file_system_are_read_by_their_paths_in_it(folder):
    local = pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())
    (task,) = IpcDatasource("1.arrow", None, local).get_read_tasks(1)
    assert task.metadata.input_files == ("1.arrow",)
    assert sum(block.num_rows for block in task()) == 5000


def test_compressed_batches_have_no_known_size_and_a_stream_no_known_rows(tmp_path):
    table = rows()
    table.write_ipc(tmp_path / "1.arrow", compression="lz4")
    table.write_ipc(tmp_path / "2.arrows", format="stream")
    table.write_ipc(tmp_path / "3.arrow")
    found = [(task.metadata.num_rows, task.metadata.size_bytes is None) for task in tasks(tmp_path, 1)]
    assert found == [(5000, True), (None, True), (5000, False)]
    blocks = [block for task in tasks(tmp_path, 2) for block in task()]
    assert same_rows(pa.concat_tables(blocks), pa.concat_tables([table.to_arrow()] * 3))


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_streams_and_files_in_any_order_are_read_once(tmp_path, parts):
    stream, file = tmp_path / "a.arrows", tmp_path / "b.arrow"
    sa.concat_tables([sa.table({"n": each}, "host") for each in ([-1, -2], [-3])]).write_ipc(
        stream, format="stream"
    )
    sa.concat_tables([sa.table({"n": [2 * i, 2 * i + 1]}, "host") for i in range(4)]).write_ipc(file)
    for sources in ([stream, file], [file, stream], [stream, stream, file], [file, stream, file]):
        expected = []
        for each in sources:
            expected += [-1, -2, -3] if each == stream else list(range(8))
        read = IpcDatasource(sources, None, None).get_read_tasks(parts)
        assert [row for task in read for block in task() for row in block["n"].to_pylist()] == expected


def test_errors_name_files_that_are_missing_or_not_arrow(tmp_path):
    with pytest.raises(sa.MissingFileError, match="nothing"):
        saeta.ray.read_ipc(tmp_path / "nothing*.arrow")
    (tmp_path / "text.arrow").write_text("not an Arrow file", encoding="utf-8")
    with pytest.raises(sa.FormatError, match=r"text\.arrow"):
        tasks(tmp_path / "text.arrow", 1)


def test_a_data_set_is_read_mapped_written_and_equal(running, folder, tmp_path):
    data = saeta.ray.read_ipc(str(folder), override_num_blocks=3)
    paths = saeta.ray.write_ipc(data.map_batches(double, batch_format="pyarrow"), tmp_path / "out")
    assert sorted(paths) == sorted(map(str, (tmp_path / "out").iterdir()))
    found = sa.read_ipc(tmp_path / "out", "host").to_arrow().sort_by("text")
    assert same_rows(found, double(expected()).sort_by("text"))


def test_only_the_used_columns_are_read(running, folder):
    assert saeta.ray.read_ipc(folder, columns="a").schema().names == ["a"]
    data = saeta.ray.read_ipc(folder)
    assert data.select_columns(["n"]).take(2) == [{"n": None}, {"n": 1}]
    source = IpcDatasource(folder, None, None).apply_projection({"n": "n", "a": "a"})
    assert source.get_projection_map() == {"n": "n", "a": "a"}
    assert source.apply_projection({"a": "a", "text": "text"}).get_projection_map() == {"a": "a"}
    assert source.apply_projection(None).get_projection_map() == {"n": "n", "a": "a"}
    assert source.supports_projection_pushdown()


def test_rows_are_counted_without_reading_columns(running, folder, tmp_path):
    assert saeta.ray.read_ipc(folder).count() == 7500
    rows().write_ipc(tmp_path / "1.arrows", format="stream")  # a stream has no row count at its start
    assert saeta.ray.read_ipc(tmp_path).count() == 5000


def fail_at_the_end(batch: pa.Table) -> pa.Table:
    if batch["a"][0].as_py() >= 4000:
        raise ValueError("this batch is not liked")
    return batch


def test_a_write_that_fails_leaves_no_file(running, folder, tmp_path):
    (tmp_path / "before.arrow").write_bytes(b"")
    data = saeta.ray.read_ipc(folder / "1.arrow", override_num_blocks=5)
    with pytest.raises(Exception, match="not liked"):
        saeta.ray.write_ipc(
            data.map_batches(fail_at_the_end, batch_format="pyarrow"), tmp_path, concurrency=1
        )
    assert [each.name for each in tmp_path.iterdir()] == ["before.arrow"]


def result(*names: list[str]) -> Any:
    return SimpleNamespace(write_returns=list(names))


def test_files_are_renamed_to_their_final_names_after_all_are_written(tmp_path):
    sink = IpcDatasink(tmp_path / "new" / "out", None, True)
    sink.on_write_start()
    names = [sink.write([batch(number).to_arrow()], SimpleNamespace(task_idx=number)) for number in (1, 0)]
    with pytest.raises(sa.MissingFileError):
        sa.read_ipc(tmp_path / "new" / "out", "host")
    sink.on_write_complete(result(*names))
    assert [Path(each).name for each in sink.written] == sorted(name for (name,) in names)
    table = sa.read_ipc(tmp_path / "new" / "out", "host")
    assert table.equals(sa.concat_tables([batch(0), batch(1)]))


def test_a_task_writes_its_blocks_as_batches_and_none_without_rows(tmp_path):
    sink = IpcDatasink(tmp_path, "zstd", False)
    empty = batch(0)[:0].to_arrow()
    task = SimpleNamespace(task_idx=0)
    assert sink.write([empty, empty], task) == []
    sink.on_write_complete(result(sink.write([empty, batch(0).to_arrow(), batch(1).to_arrow()], task)))
    assert sa.ipc.inspect(sink.written[0])["compression"] == "zstd"
    assert sa.read_ipc(sink.written[0], "host", combine_chunks=False).num_batches == 2


def test_blocks_of_pandas_are_written(tmp_path):
    sink = IpcDatasink(tmp_path, None, False)
    sink.on_write_complete(result(sink.write([batch(0).to_pandas()], SimpleNamespace(task_idx=0))))
    assert sa.read_ipc(tmp_path, "host")["a"].to_pylist() == list(range(ROWS))


def test_a_retried_task_replaces_its_file(tmp_path):
    sink = IpcDatasink(tmp_path, None, False)
    task = SimpleNamespace(task_idx=3)
    sink.write([batch(0).to_arrow()], task)
    sink.on_write_complete(result(sink.write([batch(1).to_arrow()], task)))
    assert [each.name for each in tmp_path.iterdir()] == [Path(sink.written[0]).name]
    assert sa.read_ipc(tmp_path, "host").equals(batch(1))


def test_an_object_store_is_refused_because_it_can_not_rename():
    with pytest.raises(sa.UnsupportedError, match="s3://bucket/key"):
        saeta.ray.write_ipc(None, "s3://bucket/key")


def test_batches_become_tables(running, folder):
    data = saeta.ray.read_ipc(folder / "1.arrow")
    batches = list(map(saeta.ray.collate("host"), data.iter_batches(batch_size=1500, batch_format="pyarrow")))
    assert [each.num_rows for each in batches] == [1500, 1500, 1500, 500]
    assert same_rows(sa.concat_tables(batches).to_arrow(), rows().to_arrow())


def test_collate_imports_batches_into_a_context():
    small = sa.context("host").memory.child("small", "1KiB")
    assert saeta.ray.collate(small)(pa.table({"a": [1]})).context == small


def test_tensors_have_all_rows_of_a_batch(monkeypatch):
    """NumPy stands in for torch: both import a column by DLPack."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_dlpack=np.from_dlpack))
    chunked = pa.concat_tables([pa.table({"a": [1, 2], "b": [0.5, 1.5]}), pa.table({"a": [3], "b": [2.5]})])
    made = saeta.ray.collate("host", tensors=True)(chunked)
    assert {name: each.tolist() for name, each in made.items()} == {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}


def test_batches_become_tensors(running, folder):
    torch = pytest.importorskip("torch")
    data = saeta.ray.read_ipc(folder / "1.arrow", columns="a")
    collate = saeta.ray.collate("host", tensors=True)
    batches = list(data.iter_torch_batches(batch_size=1500, collate_fn=collate))
    assert torch.equal(torch.cat([each["a"] for each in batches]), torch.arange(5000))
