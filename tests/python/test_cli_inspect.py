"""`saeta inspect` of files that are not Arrow IPC, and of folders: what a stranger gives it first."""

from __future__ import annotations

import json

import pytest

import saeta as sa
from command import saeta

pytest.importorskip("typer")
pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected")
    table = sa.table({"fare": [1.5, None, 2.5], "city": ["a", "b", "c"]}, "host")
    table.write_ipc(folder / "trips.arrow")
    table.write_parquet(folder / "trips.parquet", row_group_size=2, compression="zstd")
    (folder / "trips.csv").write_text("fare,city\n1.5,a\n")
    (folder / "trips.json").write_text('{"fare": 1.5}\n')
    (folder / "noise.bin").write_bytes(bytes(range(1, 200)))
    (folder / "cut.parquet").write_bytes((folder / "trips.parquet").read_bytes()[:-20])
    (folder / "months" / "early").mkdir(parents=True)
    table.write_ipc(folder / "months" / "2.arrow", compression="lz4")
    table.write_parquet(folder / "months" / "early" / "1.parquet")
    (folder / "empty").mkdir()
    return folder


def test_a_parquet_file_is_shown(folder):
    done = saeta("inspect", folder / "trips.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "trips.parquet: Parquet, " in done.stdout
    assert "compression zstd" in done.stdout
    assert "3 rows in 2 row groups of 1 to 2 rows" in done.stdout
    assert [line.split() for line in done.stdout.splitlines()[-2:]] == [
        ["fare", "double", "yes", "1", "-"],
        ["city", "string", "yes", "0", "-"],
    ]
    shown = json.loads(saeta("inspect", folder / "trips.parquet", "--json").stdout)
    assert (shown["format"], shown["batch_rows"]) == ("parquet", [2, 1])
    assert [column["name"] for column in shown["columns"]] == ["fare", "city"]


def test_a_feather_file_is_shown(folder):
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(pa.table({"a": [1]}), folder / "trips.feather")
    assert "trips.feather: Arrow IPC file" in saeta("inspect", folder / "trips.feather").stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trips.csv", "looks like text, such as CSV: `saeta convert {0} {1}` makes an Arrow file"),
        ("trips.json", "looks like JSON: saeta.table(pyarrow.json.read_json(path))"),
        ("noise.bin", "not an Arrow file or stream"),
        ("cut.parquet", "cut.parquet: "),
    ],
)
def test_other_files_name_the_command_that_takes_them(folder, name, said):
    done = saeta("inspect", folder / name, COLUMNS="1000")
    assert (done.returncode, done.stdout) == (3, "")
    assert "FormatError" in done.stderr
    assert said.format(folder / name, (folder / name).with_suffix(".arrow")) in done.stderr


def test_the_command_that_is_named_works(folder):
    assert saeta("convert", folder / "trips.csv", folder / "empty.arrow").returncode == 0
    assert "1 row in 1 batch" in saeta("inspect", folder / "empty.arrow").stdout
    (folder / "empty.arrow").unlink()


@pytest.mark.parametrize("argument", ["months", "months/**"])
def test_a_folder_or_glob_shows_its_files(folder, argument):
    done = saeta("inspect", folder / argument)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 files, 6 rows, " in done.stdout
    assert "fare: double, city: string" in done.stdout
    lines = {tuple(line.split()) for line in done.stdout.splitlines()[-2:]}
    assert {(line[1], line[2], line[3], line[-1]) for line in lines} == {
        ("file", "3", "1", "lz4"),
        ("parquet", "3", "1", "snappy"),
    }
    shown = json.loads(saeta("inspect", folder / argument, "--json").stdout)
    assert [sum(file["batch_rows"]) for file in shown["files"]] == [3, 3]


def test_a_folder_without_files_says_which_endings_it_looked_for(folder):
    done = saeta("inspect", folder / "empty")
    assert done.returncode == 3
    assert "has no files that end in .arrow, .arrows, .feather, .ipc, .parquet" in done.stderr
