"""Printed tables, errors and reports: bounded size for every type, and no terminal control characters."""

from __future__ import annotations

import logging
import subprocess
import sys

import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from saeta import _text

MOST = 2**31 - 1
HIDDEN = [
    chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
]
NASTY = "a\x1b]0;title\x07\r\nb\x9b31m\u202ec\u2066d"


def in_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def nulls(count: int) -> pa.Array:
    """Returns an array of nulls without allocating, unlike pa.nulls."""
    return pa.Array.from_buffers(pa.null(), count, [None])


def claims() -> dict[str, pa.Array]:
    """Returns arrays of some hundred bytes whose conversion would need huge numbers of Python objects."""
    huge = pa.FixedSizeListArray.from_arrays(nulls(MOST), MOST)
    deep = nulls(2**30)
    for _ in range(30):
        deep = pa.FixedSizeListArray.from_arrays(deep, 2)
    return {
        "nulls in a list": huge,
        "nulls in 30 lists": deep,
        "in a struct": pa.StructArray.from_arrays([huge], ["x"]),
        "in a list": pa.ListArray.from_arrays([0, 1], huge),
        "in a union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [huge]),
        "in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 0], pa.int8()), huge),
        "views of one list": pa.ListViewArray.from_arrays([0] * 200, [2**28] * 200, nulls(2**28)),
        "a run": pa.RunEndEncodedArray.from_arrays(pa.array([2**40], pa.int64()), nulls(1)),
    }


CLAIMS = claims()


def column_of(array: pa.Array, host: sa.Context) -> sa.Column:
    return sa.from_arrow(pa.table({"x": array}), host)["x"]


@pytest.mark.parametrize("name", CLAIMS)
def test_a_display_creates_only_the_objects_that_it_shows(host, name):
    column = column_of(CLAIMS[name], host)
    table = sa.table({"x": column}, host)
    for text in (repr(column), column._repr_html_(), repr(table), table._repr_html_()):
        assert len(text) < 2000
    assert "null" in repr(column)


@pytest.mark.parametrize("name", [name for name in CLAIMS if name != "in a dictionary"])
def test_to_pylist_refuses_more_objects_than_memory_before_creating_them(host, name):
    column = column_of(CLAIMS[name], host)
    with pytest.raises(
        sa.OutOfMemory,
        match=r"are \d+ Python objects, which take at least \d+ bytes, and \d+ bytes .*slice\(\)",
    ):
        column.to_pylist()


def test_a_null_in_place_of_a_huge_list_can_be_converted(host):
    one = pa.FixedSizeListArray.from_arrays(nulls(MOST), MOST, mask=pa.array([True]))
    assert column_of(one, host).to_pylist() == [None]


def test_to_pylist_refuses_too_many_rows_without_columns(host):
    table = sa.from_arrow(pa.table({"a": nulls(2**40)}), host).select([])
    if table.num_rows == 0:
        pytest.skip("a table without columns has no rows")
    with pytest.raises(sa.OutOfMemory, match="the rows of the table are 1099511627776 Python objects"):
        table.to_pylist()


def test_dictionary_values_are_counted_for_each_row(host):
    values = pa.array([[None] * 1000])
    column = column_of(pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 0], pa.int8()), values), host)
    assert column.to_pylist() == [values[0].as_py(), values[0].as_py(), None, values[0].as_py()]


def test_text_is_truncated_before_conversion_to_python(host):
    long = "é" * (1 << 20)
    column = sa.column(pa.array([long, None]), host, name="long")
    assert [value and len(value) for value in column._raw_values(128)] == [128, None]
    assert "é" * 35 + "…" in repr(column)
    wide = "\N{GRINNING FACE}"  # four bytes in UTF-8
    assert wide * 36 in repr(sa.column([wide * 36], host, name="whole"))
    assert wide * 35 + "…" in repr(sa.column([wide * 37], host, name="cut"))
    nested = sa.column(pa.array([[["y" * 200] * 100] * 100]), host, name="n")
    raw = nested._raw_values(128)[0]
    assert sum(1 + len(inner) for inner in raw) <= 128
    assert {len(text) for inner in raw for text in inner} == {128}


def test_long_names_do_not_lengthen_a_display(host):
    long = "x" * (1 << 20)
    table = sa.table({long: pa.array([{long: 1}]), "b": [1]}, host)
    for text in (repr(table), table._repr_html_(), repr(table[long]), table[long]._repr_html_()):
        assert len(text) < 5000


