"""The command `saeta bench`: its measurements, tables and plots."""

from __future__ import annotations

import json
import os
import re

import pytest

import saeta as sa
from command import saeta

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_bench_measures_every_job_and_its_peers(tmp_path):
    out = tmp_path / "results.json"
    done = saeta(
        "bench", "--quick", "--device", "host", "--bytes", "1MiB", "--rounds", 1, "--out", out, "--json"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result == json.loads(done.stdout)
    assert (result["benchmark"], result["device"], result["rounds"]) == ("movement", "host", 1)
    assert sorted(result["limits"]) == ["1", "2"]
    own = [each for each in result["results"] if each["peer"] == "saeta"]
    jobs = {each["job"] for each in own}
    assert len(jobs) == 23
    assert {"write_ipc, durable", "write_ipc, not durable"} <= jobs
    assert len(own) == 2 * len(jobs), "each job runs with each number of threads"
    for each in own:
        assert each["gb_per_s"] == pytest.approx(each["bytes"] / each["seconds_p50"] / 1e9)
        assert (each["share"], each["reached"]) == (None, None), "too little data to compare with the limit"
    beside = {each["job"] for each in result["results"] if each["peer"] != "saeta" and "gb_per_s" in each}
    assert beside == jobs
    assert list(tmp_path.iterdir()) == [out], "temporary files must be removed"


def test_bench_shows_a_table_of_the_selected_jobs():
    done = saeta("bench", "--quick", "--device", "host", "--bytes", "1MiB", "--rounds", 1, "--only", "LZ4")
    assert done.returncode == 0, done.stderr
    assert "the same, LZ4" in done.stdout
    assert "numeric" not in done.stdout
    assert "pyarrow, to host memory" in done.stdout
    assert "of the limit" not in done.stdout
    assert "1 MiB and 1 round show that everything runs" in done.stdout
    heading, row = (
        next(line for line in done.stdout.splitlines() if text in line) for text in ("thr.", "LZ4")
    )
    number = re.search(r"\d+\.\d\d", row)
    assert number is not None
    assert number.end() == heading.index("thr.") + len("thr."), "numbers are right-aligned"
    assert saeta("bench", "--device", "host", "--threads", "0").returncode == 2
    assert saeta("bench", "--device", "host", "--bytes", "much").returncode == 2


def test_bench_compares_only_measured_jobs_with_the_limit():
    from saeta.bench import run

    result = {"bytes": 1 << 30, "limit_gb_per_s": 2.0, "bar": 0.9, "seconds_bar": None, "seconds": [1.0]}
    for settings, share, reached in (
        (run.quick("cuda:0"), None, None),
        (run.Settings("cuda:0", rounds=2), None, None),
        (run.Settings("host"), 0.54, None),
        (run.Settings("cuda:0", threads=(1, 8)), 0.54, None),
        (run.Settings("cuda:0"), 0.54, False),
    ):
        made = run._sum_up(dict(result), settings)
        assert made["share"] == (None if share is None else pytest.approx(share, abs=0.01))
        assert made["reached"] is reached


def test_bench_draws_a_plot(tmp_path):
    pytest.importorskip("matplotlib")
    from saeta.bench import plot

    own = {"job": "read_ipc", "peer": "saeta", "threads": 1, "share": 0.5, "bar": 0.9}
    results = {"device": "host", "shares": True, "results": [own, {**own, "peer": "NumPy", "bar": None}]}
    picture = tmp_path / "bench.png"
    plot.draw(results, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    done = saeta("bench", "--quick", "--device", "host", "--plot", picture)
    assert (done.returncode, "--rounds 3, or more" in done.stderr) == (2, True), done.stderr


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = saeta("bench", "--quick", "--device", "host", "--plot", "x.png", PYTHONPATH=path)
    assert done.returncode == 6
    assert "matplotlib" in done.stderr


def test_bench_detects_wrong_values():
    from saeta.bench import worker
    from saeta.bench.jobs import Job

    job = Job("wrong", 1, "in", {"saeta": lambda: 1}, lambda made: made == 2)
    asked = {"peers": True, "rounds": 1, "check": True, "threads": 1}
    with pytest.raises(SystemExit, match="wrong"):
        worker._measure(sa.context("host"), job, asked, {"in": 1.0})


def test_bench_measures_the_link_in_turns_with_the_jobs(capsys):
    from saeta.bench import worker
    from saeta.bench.jobs import Job

    turns = []

    class Link:
        def time(self):
            turns.append("link")
            return 2.0

        def rate(self, seconds):
            assert set(seconds) == {2.0}
            return 5.0

    job = Job(
        "some", 1, "in", {"saeta": lambda: turns.append("saeta"), "peer": lambda: turns.append("peer")}, bool
    )
    asked = {"peers": True, "rounds": 2, "check": False, "threads": 1}
    worker._measure(sa.context("host"), job, asked, {"in": 1.0}, Link())
    assert turns == ["link", "saeta", "peer", "peer", "saeta", "link", "link", "saeta", "peer"]
    found = [json.loads(line)["result"] for line in capsys.readouterr().out.splitlines()]
    assert [(each["peer"], len(each["seconds"]), each["limit_gb_per_s"]) for each in found] == [
        ("saeta", 2, 5.0),
        ("peer", 2, 5.0),
    ]
