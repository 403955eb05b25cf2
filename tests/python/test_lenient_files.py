"""Unusual files that pyarrow accepts or the standard allows: every read mode gives the same table."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

import saeta as sa

MODES = [
    {},
    {"copy": True},
    {"copy": False},
    {"combine_chunks": True},
    {"copy": True, "combine_chunks": False},
    {"validate": "utf8"},
    {"copy": True, "validate": "utf8"},
    {"validate": False},
    {"copy": True, "validate": False},
]


def in_every_mode(source, folder, *, batches, **options):
    """Yields the table from each read mode: from bytes, from a path, by a range of batches, and by a scan."""
    path = folder / "source.arrow"
    path.write_bytes(source)
    for mode in MODES:
        yield mode, sa.read_ipc(source, "host", **mode, **options)
        yield mode, sa.read_ipc(path, "host", **mode, **options)
    for mode in ({}, {"copy": True}, {"validate": "utf8"}):
        yield mode, sa.read_ipc(path, "host", batches=(0, batches), **mode, **options)
        with sa.scan_ipc(path, "host", **mode, **options) as scan:
            parts = [part.to_arrow() for part in scan]
        yield mode, sa.from_arrow(pa.concat_tables(parts), sa.context("host"))


def file_of(table, *, batch_rows=2, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return sink.getvalue().to_pybytes()


def without_footer_version(source):
    """Removes the version from the footer, like writers of Arrow 0.14: there it has its default, so it is
    omitted."""
    size = struct.unpack_from("<i", source, len(source) - 10)[0]
    footer = len(source) - 10 - size
    root = footer + struct.unpack_from("<I", source, footer)[0]
    table = root - struct.unpack_from("<i", source, root)[0]
    first_field = 4  # in a vtable, the first field follows the sizes of vtable and table
    assert struct.unpack_from("<H", source, table + first_field)[0] != 0
    made = bytearray(source)
    struct.pack_into("<H", made, table + first_field, 0)
    return bytes(made)


@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
@pytest.mark.parametrize("legacy", [True, False], ids=["before 0.15", "since 0.15"])
def test_a_footer_without_a_version_is_read_as_an_old_file(tmp_path, version, legacy):
    table = pa.table(
        {
            "before": pa.array([1, None, 3, 4]),
            "union": pa.UnionArray.from_sparse(
                pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", None])]
            ),
            "word": pa.array(["x", None, "x", "y"]).dictionary_encode(),
            "behind": pa.array([0.5, 1.5, None, 3.5]),
        }
    )
    source = without_footer_version(file_of(table, metadata_version=version, use_legacy_format=legacy))
    assert pa.ipc.open_file(source).read_all().equals(table)
    for mode, seen in in_every_mode(source, tmp_path, batches=2):
        assert seen.to_arrow().to_pylist() == table.to_pylist(), mode
    for mode, seen in in_every_mode(source, tmp_path, batches=2, columns=["behind"]):
        assert seen["behind"].to_pylist() == table["behind"].to_pylist(), mode
    (tmp_path / "old.arrow").write_bytes(source)
    summary = sa.ipc.inspect(tmp_path / "old.arrow")
    assert (summary["metadata_version"], summary["batch_rows"]) == (
        "V4" if version.name == "V4" else "V5",
        [2, 2],
    )


@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
@pytest.mark.parametrize("legacy", [True, False], ids=["before 0.15", "since 0.15"])
def test_old_files_without_dictionaries_are_read_in_every_mode(tmp_path, version, legacy):
    """Only the batch messages show that these files need the slower reader."""
    table = pa.table({"a": [1, None, 3, 4], "s": ["x", None, "", "yy"]})
    source = file_of(table, metadata_version=version, use_legacy_format=legacy)
    for mode, seen in in_every_mode(source, tmp_path, batches=2):
        assert seen.to_arrow().to_pylist() == table.to_pylist(), mode


def messages_of(batches):
    """Returns the messages of a stream, the schema first."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return list(reader)


def stream_of(messages):
    end = b"\xff\xff\xff\xff\0\0\0\0"
    return b"".join(message.serialize().to_pybytes() for message in messages) + end


