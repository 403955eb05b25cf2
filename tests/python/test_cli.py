"""The command `saeta`: its output, JSON and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

import arrow_data
import saeta as sa
from command import saeta

pytest.importorskip("typer")
pytest.importorskip("rich")


def steps_of(done):
    """Returns the checks of a demo by their name."""
    report = json.loads(done.stdout)
    return {check["name"]: check for step in report["steps"] for check in step["checks"]}


def bare(type):  # noqa: A002 - the word of the lexicon
    """Returns the name of a type without its parameters."""
    return re.split(r"[\[(<]", str(type))[0]


def test_info_names_devices_versions_and_what_is_missing():
    done = saeta("info")
    assert done.returncode == 0, done.stderr
    assert f"saeta {sa.__version__}" in done.stdout
    for word in ("devices", "host", "packages", "pyarrow", pa.__version__):
        assert word in done.stdout
    result = json.loads(saeta("info", "--json").stdout)
    assert result["packages"]["pyarrow"] == pa.__version__
    assert result["devices"][-1]["name"] == "host"
    if not result["cuda"]["usable"]:
        assert any(each["part"] == "cuda" and each["why"] for each in result["missing"])


def test_version_and_help():
    assert saeta("--version").stdout.strip() == f"saeta {sa.__version__}"
    help_ = saeta("--help")
    assert help_.returncode == 0
    for command in ("info", "inspect", "demo", "load", "profile", "convert", "bench"):
        assert command in help_.stdout
    assert "Exit codes" in help_.stdout


def test_the_docs_list_every_exit_code():
    from saeta.cli.exits import MEANINGS

    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = page.split("## Exit codes")[1]
    documented = re.findall(r"^\| (\d+) \| (.+) \|$", listed, re.MULTILINE)
    assert documented == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def test_every_command_can_print_to_an_ascii_output(tmp_path):
    path, copy = tmp_path / "Zürich.arrow", tmp_path / "copie é.arrow"
    named = sa.table({"Straße…": ["✓"]}, "host").replace_schema_metadata({"wer": "Ü" * 100})
    named.write_ipc(path)
    for arguments, words in (
        (["inspect", path], ["Z\\xfcrich.arrow", "Stra\\xdfe...", "wer = \\xdc"]),
        (["inspect", tmp_path / "fehlt-é"], []),
        (["load", path, "--check"], ["ok as pyarrow reads it", "1 file as pyarrow reads them"]),
        (["profile", path, "--device", "host"], ["Z\\xfcrich.arrow", "bound by"]),
        (["convert", path, copy], ["copie \\xe9.arrow: 1 row"]),
        (["demo", "--rows", 1000], ["checks passed", "ok "]),
        (["info"], ["saeta "]),
        (["--help"], ["Exit codes"]),
    ):
        plain = saeta(*arguments, PYTHONIOENCODING="ascii")
        usual = saeta(*arguments, PYTHONIOENCODING="utf-8")
        assert plain.returncode == usual.returncode
        assert "Traceback" not in plain.stderr
        assert plain.stdout.isascii()
        assert [each for each in words if each not in plain.stdout] == []


def test_a_command_without_standard_output_ends_as_usual(tmp_path):
    done = subprocess.run(
        ["sh", "-c", '"$0" -m saeta info >&-', sys.executable], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_error_without_typer_says_how_to_install_it():
    program = "import sys; sys.modules['typer'] = None; from saeta.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert "the command saeta needs typer and rich" in done.stderr
    assert "pip install 'saeta[cli]'" in done.stderr


def test_inspect_shows_schema_batches_nulls_and_dictionaries(tmp_path):
    source = arrow_data.table(60).replace_schema_metadata({"made by": "a test"})
    path = tmp_path / "types.arrow"
    with pa.ipc.new_file(path, source.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(source, max_chunksize=20)
    done = saeta("inspect", path)
    assert done.returncode == 0, done.stderr
    for text in (
        "60 rows in 3 batches of 20 rows",
        "compression zstd",
        "timestamp[us, tz=Europe/Madrid]",
        "made by = a test\n\n",  # followed by a blank line and the columns
    ):
        assert text in done.stdout
    result = json.loads(saeta("inspect", path, "--json").stdout)
    assert result["batch_rows"] == [20, 20, 20]
    assert result["metadata"] == {"made by": "a test"}
    by_name = {column["name"]: column for column in result["columns"]}
    assert by_name["int64"]["nulls"] == source["int64"].null_count
    assert by_name["dictionary"]["dictionary_values"] is not None
    assert by_name["int64"]["dictionary_values"] is None


def test_inspect_marks_unsupported_columns(tmp_path):
    table = pa.table({"a\0b": [[1], [2]], "plain": [1, 2]})
    with pa.ipc.new_file(tmp_path / "named.arrow", table.schema) as writer:
        writer.write_table(table)
    assert "can't be read: its name has a zero byte" in saeta("inspect", tmp_path / "named.arrow").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["inspect", "/no/such/file.arrow"], 3, "MissingFileError"),
        (["inspect", Path(__file__).parent], 3, "MissingFileError"),
        (["inspect", __file__], 3, "FormatError"),
        (["demo", "/no/such/file.arrow", "--device", "host"], 3, "MissingFileError"),
        (["demo", "--device", "cuda:99"], 5, "DeviceError"),
        (["demo", "--device", "gpu"], 2, "InvalidError"),
        (["demo", "--budget", "lots", "--device", "host"], 2, "InvalidError"),
        (["demo", "--budget", "1KiB", "--rows", "1000", "--device", "host"], 4, "BudgetExceeded"),
    ],
    ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, list) else "",
)
def test_errors_have_their_exit_code(arguments, code, kind):
    done = saeta(*arguments)
    assert done.returncode == code
    assert kind in done.stderr
    assert "Traceback" not in done.stderr
    printed = saeta(*arguments, "--json").stdout
    assert printed.startswith('{\n  "error": {\n')
    described = json.loads(printed)["error"]
    assert (described["type"], described["exit_code"]) == (kind, code)
    assert described["message"]
    if kind == "BudgetExceeded":
        assert described["numbers"]["limit"] == 1024


def test_an_error_is_one_line_however_narrow_the_terminal_is():
    done = saeta("inspect", "/no/such/folder/of/files/a.arrow", COLUMNS="30")
    assert "/no/such/folder/of/files/a.arrow" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["inspect"], ["demo", "--rows", "0"]], ids=" ".join
)
def test_the_exit_code_of_wrong_usage_is_2(arguments):
    assert saeta(*arguments).returncode == 2


def test_the_demo_checks_a_round_trip(tmp_path):
    done = saeta("demo", "--device", "host", "--rows", "300000", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    checks = steps_of(done)
    for name in (
        "the refusal carries its numbers",
        "nothing of it stays allocated",
        "one transfer for the table",
        "numpy: the same memory",
        "numpy: no copy at the hand-over",
        "the same memory",
        "no copy on the way back",
        "every value is the same",
        "the schema is the same",
        "no byte stays",
    ):
        assert checks[name]["passed"], checks[name]
    assert "budget" in report["memory"]
    assert {"file -> host", "host -> file", "memcpy, one thread"} <= {row["name"] for row in report["rates"]}
    assert {path.name for path in tmp_path.iterdir()} == {"lineitem.arrow", "lineitem-with-result.arrow"}
    written = pa.ipc.open_file(tmp_path / "lineitem-with-result.arrow").read_all()
    assert written.num_rows == 300_000
    assert "saeta_result" in written.column_names


def test_the_demo_names_a_folder_only_if_its_files_stay_there(tmp_path):
    for options, named in (((), False), (("--out", tmp_path / "kept"), True)):
        done = saeta("demo", "--device", "host", "--rows", "1000", *options)
        assert done.returncode == 0, done.stderr
        assert ("the files are in" in done.stdout) is named
    assert list((tmp_path / "kept").iterdir())


def test_the_demo_has_a_column_of_every_plain_type(tmp_path):
    done = saeta("demo", "--device", "host", "--rows", "1000", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    made = pa.ipc.open_file(tmp_path / "lineitem.arrow").read_all()
    kinds = {bare(column.type) for column in made.columns}
    plain = arrow_data.arrays(1).keys() - arrow_data.nested(1).keys()
    wanted = {bare(arrow_data.arrays(1)[name].type) for name in plain}
    assert wanted <= kinds
    assert any(column.null_count for column in made.columns)


def test_the_demo_is_the_same_for_the_same_seed(tmp_path):
    for folder, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert (
            saeta(
                "demo", "--device", "host", "--rows", "2000", "--seed", seed, "--out", tmp_path / folder
            ).returncode
            == 0
        )
    a, b, c = ((tmp_path / folder / "lineitem.arrow").read_bytes() for folder in "abc")
    assert a == b
    assert a != c


def test_the_demo_can_use_a_given_file(flights):
    done = saeta("demo", flights, "--device", "host")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checks passed" in done.stdout
    assert "✗" not in done.stdout
    for text in (
        "budget of host refused",
        "one transfer for the table",
        "sum of delay",
        "live bytes by tag",
        "GB/s",
    ):
        assert text in done.stdout


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"only text": ["a", "b"]}),
        pa.table({"a": pa.array([], pa.int64())}),
        pa.table({"holes": [1, None]}),
        pa.table([[1], [2]], names=["twice", "twice"]),
        pa.table({"small": pa.array([1, 2, 3], pa.int8())}),
        pa.table({"a": [1], "struct": pa.array([{"x": 1}])}),
        pa.table({"pairs": pa.array([[1, 2]], pa.list_(pa.int32(), 2))}),
        pa.table({**arrow_data.arrays(20), **arrow_data.nested(20)}),
    ],
    ids=["text", "no rows", "nulls", "names", "one column", "struct", "fixed-size list", "every type"],
)
def test_the_demo_can_use_unusual_files(tmp_path, source):
    path = tmp_path / "odd.arrow"
    with pa.ipc.new_file(path, source.schema) as writer:
        writer.write_table(source)
    done = saeta("demo", path, "--device", "host", "--json")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "table", [pa.table({"t": pa.array([], pa.string())}), pa.table({})], ids=["texts", "no columns"]
)
@pytest.mark.parametrize("batches", [0, 2])
def test_the_demo_can_use_an_empty_file(tmp_path, table, batches):
    path = tmp_path / "empty.arrow"
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    with pa.ipc.new_file(path, table.schema) as writer:
        for _ in range(batches):
            writer.write_batch(empty)
    done = saeta("demo", path, "--device", "host", "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_shows_every_library_that_is_installed():
    done = saeta("demo", "--rows", "1000", "--device", "host", "--json")
    checks = steps_of(done)
    installed = [name for name in ("pyarrow", "polars", "pandas", "duckdb", "jax") if find_spec(name)]
    assert [name for name in installed if not checks[f"{name} has every row"]["passed"]] == []


def test_info_omits_an_empty_table(monkeypatch, capsys):
    from saeta.cli import info

    monkeypatch.setattr(info, "info", lambda: sa.info() | {"missing": []})
    info.run(as_json=False)
    assert "why, and how to have it" not in capsys.readouterr().out


def test_info_fits_a_narrow_terminal():
    command = ["script", "-qec", f"{sys.executable} -m saeta info", "/dev/null"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "COLUMNS": "40", "TERM": "xterm"},
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.stdout.splitlines()]
    grids = lines[lines.index("devices") :]
    assert max(map(len, grids)) <= 40
    assert "architecture" in done.stdout, "headings must not be truncated"


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["--help"]], ids=" ".join)
def test_the_exit_code_of_a_broken_pipe_is_141_without_output(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "saeta", *arguments]
    try:
        done = subprocess.run(
            command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_exit_code_of_a_failed_check_is_1(tmp_path, monkeypatch):
    """Replaces the demo's comparison by one that always fails."""
    program = (
        "import saeta.demo.compare as compare; compare.same_values = lambda left, right: False;"
        "from saeta.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "demo", "--rows", "1000", "--device", "host"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "✗ every value is the same" in done.stdout
    assert "checks failed" in done.stdout


@pytest.mark.gpu
def test_the_demo_on_a_gpu(tmp_path):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    done = saeta("demo", "--device", "cuda", "--rows", "1000000", "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    checks = steps_of(done)
    assert checks["one transfer for the table"]["passed"]
    assert {"pinned host -> device", "device -> pinned host"} <= {
        row["name"] for row in json.loads(done.stdout)["rates"]
    }


def test_load_prints_the_rate_and_checks_the_values(tmp_path):
    import pyarrow.parquet as pq

    source = arrow_data.table(600)
    path = tmp_path / "types.arrow"
    with pa.ipc.new_file(path, source.schema) as writer:
        writer.write_table(source, max_chunksize=100)
    pq.write_table(pa.table({"a": range(1000)}), tmp_path / "a.parquet")
    done = saeta("load", path, tmp_path / "a.parquet", "--device", "host", "--check", "--rounds", 2)
    assert done.returncode == 0, done.stderr
    assert "2 files as pyarrow reads them" in done.stdout
    assert "GB/s" in done.stdout
    again = ("load", path, "--device", "host", "--columns", "int8,string", "--json")
    result = json.loads(saeta(*again, "--rounds", 3).stdout)
    assert result["device"] == "host"
    assert result["link_gb_per_s"] > 0
    (only,) = result["files"]
    assert (only["rows"], only["columns"], len(only["seconds"])) == (600, 2, 3)
    assert only["gb_per_s"] / result["link_gb_per_s"] == pytest.approx(only["share"])
    assert only["gb_per_s"] == pytest.approx(only["bytes"] / median(only["seconds"][1:]) / 1e9)
    assert "same" not in only
    assert result["memory"]["current"] >= only["bytes"]
    assert sum(result["memory"]["by_tag"].values()) == result["memory"]["current"]
    once = json.loads(saeta(*again).stdout)
    assert (once["link_gb_per_s"], once["files"][0]["share"]) == (None, None), "not compared with the link"
    assert "of a copy" not in saeta("load", path, "--device", "host").stdout


def test_with_json_a_usage_error_is_a_json_object():
    for arguments in (("load",), ("load", "a", "--rounds", 0), ("bench", "--no-such")):
        done = saeta(*arguments, "--json")
        assert done.returncode == 2
        assert json.loads(done.stdout)["error"]["exit_code"] == 2
        assert json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize("way", ["-", "/dev/stdin", "<("])
def test_a_stream_on_a_pipe_is_inspected_and_loaded(tmp_path, way):
    path = tmp_path / "a.arrows"
    table = arrow_data.table(60)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)

    def piped(command, *options):
        call = f"{sys.executable} -m saeta {command} {' '.join(options)}"
        line = f"{call} <(cat {path})" if way == "<(" else f"cat {path} | {call} {way}"
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=600, check=False)

    expected = sa.ipc.inspect(path)
    seen = json.loads(piped("inspect", "--json").stdout)
    assert (seen["batch_rows"], seen["bytes"]) == ([20, 20, 20], expected["bytes"])
    assert "60 rows in 3 batches" in piped("inspect").stdout
    loaded = piped("load", "--device", "host")
    assert loaded.returncode == 0, loaded.stderr
    (found,) = json.loads(piped("load", "--device", "host", "--json").stdout)["files"]
    assert (found["rows"], found["file_bytes"]) == (60, None)
    for once in ("--check", "--rounds 2"):
        refused = piped("load", "--device", "host", once)
        assert (refused.returncode, "can be read once" in refused.stderr) == (2, True), refused.stderr


