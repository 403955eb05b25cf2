"""The exact output of the commands, run in this process with known times and rates."""

from __future__ import annotations

import io
import itertools
import json
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa

typer = pytest.importorskip("typer")
rich = pytest.importorskip("rich.console")

from saeta import _core, errors  # noqa: E402
from saeta._report import human_bytes  # noqa: E402
from saeta.cli import bench, convert, demo, exits, files, info, inspect, load, terminal  # noqa: E402

MIB = 1 << 20


@pytest.fixture
def clock(monkeypatch):
    """Replaces the clock: its readings are 1, 2, 3, ... ms apart, and a plain copy moves 256 MiB in 0.02
    s."""

    class Copies:
        def __init__(self, ctx, size, kind):
            assert (size, kind) == (256 * MIB, "memcpy" if ctx.device == "host" else "host_to_device")
            self._seconds = itertools.cycle([0.5, 0.02, 0.001])

        def time(self):
            return next(self._seconds)

    steps = itertools.accumulate(itertools.count(1))
    known = SimpleNamespace(perf_counter=lambda: next(steps) / 1000)
    for command in (load, convert):
        monkeypatch.setattr(command, "time", known)
    monkeypatch.setattr(_core, "_PlainCopies", Copies)


def printed_json(capsys):
    seen = capsys.readouterr()
    assert seen.err == ""
    assert seen.out.startswith('{\n  "'), "JSON is indented for human readers"
    return json.loads(seen.out)


def printed(capsys):
    seen = capsys.readouterr()
    assert seen.err == ""
    return [line.rstrip() for line in seen.out.split("\n")]


def write(path, table, batch, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


def loaded(*arguments, **chosen):
    given = {"device": "host", "budget": None, "columns": None, "rounds": 1, "check": False, "as_json": False}
    load.run([str(each) for each in arguments], **{**given, **chosen})


def test_the_output_of_load(tmp_path, capsys, clock):
    path = write(tmp_path / "a.arrow", pa.table({"a": range(2000), "b": [0.5] * 2000}), 500)
    loaded(path, rounds=3, check=True)
    lines = printed(capsys)
    size = human_bytes(path.stat().st_size)
    assert lines[0] == f"{path} on host"
    heading = "rows columns batches values file first, s again, s GB/s of a copy in memory (13.4)"
    assert " ".join(lines[1].split()) == heading
    assert lines[2].split() == [
        "2,000",
        "2",
        "4",
        "31.25",
        "KiB",
        *size.split(),
        "0.0020",
        "0.0050",
        "0.01",
        "0%",
    ]
    assert lines[3:6] == ["✓ as pyarrow reads it", "", "memory"]
    assert lines[6] == "memory of host"
    assert lines[-2:] == ["1 file as pyarrow reads them", ""]


def test_the_json_of_load_has_the_same_facts(tmp_path, capsys, clock):
    path = write(tmp_path / "a.arrow", pa.table({"a": range(2000), "b": [0.5] * 2000}), 500)
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "p.parquet")
    loaded(path, tmp_path / "p.parquet", rounds=2, check=True, as_json=True)
    result = printed_json(capsys)
    assert result["device"] == "host"
    assert result["link_gb_per_s"] == pytest.approx(256 * MIB / 0.02 / 1e9)
    assert result["memory"]["current"] >= 32000
    assert result["memory"]["by_tag"]["read_ipc"] >= 32000
    first, second = result["files"]
    assert first == {
        "file": str(path),
        "files": 1,
        "file_bytes": path.stat().st_size,
        "bytes": 32000,
        "rows": 2000,
        "columns": 2,
        "batches": 4,
        "seconds": pytest.approx([0.002, 0.004]),
        "gb_per_s": pytest.approx(32000 / 0.004 / 1e9),  # the first round is a warm-up and not counted
        "share": pytest.approx(32000 / 0.004 / 1e9 / result["link_gb_per_s"]),
        "same": True,
    }
    assert (second["rows"], second["same"]) == (3, True)