def batch_of(*words):
    values = pa.array(["a", "b"])
    codes = pa.array([None if word is None else "ab".index(word) for word in words], pa.int8())
    lists = pa.ListArray.from_arrays(
        pa.array(range(len(words) + 1), pa.int32()), pa.DictionaryArray.from_arrays(codes, values)
    )
    return pa.record_batch(
        {
            "row": pa.array(range(len(words)), pa.int32()),
            "word": pa.DictionaryArray.from_arrays(codes, values),
            "list": lists,
        }
    )


LATE = {
    "only nulls, then the dictionary": [batch_of(None, None), batch_of("a", "b", "a")],
    "no rows, then the dictionary": [batch_of(), batch_of("b", None)],
    "both, then the dictionary": [batch_of(), batch_of(None), batch_of("b", None), batch_of("a")],
    "only nulls, and no dictionary": [batch_of(None, None), batch_of()],
    "no rows, and no dictionary": [batch_of()],
}


@pytest.mark.parametrize("name", LATE)
def test_a_dictionary_of_null_rows_may_come_late_or_be_missing(tmp_path, name):
    batches = LATE[name]
    schema, *rest = messages_of(batches)
    rows = [message for message in rest if message.type == "record batch"]
    dictionaries = [message for message in rest if message.type == "dictionary"]
    named = [any(word is not None for word in batch["word"].to_pylist()) for batch in batches]
    first = named.index(True) if True in named else len(batches)
    source = stream_of([schema, *rows[:first], *(dictionaries if True in named else []), *rows[first:]])
    expected = pa.Table.from_batches(batches)
    for mode, seen in in_every_mode(source, tmp_path, batches=len(batches)):
        assert seen["word"].to_pylist() == expected["word"].to_pylist(), mode
        assert seen["list"].to_pylist() == expected["list"].to_pylist(), mode
    for column in ("row", "list"):
        for mode, seen in in_every_mode(source, tmp_path, batches=len(batches), columns=[column]):
            assert seen[column].to_pylist() == expected[column].to_pylist(), mode


@pytest.mark.parametrize("late", [True, False], ids=["late", "missing"])
def test_indices_before_their_dictionary_are_refused_in_every_mode(tmp_path, late):
    schema, *rest = messages_of([batch_of(None, "a"), batch_of("a")])
    rows = [message for message in rest if message.type == "record batch"]
    dictionaries = [message for message in rest if message.type == "dictionary"]
    source = stream_of([schema, rows[0], *(dictionaries if late else []), rows[1]])
    path = tmp_path / "stream.arrow"
    path.write_bytes(source)
    for mode in MODES:
        if mode.get("validate", True) is not False:
            with pytest.raises(
                sa.FormatError, match=r"batch 0.*'word'.*is not in the dictionary, which has 0 entries"
            ):
                sa.read_ipc(path, "host", **mode)
    with pytest.raises(
        sa.FormatError, match=r"batch 0.*'word'.*is not in the dictionary, which has 0 entries"
    ):
        list(sa.scan_ipc(path, "host"))
    assert sa.read_ipc(path, "host", columns=["row"])["row"].to_pylist() == [0, 1, 0]


@pytest.mark.parametrize("claimed", [1, 3, 8, -1])
def test_a_wrong_null_count_of_a_file_is_corrected(tmp_path, claimed):
    table = pa.table({"a": pa.array([1, None, 3, None, 5, 6, 7, 8]), "t": pa.array([None, *"abcdefg"])})
    source = file_of(table, batch_rows=8)
    node = struct.pack("<qq", 8, 2)
    assert source.count(node) == 1
    source = source.replace(node, struct.pack("<qq", 8, claimed))
    for mode, seen in in_every_mode(source, tmp_path, batches=1):
        assert (seen["a"].null_count, seen["a"].to_pylist()) == (2, table["a"].to_pylist()), mode
        assert pa.chunked_array(seen["a"]).null_count == 2, mode
        seen.write_ipc(tmp_path / "ours.arrow")
        ours = pa.ipc.open_file(tmp_path / "ours.arrow").read_all()
        assert ours["a"].null_count == 2, mode
        ours.validate(full=True)
        assert sa.read_ipc(tmp_path / "ours.arrow", "host", copy=True)["a"].null_count == 2, mode


