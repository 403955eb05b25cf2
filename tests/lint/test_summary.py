"""The tables of bench/results, and the program that adds result files to them (bench/summary.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import summary

RESULT = {
    "benchmark": "peers",
    "commit": "0123abcd",
    "device": "cuda:0",
    "columns": 8,
    "rounds": 3,
    "results": [
        {"operation": "a copy", "threads": 4, "bytes": 100, "seconds": [3.0, 1.0, 2.0], "gb_per_s": 0.5},
        {"operation": "a table", "milliseconds": {"saeta": {"median": 2.5}}},
    ],
}


def run(*arguments: object) -> str:
    command = [sys.executable, str(Path(summary.__file__)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_each_number_becomes_a_line_and_samples_their_median():
    lines = summary.summary(RESULT)
    copy = ("peers", "columns 8; a copy; threads 4")
    assert {key: (line.unit, line.value) for key, line in lines.items()} == {
        (*copy, "time"): ("s", "2"),
        (*copy, "time, 10th percentile"): ("s", "0.4"),
        (*copy, "rate"): ("GB/s", "0.5"),
        ("peers", "columns 8; a table; saeta", "time"): ("ms", "2.5"),
    }
    assert {line.commit for line in lines.values()} == {"0123abcd"}


def test_a_result_updates_the_existing_lines_of_a_table(tmp_path):
    result, table = tmp_path / "result.json", tmp_path / "table.csv"
    result.write_text(json.dumps(RESULT), encoding="utf-8")
    header = "benchmark,commit,case,quantity,unit,value\n"
    kept = "peers,old,something else,rate,GB/s,7\n"
    table.write_text(
        f"{header}peers,old,columns 8; a copy; threads 4,rate,GB/s,0.25\n{kept}", encoding="utf-8"
    )
    assert run(result, "--into", table) == "1 of 2 lines renewed\n"
    renewed = "peers,0123abcd,columns 8; a copy; threads 4,rate,GB/s,0.5\n"
    assert table.read_text(encoding="utf-8") == header + renewed + kept
    assert run(result).startswith(header)
    assert renewed in run(result)


def test_the_tables_have_unique_lines_and_stay_small():
    paths = sorted(summary.TABLES.iterdir())
    assert {path.suffix for path in paths} == {".csv"}
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert sum(text.count("\n") for text in texts) < 500
    for path, text in zip(paths, texts, strict=True):
        lines = summary.read(path)
        assert len(lines) == text.count("\n") - 1, path