def test_load_reports_the_memory_of_all_tables(tmp_path, capsys, clock):
    paths = [write(tmp_path / f"{name}.arrow", pa.table({"a": range(4000)}), 4000) for name in "abc"]
    loaded(*paths, as_json=True)
    assert printed_json(capsys)["memory"]["current"] >= 3 * 32_000


def test_load_ends_with_1_and_the_names_of_files_that_differ(tmp_path, capsys, clock, monkeypatch):
    path = write(tmp_path / "a.arrow", pa.table({"a": [1, 2]}), 2)
    monkeypatch.setattr(load, "_same", lambda *_: False)
    for as_json in (False, True):
        with pytest.raises(typer.Exit) as ended:
            loaded(path, check=True, as_json=as_json)
        assert ended.value.exit_code == 1
        if as_json:
            assert printed_json(capsys)["files"][0]["same"] is False
        else:
            lines = printed(capsys)
            assert "✗ differs from what pyarrow reads" in lines
            assert lines[-2] == f"differs from what pyarrow reads: {path}"


def test_load_compares_values_schema_and_columns(tmp_path, host):
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    path = write(tmp_path / "a.arrow", table, 1)
    twice = pa.concat_tables([table, table])
    pq.write_table(table, tmp_path / "a.parquet")

    def same(paths, seen, names=None):
        return load._same(paths, sa.from_arrow(seen, host), names)

    assert same([path, path], twice)
    assert not same([path], twice)
    assert same([path], table.select(["b"]), ["b"])
    assert not same([path], table.select(["b"]), ["a"])
    assert not same([path], table.rename_columns(["a", "c"]))
    assert same([tmp_path / "a.parquet"], table)
    assert same([tmp_path / "a.parquet"], table.select(["b"]), ["b"])
    assert not same([tmp_path / "a.parquet"], pa.table({"a": [1, 2], "b": [3, 5]}))


def test_a_pipe_can_be_loaded_only_once_and_not_compared(host):
    for more in ({"rounds": 2}, {"check": True}):
        with pytest.raises(
            sa.InvalidError, match="'-' can be read once: save it to a file for --rounds and --check"
        ):
            loaded("-", **more)
    with pytest.raises(sa.InvalidError, match="--check compares files of this machine"):
        loaded("file:///tmp/none.arrow", check=True)


def test_parquet_is_detected_by_its_magic_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"PAR1x")
    (tmp_path / "b").write_bytes(b"PAR")
    assert load.is_parquet(tmp_path / "a")
    assert not load.is_parquet(tmp_path / "b")
    assert not load.is_parquet(files.Path("-"))