@pytest.mark.parametrize("claimed", [9, -2])
def test_an_impossible_null_count_is_refused(tmp_path, claimed):
    source = file_of(pa.table({"a": pa.array([1, None, 3, None, 5, 6, 7, 8])}), batch_rows=8)
    source = source.replace(struct.pack("<qq", 8, 2), struct.pack("<qq", 8, claimed))
    for mode in MODES:
        with pytest.raises(sa.FormatError):
            sa.read_ipc(source, "host", **mode)


def test_with_a_null_count_of_zero_the_validity_is_ignored(tmp_path):
    source = file_of(pa.table({"a": pa.array([1, None, 3, None, 5, 6, 7, 8])}), batch_rows=8)
    source = source.replace(struct.pack("<qq", 8, 2), struct.pack("<qq", 8, 0))
    assert pa.ipc.open_file(source).read_all()["a"].null_count == 0
    for mode, seen in in_every_mode(source, tmp_path, batches=1):
        assert (seen["a"].null_count, None in seen["a"].to_pylist()) == (0, False), mode


def test_offsets_of_a_dense_union_may_go_backwards(tmp_path):
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([1, 0, 0, 0], pa.int32()),
        [pa.array([10, 20]), pa.array(["x", "y"])],
    )
    table = pa.table({"u": union})
    for mode, seen in in_every_mode(file_of(table, batch_rows=4), tmp_path, batches=1):
        assert seen["u"].to_pylist() == [20, "x", 10, "x"], mode


def test_padding_of_an_inline_string_view_may_be_arbitrary(tmp_path):
    table = pa.table({"v": pa.array(["abc", "a text of more than twelve bytes"], pa.string_view())})
    view = struct.pack("<i", 3) + b"abc" + bytes(9)
    source = file_of(table)
    assert source.count(view) == 1
    source = source.replace(view, struct.pack("<i", 3) + b"abc" + b"\xff" * 9)
    for mode, seen in in_every_mode(source, tmp_path, batches=1):
        assert seen["v"].to_pylist() == table["v"].to_pylist(), mode


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("nested", [False, True], ids=["column", "nested"])
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "dictionary"])
def test_utf8_is_validated_in_every_mode_on_request(tmp_path, type_, nested, encoded):
    def column(text):
        values = pa.array([text, "more than twelve bytes of text", None], type_)
        if encoded:
            values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), values)
        if nested:
            values = pa.ListArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), values)
        return pa.table({"t": values})

    good = file_of(column("marked"), batch_rows=3)
    bad = good.replace(b"marked", b"m\xffrked")
    assert bad != good
    path = tmp_path / "bad.arrow"
    for source in (good, bad):
        path.write_bytes(source)
        for mode in MODES:
            if mode.get("validate") == "utf8" and source is bad:
                with pytest.raises(sa.FormatError, match=r"batch 0|dictionary"):
                    sa.read_ipc(path, "host", **mode)
            else:
                assert sa.read_ipc(path, "host", **mode).num_rows == 3
        if source is bad:
            with pytest.raises(sa.FormatError, match="'t'"):
                list(sa.scan_ipc(path, "host", validate="utf8"))


def test_writing_to_a_view_of_a_file_changes_private_pages(run_python, tmp_path):
    """Consumers ignore DLPack's read-only flag. If the pages were read-only, torch's `add_` would crash the
    process."""
    path = tmp_path / "numbers.arrow"
    before = file_of(pa.table({"a": range(100_000)}), batch_rows=100_000)
    path.write_bytes(before)
    program = """
import ctypes, sys
import numpy as np
import saeta as sa

table = sa.read_ipc(sys.argv[1], "host")
view = np.from_dlpack(table["a"])
assert not view.flags.writeable
ctypes.memset(view.ctypes.data, 0xFF, 8)
ctypes.memset(view.ctypes.data + view.nbytes - 8, 0xFF, 8)
assert (view[0], view[1], view[-1]) == (-1, 1, -1)
assert sa.read_ipc(sys.argv[1], "host")["a"].to_pylist()[0] == 0
print("alive")
"""
    done = run_python(program, str(path))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "alive", "")
    assert path.read_bytes() == before