@pytest.mark.parametrize("name", {**arrow_data.arrays(3), **arrow_data.nested(3)})
def test_a_truncated_value_shows_the_beginning_of_the_whole_one(host, name):
    """Formatting a truncated value must give the same text as truncating the formatted value, for every
    type."""
    from saeta._convert.to_python import text_of
    from saeta._report.display import MOST_INSIDE, VALUE_WIDTH

    array = {**arrow_data.arrays(60), **arrow_data.nested(60)}[name]
    column = column_of(array, host)
    for cut, whole in zip(column._raw_values(MOST_INSIDE), column._raw_values(), strict=True):
        shown, full = text_of(column.type, cut), text_of(column.type, whole)
        assert _text.shorten(shown, VALUE_WIDTH) == _text.shorten(full, VALUE_WIDTH)


def clean(text: str) -> bool:
    return not any(letter in text.replace("\n", "") for letter in HIDDEN)


def nasty_table(host):
    named = pa.array([{NASTY: NASTY}])
    schema = pa.schema([pa.field(NASTY, named.type), pa.field("t", pa.string())], metadata={NASTY: NASTY})
    return sa.from_arrow(pa.Table.from_arrays([named, pa.array([NASTY])], schema=schema), host)


def test_names_and_values_are_shown_without_control_characters(host):
    table = nasty_table(host)
    schema = table.schema
    hook = host.memory.add_hook(lambda wanted: 0, name=NASTY)
    hook.remove()
    for shown in (table, table[0], table[1], schema, schema.field(0), schema.field(0).type, hook):
        assert clean(repr(shown)), repr(repr(shown))
        assert "\\x1b]0;title\\x07\\r\\nb" in repr(shown)
    for shown in (table, table[0]):
        assert clean(shown._repr_html_())
    assert "\\u202ec\\u2066d: struct<" in repr(schema)
    assert repr(table).count("\n") == 2
    assert repr(schema).count("\n") == 2


def test_errors_show_names_without_control_characters(host):
    table = nasty_table(host)
    with pytest.raises(sa.ColumnNameError) as missing:
        table[NASTY + "2"]
    with pytest.raises(sa.Error) as unknown:
        sa.read_ipc(f"/nowhere/{NASTY}", host)
    with pytest.raises(sa.Error) as renamed:
        table.rename_columns({NASTY + "2": "a"})
    for failure in (missing, unknown, renamed):
        assert clean(str(failure.value))
        assert "\n" not in str(failure.value)
        assert "\\x1b" in str(failure.value)
    assert table.column_names[0] == NASTY, "the name itself must not be escaped"


def test_reports_and_memory_show_tags_without_control_characters(host, caplog):
    kept = host.allocate(10, tag=NASTY)
    assert clean(host.memory.report())
    assert "\\x1b" in host.memory.report()
    assert clean(repr(kept))
    from saeta._report import failures

    with caplog.at_level(logging.ERROR, "saeta"):
        failures.log(f"somewhere: {NASTY}")
    assert clean(caplog.messages[-1])


@pytest.mark.parametrize(
    "command", [["inspect"], ["demo", "--device", "host"], ["load", "--device", "host"]], ids=lambda of: of[0]
)
def test_commands_show_names_without_control_characters(host, tmp_path, command):
    pytest.importorskip("rich")
    path = tmp_path / f"{NASTY.replace('/', '')}.arrow"
    schema = pa.schema(
        [pa.field(NASTY, pa.int64()), pa.field("s", pa.struct([(NASTY, pa.int8())]))], metadata={NASTY: NASTY}
    )
    table = pa.Table.from_arrays([pa.array([1]), pa.array([{NASTY: 1}])], schema=schema)
    path.write_bytes(in_file(table))
    name, *options = command
    done = subprocess.run(
        [sys.executable, "-m", "saeta", name, str(path), *options],
        capture_output=True,
        timeout=600,
        check=False,
    )
    shown = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, shown
    assert clean(shown)
    assert "\\x1b" in shown


def test_a_command_that_fails_shows_names_without_control_characters(tmp_path):
    pytest.importorskip("rich")
    done = subprocess.run(
        [sys.executable, "-m", "saeta", "inspect", str(tmp_path / NASTY)],
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 3
    assert clean(done.stderr.decode())


@pytest.mark.parametrize("letter", HIDDEN)
def test_every_control_character_is_escaped(letter):
    assert clean(_text.printable(f"a{letter}b"))
    assert _text.printable(f"a{letter}b").isprintable()
    assert str(sa.InvalidError(f"a{letter}b")) == _text.printable(f"a{letter}b")


def test_printable_text_is_not_changed():
    for text in ("", "año", "価格", "😀", "a b…"):
        assert _text.printable(text) == text