def test_load_reads_the_files_of_a_folder_or_a_glob_as_one_table(tmp_path):
    import pyarrow.parquet as pq

    table = pa.table({"a": range(100)})
    for name in ("a", "b", "c"):
        sa.from_arrow(table, "host").write_ipc(tmp_path / f"{name}.arrow")
    (tmp_path / "parquet").mkdir()
    pq.write_table(table, tmp_path / "parquet" / "a.parquet")
    arguments = (tmp_path, tmp_path / "[bc].arrow", (tmp_path / "a.arrow").as_uri(), tmp_path / "parquet")
    done = saeta("load", *arguments, "--device", "host", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["files"]
    assert [(each["files"], each["rows"]) for each in found] == [(3, 300), (2, 200), (1, 100), (1, 100)]
    done = saeta("load", tmp_path, tmp_path / "parquet", "--device", "host", "--check")
    assert "4 files as pyarrow reads them" in done.stdout, done.stderr
    assert saeta("load", (tmp_path / "a.arrow").as_uri(), "--device", "host", "--check").returncode == 2
    assert saeta("load", tmp_path / "no*.arrow", "--device", "host").returncode == 3


def test_load_uses_the_common_exit_codes(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"a": range(100_000)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    done = saeta("load", tmp_path / "missing.arrow", "--device", "host")
    assert (done.returncode, done.stderr.startswith("MissingFileError")) == (3, True), done.stderr
    done = saeta("load", path, "--device", "host", "--budget", "4KiB", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["type"] == "BudgetExceeded"
    assert saeta("load", path, "--device", "host", "--columns", "x").returncode == 2


def test_load_check_detects_a_difference(tmp_path, capsys):
    from saeta.cli import load as command

    path = tmp_path / "a.arrow"
    table = pa.table({"a": [1, 2, 3]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    same = sa.from_arrow(table, "host")
    assert command._same([path], same, None)
    other = sa.from_arrow(pa.table({"a": [1, 2, 4]}), "host")
    assert not command._same([path], other, None)
    counts = dict.fromkeys(("file_bytes", "bytes", "rows", "columns", "batches", "gb_per_s", "share"), 1)
    for found, text in ((True, "✓ as pyarrow reads it"), (False, "✗ differs from what pyarrow reads")):
        command._show({"file": "a.arrow", "seconds": [1.0, 1.0], "same": found, **counts}, 1.0, "host")
        assert text in capsys.readouterr().out


@pytest.mark.parametrize("target", ["out.arrow", "out.arrows", "out.parquet"])
@pytest.mark.parametrize("origin", ["in.arrow", "in.arrows", "in.parquet", "in.csv"])
def test_convert_keeps_the_rows(tmp_path, origin, target):
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    table = pa.table({"a": range(1000), "s": [f"row {i}" for i in range(1000)]})
    path = tmp_path / origin
    if origin.endswith(".csv"):
        csv.write_csv(table, path)
    elif origin.endswith(".parquet"):
        pq.write_table(table, path)
    else:
        opened = pa.ipc.new_file if origin == "in.arrow" else pa.ipc.new_stream
        with opened(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    done = saeta("convert", path, tmp_path / target, "--batch-size", 300, "--compression", "zstd", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["rows"] == 1000
    if target.endswith(".parquet"):
        assert pq.read_table(tmp_path / target).equals(table)
        return
    summary = sa.ipc.inspect(tmp_path / target)
    assert summary["batch_rows"] == [300, 300, 300, 100]
    assert summary["compression"] == "zstd"
    assert summary["format"] == ("stream" if target == "out.arrows" else "file")
    assert sa.read_ipc(tmp_path / target, "host").to_arrow().equals(table)


@pytest.mark.parametrize("target", ["out.arrow", "out.arrows", "out.parquet"])
@pytest.mark.parametrize("origin", ["in.arrow", "in.arrows"])
def test_convert_goes_window_by_window(tmp_path, monkeypatch, origin, target):
    table = pa.table({"a": np.random.default_rng(1).integers(0, 9, 4_000_000)})
    opened = pa.ipc.new_file if origin == "in.arrow" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with opened(tmp_path / origin, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=50_000)
    monkeypatch.setenv("SAETA_BUDGET", "8MiB")  # the table has 32 MB
    done = saeta("convert", tmp_path / origin, tmp_path / target, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["rows"] == 4_000_000
    monkeypatch.undo()
    read = sa.read_parquet if target.endswith(".parquet") else sa.read_ipc
    assert read(tmp_path / target, "host").to_arrow().equals(table)


@pytest.mark.parametrize("target", ["out.arrow", "out.arrows"])
@pytest.mark.parametrize("origin", ["in.parquet", "in.arrows"])
def test_convert_joins_dictionaries_that_change(tmp_path, origin, target):
    import pyarrow.parquet as pq

    parts = [pa.table({"k": pa.array(values).dictionary_encode()}) for values in (["a", "b"], ["c", "a"])]
    path = tmp_path / origin
    if origin == "in.parquet":
        pq.write_table(pa.concat_tables(parts), path, row_group_size=2)
    else:
        with pa.ipc.new_stream(path, parts[0].schema) as writer:
            for part in parts:
                writer.write_table(part)
    done = saeta("convert", path, tmp_path / target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sa.read_ipc(tmp_path / target, "host")["k"].to_pylist() == ["a", "b", "c", "a"]


def test_convert_names_unsupported_conversions(tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    assert saeta("convert", tmp_path / "missing.arrow", tmp_path / "out.arrow").returncode == 3
    assert saeta("convert", tmp_path / "in.csv", tmp_path / "out.xyz").returncode == 2
    done = saeta("convert", tmp_path / "in.csv", tmp_path / "out.arrow", "--compression", "gzip")
    assert done.returncode == 2
    assert "gzip" in done.stderr
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing that follows PAR1")
    (tmp_path / "out.parquet").write_bytes(b"before")
    assert saeta("convert", tmp_path / "bad.parquet", tmp_path / "out.parquet").returncode == 3
    assert (tmp_path / "out.parquet").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet", "in.csv", "out.parquet"]
    assert (
        saeta("convert", tmp_path / "in.csv", tmp_path / "o", "--to", "file", "--columns", "b").returncode
        == 0
    )
    assert sa.read_ipc(tmp_path / "o", "host").column_names == ["b"]