def test_the_output_of_inspect(tmp_path, capsys):
    table = pa.table(
        {
            "n": pa.array([1, None, 3, None], pa.int32()),
            "c": pa.array(["x", "y", "x", "x"]).dictionary_encode(),
        },
        schema=pa.schema(
            [
                pa.field("n", pa.int32()),
                pa.field("c", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            ],
            metadata={"short": "value", "long": "v" * 81, "as long": "v" * 80, "odd": b"\xff"},
        ),
    )
    path = write(tmp_path / "a.arrow", table, 3, compression="zstd")
    inspect.run(path, False)
    lines = printed(capsys)
    assert lines[:7] == [
        f"{path}: Arrow IPC file, {human_bytes(path.stat().st_size)}",
        "metadata version V5, compression zstd",
        "4 rows in 2 batches of 1 to 3 rows",
        "  short = value",
        f"  long = {'v' * 79}…",
        f"  as long = {'v' * 80}",
        "  odd = \ufffd",
    ]
    assert lines[8].split() == ["column", "type", "nullable", "nulls", "dictionary", "values"]
    assert lines[9].split() == ["n", "int32", "yes", "2", "-"]
    assert lines[10].split()[-3:] == ["no", "0", "2"]
    inspect.run(path, True)
    result = printed_json(capsys)
    assert result["file"] == str(path)
    assert result["metadata"]["odd"] == "\ufffd"


def test_sizes_of_batches_are_summarised():
    assert inspect._sizes([]) == inspect._sizes([5]) == ""
    assert inspect._sizes([1000, 1000]) == " of 1,000 rows"
    assert inspect._sizes([2000, 1000]) == " of 1,000 to 2,000 rows"


def test_the_output_of_convert(tmp_path, capsys, clock):
    path = write(tmp_path / "a.arrow", pa.table({"a": range(1000)}), 300)
    target = tmp_path / "b.PQ"
    convert.run(path, target, to=None, compression=None, batch_size=None, columns=None, as_json=False)
    assert pq.ParquetFile(target).metadata.row_group(0).column(0).compression == "SNAPPY"
    assert printed(capsys) == [
        f"{target}: 1,000 rows, {human_bytes(target.stat().st_size)} of {human_bytes(path.stat().st_size)}, "
        "in 0.00 s",
        "",
    ]
    convert.run(path, target, to="stream", compression="none", batch_size=None, columns=None, as_json=True)
    assert printed_json(capsys) == {
        "source": str(path),
        "target": str(target),
        "form": "stream",
        "rows": 1000,
        "source_bytes": path.stat().st_size,
        "target_bytes": target.stat().st_size,
        "seconds": pytest.approx(0.004),
    }
    summary = sa.ipc.inspect(target)
    assert (summary["format"], summary["compression"], summary["batch_rows"]) == (
        "stream",
        "none",
        [300, 300, 300, 100],
    )


def test_tab_separated_files_are_read(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("a\tb,c\n1\t2\n")
    (tmp_path / "a.TXT").write_text("a,b\n1,2\n")
    for name, columns in (("a.tsv", ["a", "b,c"]), ("a.TXT", ["a", "b"])):
        target = tmp_path / "out.arrow"
        convert.run(
            tmp_path / name, target, to=None, compression=None, batch_size=None, columns=None, as_json=True
        )
        assert sa.read_ipc(target, "host").column_names == columns


def test_a_corrupt_csv_file_is_a_format_error(tmp_path):
    source, target = tmp_path / "a.csv", tmp_path / "a.arrow"
    source.write_text("a,b\n1,2\n3\n")
    with pytest.raises(sa.FormatError, match=f"^{source}: .*Expected 2 columns"):
        convert.run(source, target, to=None, compression=None, batch_size=None, columns=None, as_json=True)
    assert not target.exists()


@pytest.mark.parametrize(
    ("sizes", "rows", "expected"),
    [
        ([3, 3, 3], 4, [4, 4, 1]),
        ([2, 2], 4, [4]),
        ([9], 4, [4, 4, 1]),
        ([1], 4, [1]),
        ([], 4, []),
        ([3, 0, 5], 1, [1] * 8),
        ([3, 2], None, [3, 2]),
    ],
)
def test_rows_are_regrouped_into_batches(sizes, rows, expected):
    starts = [0, *itertools.accumulate(sizes)]
    schema = pa.schema({"a": pa.int64()})
    batches = [
        pa.record_batch({"a": pa.array(range(first, first + size), pa.int64())})
        for first, size in zip(starts, sizes, strict=False)
    ]
    made = list(convert._rebatch(pa.RecordBatchReader.from_batches(schema, batches), rows))
    assert [batch.num_rows for batch in made] == expected
    assert [value for batch in made for value in batch["a"].to_pylist()] == list(range(sum(sizes)))


def test_every_error_class_has_its_exit_code(capsys):
    kinds = {
        errors.BudgetExceeded: 4,
        errors.OutOfMemory: 4,
        errors.DeviceError: 5,
        errors.MissingDependency: 6,
        errors.FileError: 3,
        errors.FormatError: 3,
        errors.UnsupportedError: 3,
        errors.InvalidError: 2,
        errors.ExchangeError: 7,
        PermissionError: 3,
    }
    for kind, code in kinds.items():
        with pytest.raises(typer.Exit) as ended, exits.report_failures(False):
            raise kind("some reason")
        assert ended.value.exit_code == code, kind
        seen = capsys.readouterr()
        assert (seen.out, seen.err) == ("", f"{kind.__name__}: some reason\n")
    with pytest.raises(ZeroDivisionError), exits.report_failures(False):
        raise ZeroDivisionError
    assert {code: int(code) for code in exits.MEANINGS} == {code: int(code) for code in exits.Exit}


def test_an_error_in_json_has_its_numbers(host, capsys):
    with pytest.raises(typer.Exit), exits.report_failures(True), host.memory.child("q", limit=100) as child:
        child.allocate(1000)
    found = capsys.readouterr().out
    assert found.startswith('{\n  "error": {\n'), "JSON is indented for human readers"
    described = json.loads(found)["error"]
    assert (described["type"], described["exit_code"]) == ("BudgetExceeded", 4)
    assert described["numbers"]["limit"] == 100
    with pytest.raises(typer.Exit), exits.report_failures(True):
        raise errors.FileError("gone")
    assert json.loads(capsys.readouterr().out)["error"] == {
        "type": "FileError",
        "message": "gone",
        "exit_code": 3,
    }


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_screen(monkeypatch):
    def show(width, *arguments, **keywords):
        screen = Screen()
        console = rich.Console(file=screen, width=width, highlight=False, force_terminal=True, no_color=True)
        monkeypatch.setattr(terminal, "out", console)
        terminal.grid(*arguments, **keywords)
        plain = "".join(part for part in screen.getvalue() if part.isprintable() or part == "\n")
        for code in ("[1m", "[0m", "[3m"):
            plain = plain.replace(code, "")
        return [line.rstrip() for line in plain.split("\n")]

    return show


GRID = ("a title", ["name", "size", "why"], [("first", 10, "because it is so"), ("[b]", 2, "x")])


def test_a_grid_is_a_table_if_it_fits(on_screen):
    assert on_screen(60, *GRID, right=(1,)) == [
        "a title",
        "name   size  why",
        "first    10  because it is so",
        "[b]       2  x",
        "",
    ]


def test_a_grid_wraps_its_last_column_if_the_others_fit(on_screen):
    needed = len("first  size  ") + terminal.LAST_COLUMN
    assert on_screen(needed, *GRID) == [
        "a title",
        "name   size  why",
        "first  10    because it",
        "             is so",
        "[b]    2     x",
        "",
    ]


def test_a_grid_is_blocks_on_a_narrow_terminal(on_screen):
    needed = len("first  size  ") + terminal.LAST_COLUMN
    assert on_screen(needed - 1, *GRID) == [
        "a title",
        "first",
        "  size  10",
        "  why   because it is so",
        "[b]",
        "  size  2",
        "  why   x",
        "",
    ]
    two = ("", ["name", "size"], [("a very long name of something", 10)])
    assert len(on_screen(12, *two)) > 3, "a grid of two columns is always a table"


def test_unprintable_characters_are_escaped(capsys):
    terminal.say("a\x1b[31mb [bold]c[/bold]")
    assert capsys.readouterr().out == "a\\x1b[31mb [bold]c[/bold]\n"
    terminal.complain("x" * 300 + " [y]\x07")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "x" * 300 + " [y]\\x07\n")
    terminal.say_lines("one\ntwo")
    assert capsys.readouterr().out == "one\ntwo\n"


def test_progress_is_shown_only_on_a_terminal(tmp_path, monkeypatch):
    assert not terminal.on_terminal()
    monkeypatch.setattr(sys, "stderr", Screen())
    assert terminal.on_terminal()
    path = demo._make_file(tmp_path / "a.arrow", 10, 1, quiet=False)
    assert sa.read_ipc(path, "host").num_rows == 10
    assert "making lineitem" in sys.stderr.getvalue()
    assert "100%" in sys.stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", Screen())
    demo._make_file(tmp_path / "b.arrow", 10, 1, quiet=True)
    assert sys.stderr.getvalue() == ""
    assert (tmp_path / "b.arrow").read_bytes() == path.read_bytes()


def test_info_describes_the_cuda_support_of_a_build():
    built = {"built": True, "usable": True, "runtime": "13.1", "driver": "13.0"}
    assert info._cuda(built) == "usable; runtime 13.1, driver 13.0"
    assert info._cuda({**built, "usable": False, "runtime": "", "driver": ""}) == (
        "not usable here; runtime -, driver -"
    )
    assert info._cuda({**built, "built": False}) == "left out of this build"


def test_numbers_of_threads_start_at_one():
    assert bench._numbers("1,2,16") == [1, 2, 16]
    for wrong in ("", "0", "2,-1", "x", "1,,2", "1.5"):
        with pytest.raises(sa.InvalidError, match="expected numbers from 1 on, with commas between"):
            bench._numbers(wrong)


def result(job, peer, threads, rate, **more):
    known = {"share": 0.5, "reached": None, "bar": None, "seconds_bar": None}
    return {"job": job, "peer": peer, "threads": threads, "gb_per_s": rate, **known, **more}


def test_the_table_of_a_benchmark(capsys):
    failed = result("write", "pyarrow", 2, 0)
    del failed["gb_per_s"]
    found = {
        "device": "host",
        "limits": {"2": {"in": 10.0, "out": 9.0}},
        "shares": True,
        "verdicts": True,
        "missing": ["no KvikIO here"],
        "results": [
            result("read", "saeta", 1, 4.0),
            result("read", "saeta", 2, 5.0, share=0.55, bar=0.5, reached=True),
            result("read", "pyarrow", 1, 1.0),
            result("read", "pyarrow", 2, 2.0),
            result("read", "polars", 2, 3.0),
            result("write", "saeta", 1, 6.0),
            result("write", "saeta", 2, 7.0, share=0.25, seconds_bar=0.5, reached=False),
            failed,
        ],
    }
    bench._show(found, 2)
    lines = printed(capsys)
    assert lines[0] == "host: memcpy 10.0 GB/s in, 9.0 out"
    assert " ".join(lines[1].split()) == "job, GB/s 1 thr. 2 thr. of the limit to reach what people use"
    assert [line.split() for line in lines[2:4]] == [
        ["read", "4.00", "5.00", "55%", "50%", "✓", "pyarrow", "2.00;", "polars", "3.00"],
        ["write", "6.00", "7.00", "25%", "500", "ms", "✗", "pyarrow", "failed"],
    ]
    assert lines[4] == "not measured: no KvikIO here"
    bench._show({**found, "device": "cuda:0", "missing": []}, 2)
    lines = printed(capsys)
    assert lines[0] == "cuda:0: a pinned copy 10.0 GB/s in, 9.0 out"
    assert bench._bar(result("x", "saeta", 1, 1.0)) == ""


def test_files_of_arguments(tmp_path, monkeypatch):
    write(tmp_path / "a.arrow", pa.table({"a": [1]}), 1)
    (one,) = files.files_of(str(tmp_path / "a.arrow"))
    assert files.is_local(one)
    assert not files.is_local(files.data_sets.Listed("s3://bucket/a.arrow"))
    assert not files.is_local(files.data_sets.Listed(str(tmp_path), object()))
    assert not files.is_local(files.data_sets.Listed("-"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer="the bytes"))
    assert files.source_of("-") == "the bytes"
    assert files.source_of("x") == "x"
    assert files.is_read_once("-")
    assert not files.is_read_once(tmp_path / "a.arrow")
    assert [each.source for each in files.files_of("-")] == ["-"]


def test_the_output_of_a_demo_step(capsys):
    checks = [
        SimpleNamespace(passed=True, name="first", detail="1 of 1"),
        SimpleNamespace(passed=False, name="second", detail="0 of 1"),
    ]
    demo._show(7, SimpleNamespace(title="a title", facts=["a fact"], checks=checks))
    assert printed(capsys) == [
        "7. a title",
        "   a fact",
        "   ✓ first: 1 of 1",
        "   ✗ second: 0 of 1",
        "",
        "",
    ]


def test_the_rates_of_a_demo(capsys):
    rates = [
        {"name": "file -> host", "bytes": MIB, "seconds": 0.5, "gb_per_s": 2.125, "share": 0.255},
        {"name": "memcpy", "bytes": 2 * MIB, "seconds": 0.25, "gb_per_s": 8.0, "share": None},
    ]
    demo._show_end(SimpleNamespace(memory="memory of host\n  all of it"), rates, None)
    lines = printed(capsys)
    assert lines[:5] == [
        "memory, before everything was let go",
        "memory of host",
        "  all of it",
        "",
        "rates (medians)",
    ]
    assert " ".join(lines[5].split()) == "leg bytes seconds GB/s of a plain copy"
    assert lines[6].split() == ["file", "->", "host", "1", "MiB", "0.5000", "2.12", "26%"]
    assert lines[7].split() == ["memcpy", "2", "MiB", "0.2500", "8.00"]
    assert lines[6].endswith("26%")
    assert lines[8:] == ["", ""]


def test_numbers_of_a_table_are_right_aligned(capsys):
    terminal.grid("", ["a", "b"], [("x", 1), ("y", 100)], right=(1,))
    assert printed(capsys) == ["a    b", "x    1", "y  100", ""]
    terminal.grid("", ["a", "b"], [("x", 1), ("y", 100)])
    assert printed(capsys) == ["a  b", "x  1", "y  100", ""]
    terminal.grid("", ["a"], [("z" * 150,)])
    assert printed(capsys) == ["a", "z" * 150, ""]


def test_the_output_of_info(capsys, monkeypatch):
    device = {
        "name": "cuda:0",
        "model": "H100",
        "architecture": "9.0",
        "driver": "580.1",
        "total_bytes": 80 << 30,
        "free_bytes": 40 << 30,
        "multiprocessors": 132,
    }
    host = {**device, "name": "host", "model": "x86", "driver": "", "free_bytes": None}
    found = {
        "version": "0.1",
        "python": "3.12",
        "machine": "x86_64",
        "cuda": {"built": False},
        "saeta.cuda": {"usable": True, "loaded": "26.0", "built_for": "26.1"},
        "devices": [device, host],
        "packages": {"numpy": "2.4", "torch": None},
        "missing": [{"part": "torch", "why": "not installed"}],
    }
    monkeypatch.setattr(info, "info", lambda: found)
    info.run(as_json=True)
    assert printed_json(capsys) == found
    info.run(as_json=False)
    lines = [" ".join(line.split()) for line in printed(capsys)]
    assert lines == [
        "saeta 0.1, Python 3.12, x86_64",
        "CUDA left out of this build",
        "saeta.cuda libarrow 26.0, built with 26.1",
        "",
        "devices",
        "device model architecture driver memory free processors",
        "cuda:0 H100 9.0 580.1 80 GiB 40 GiB 132",
        "host x86 9.0 - 80 GiB - 132",
        "",
        "packages",
        "package version",
        "numpy 2.4",
        "torch -",
        "",
        "missing",
        "part why, and how to have it",
        "torch not installed",
        "",
    ]
    found["saeta.cuda"]["usable"], found["missing"] = False, []
    info.run(as_json=False)
    lines = printed(capsys)
    assert lines[2] == "saeta.cuda  left out"
    assert "missing" not in lines
