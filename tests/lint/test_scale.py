"""The scale model (bench/scale_model.py): its invariants, its accuracy against measured results, and its
page."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import scale_check
from scale_constants import LINKS, PIECE, PIECES, ROOT
from scale_model import GB, HIGH, LOW, Cluster, Estimate, Job, Link, estimate, heaviest, overridden, spilled
from summary import summary

from code_blocks import BLOCKS

GPU_LINKS = {name: each.link for name, each in LINKS.items()}
WORKER_LINKS = {
    "reading": Link("worker", 2 * GB, 1e-3),
    "writing": Link("worker", 1 * GB, 2e-3),
    "sharing": Link("worker", 1 * GB),
    "opening": Link("worker", 2 * GB),
    "spilling": Link("worker", 1 * GB),
    "returning": Link("worker", 2 * GB),
}
COUNTS = (1, 2, 3, 8, 100, 1000)


def gpu_cluster(workers: int, **named: Any) -> Cluster:
    return Cluster(workers, GPU_LINKS, **{"gpus": 8, "budget": 70 * GB, "host_memory": 1e12, **named})


def of_workers(workers: int, **named: Any) -> Cluster:
    return Cluster(workers, WORKER_LINKS, **{"per_host": workers, **named})


def loads_of(made: Estimate, stage: str) -> dict[str, float]:
    return {load.link: load.size for load in made.loads if load.stage == stage}


@pytest.mark.parametrize("size", [1 * GB, 100 * GB, 1e14])
@pytest.mark.parametrize("skew", [1.0, 1.5, 100.0])
def test_more_workers_are_never_slower_without_an_exchange(size, skew):
    job = Job(size, exchanged=0.0, written=0.5, skew=skew)
    for make in (gpu_cluster, of_workers):
        seconds = [estimate(make(count), job).seconds for count in (1, 2, 4, 8, 64, 1024)]
        assert seconds == sorted(seconds, reverse=True)


def test_weak_scaling_is_constant_without_shared_links():
    alone = {name: link for name, link in GPU_LINKS.items() if link.level != "cluster"}

    def seconds(count: int, links: dict[str, Link]) -> float:
        return estimate(Cluster(count, links, gpus=8), Job(640 * GB * count, exchanged=0.0)).seconds

    assert seconds(1000, alone) == pytest.approx(seconds(10, alone))
    assert seconds(1000, GPU_LINKS) > seconds(10, GPU_LINKS), "all workers share one scheduler"


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("per_host", [1, 4])
def test_bytes_are_conserved(workers, gpus, per_host):
    cluster = gpu_cluster(workers, gpus=gpus, per_host=per_host)
    job = Job(50 * GB * cluster.units, exchanged=0.5, written=0.25, skew=1.3)
    made = estimate(cluster, job)
    assert loads_of(made, "read")["pcie in"] == job.size
    assert loads_of(made, "write").get("storage write") == job.size * job.written
    exchanged = loads_of(made, "exchange")
    assert exchanged.get("pcie in", 0.0) == exchanged.get("pcie out", 0.0) == exchanged.get("network", 0.0)
    kept = job.size * job.exchanged / cluster.units  # the part of its data that each unit keeps
    assert exchanged.get("network", 0.0) + exchanged.get("peer", 0.0) + kept == pytest.approx(
        job.size * job.exchanged
    )


def test_reading_is_limited_by_planning_columns_or_by_small_pieces():
    def seconds(columns: int, batches: int) -> float:
        job = Job(8 * GB, columns=columns, batches=batches, exchanged=0.0)
        return estimate(gpu_cluster(1), job).stages["read"]

    assert seconds(16, 1) == seconds(1, 1), "reading from storage is the bottleneck"
    planning, piece = LINKS["planning"].link.message, LINKS["pcie in"].link.message
    assert seconds(1_000_000, 1) == pytest.approx(8_000_000 * planning), "8 parts of a worker"
    bytes_alone = GB / LINKS["pcie in"].link.rate
    assert seconds(16, 1_000_000) == pytest.approx(16_000_000 * piece + bytes_alone), "one part per GPU"


def test_spilled_bytes_return_unless_they_exceed_the_budget():
    for held in (10.0, 80.0, 90.0, 100.0, 101.0, 300.0):
        for passes in (0, 1, 3):
            left, came = spilled(held, 100.0, passes)
            assert 0 <= left - came <= held
            assert came <= passes * held
            if held > 100:
                assert left - came == pytest.approx(held - (LOW + HIGH) / 2 * 100)


def test_a_unit_spills_only_when_its_budget_is_less_than_it_holds():
    assert spilled(HIGH * 100, 100, 5) == (0.0, 0.0)
    assert spilled(1e12, math.inf, 5) == (0.0, 0.0)
    for budget in (200 * GB, 100 * GB, 50 * GB):
        made = estimate(gpu_cluster(4, budget=budget), Job(4 * 8 * 80 * GB, exchanged=0.0))
        assert (made.stages["spill"] > 0) == (HIGH * budget < 80 * GB), budget
    skewed = estimate(gpu_cluster(4, budget=100 * GB), Job(4 * 8 * 80 * GB, exchanged=0.0, skew=1.5))
    assert loads_of(skewed, "return")["pcie in"] == pytest.approx(1.5 * 80 * GB), "only the largest spills"


def test_less_budget_is_never_faster():
    seconds = [
        estimate(gpu_cluster(10, budget=budget * GB), Job(8e12, exchanged=0.0)).seconds
        for budget in range(200, 20, -5)
    ]
    assert seconds == sorted(seconds)


def test_spilled_bytes_that_exceed_host_memory_go_to_storage():
    job = Job(640 * GB, exchanged=0.0)
    roomy = estimate(gpu_cluster(1, host_memory=10_000 * GB), job)
    tight = estimate(gpu_cluster(1, host_memory=100 * GB), job)
    assert roomy.size("storage write", "spill") == 0
    assert 0 < tight.size("storage write", "spill") < tight.size("pcie out", "spill")
    assert tight.seconds > roomy.seconds


def test_skew_is_between_one_and_the_number_of_units():
    for units in (1, 2, 7, 800):
        for skew in (0.5, 1.0, 1.2, 5.0, 1e9):
            most = heaviest(100.0, units, 1, skew)
            assert 100 / units <= most <= 100.0 + 1e-9
            assert heaviest(100.0, units, units, skew) == pytest.approx(100.0), "all units hold all data"
    seconds = [
        estimate(gpu_cluster(10), Job(6400 * GB, exchanged=0.0, skew=skew)).seconds
        for skew in (1, 1.2, 2, 10)
    ]
    assert seconds == sorted(seconds)


def test_a_stage_takes_as_long_as_its_busiest_link_plus_the_workers_own_work():
    made = estimate(gpu_cluster(10), Job(640 * GB))
    for stage, seconds in made.stages.items():
        assert seconds == max((load.seconds for load in made.loads if load.stage == stage), default=0.0)
    made = estimate(of_workers(2), Job(2 * GB))
    own = [load.seconds for load in made.loads if load.stage == "exchange"]
    assert len(own) == 2
    assert made.stages["exchange"] == pytest.approx(sum(own))


def test_workers_of_a_host_share_its_cores():
    job = Job(8 * GB, exchanged=0.0)
    free = estimate(of_workers(4), job).seconds
    assert estimate(of_workers(4, parallel=2.0), job).seconds == pytest.approx(2 * free)
    assert estimate(of_workers(4, parallel=4.0), job).seconds == free
    uneven = dataclasses.replace(job, skew=3.0)
    alone = estimate(of_workers(4), uneven).seconds
    shared = estimate(of_workers(4, parallel=2.0), uneven).seconds
    assert alone < shared < 2 * alone, "the worker with the most data has all cores at the end"


def test_each_file_has_a_cost_besides_its_bytes():
    large = estimate(of_workers(1), Job(8 * GB, part=1 * GB, exchanged=0.0)).seconds
    small = estimate(of_workers(1), Job(8 * GB, part=GB / 1000, exchanged=0.0)).seconds
    assert small - large == pytest.approx((8000 - 8) * 1e-3)


def test_with_enough_tasks_the_central_scheduler_is_the_bottleneck():
    few = estimate(gpu_cluster(10), Job(6400 * GB, part=80 * GB))
    many = estimate(gpu_cluster(1000), Job(640_000 * GB, part=1 * GB))
    assert next(iter(few.busy())) == "storage"
    assert next(iter(many.busy())) == "scheduler"
    assert many.seconds == many.stages["schedule"] == pytest.approx(2 * 640_000 * 1e-3)
    assert estimate(gpu_cluster(1000), Job(640_000 * GB, tasks=0)).stages["schedule"] == 0


def test_a_rate_can_be_given_and_must_name_a_link():
    faster = overridden(GPU_LINKS, ["storage=80"])
    assert faster["storage"] == Link("host", 80 * GB)
    assert faster["network"] == GPU_LINKS["network"]
    with pytest.raises(SystemExit, match="no link 'disk'"):
        overridden(GPU_LINKS, ["disk=1"])


def test_every_rate_names_its_source_and_the_pages_agree():
    for name, each in LINKS.items():
        assert each.source, name
        assert each.kind != "measured" or "bench/results" not in each.source
    page = (ROOT / "docs/decisions/peer-copies.md").read_text(encoding="utf-8")
    assert f"copy {LINKS['peer'].link.rate / GB:.0f} GB/s in large copies" in page
    assert f"{PIECES / GB:.0f} in pieces of {PIECE >> 10} KiB" in page
    pool = (ROOT / "docs/decisions/host-pool.md").read_text(encoding="utf-8")
    assert f"| {scale_check.FRESH / GB:.1f} |" in pool


def test_on_one_gpu_the_model_is_within_15_percent():
    assert [row.what for row in scale_check.on_one_gpu() if not row.holds] == []


def test_results_of_two_gpus_are_compared_with_the_model(tmp_path):
    def line(name: str, rate: float) -> dict[str, Any]:
        return {"operation": name, "gb_per_s": float(rate)}

    peers = {
        "benchmark": "peers",
        "commit": "unknown",
        "results": [
            line("torch: one tensor, into memory that is there", 395),
            line("saeta: a read table", 380),
            line("torch: pinned memory to both GPUs", 100),
            line("torch: pinned memory to one GPU", 55),
            line("place: files onto both GPUs", 90),
            line("place by bytes: files onto both GPUs", 98),
            line("place: files onto one GPU", 52),
        ],
    }
    rows = {row.what: row for row in scale_check.on_two_gpus(summary(peers))}
    assert rows["place: files onto one GPU"].predicted == pytest.approx(55)
    assert rows["place: files onto both GPUs"].predicted == pytest.approx(100)
    assert all(row.holds for row in rows.values())
    path = tmp_path / "peers.json"
    path.write_text(json.dumps(peers), encoding="utf-8")
    done = run("scale_check.py", "recorded", "--peers", str(path))
    assert "place: files onto both GPUs" in done.stdout


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_program_prints_the_bytes_moved_and_the_bottleneck():
    done = run("scale_model.py", "--workers", "1000", "--gpus", "8", "--set", "network=25")
    assert done.returncode == 0, done.stderr
    assert "1,000 workers on 1,000 hosts, 8,000 units" in done.stdout
    assert "given: network 25 GB/s" in done.stdout
    assert "documented: scheduler" in done.stdout
    made = json.loads(
        run("scale_model.py", "--workers", "2", "--per-host", "2", "--gpus", "1", "--json").stdout
    )
    assert made["seconds"] >= made["stages"]["read"] > 0
    assert {load["link"] for load in made["loads"]} >= {"storage", "pcie in", "peer", "scheduler"}


def test_the_dask_scheduler_is_measured_if_installed():
    pytest.importorskip("distributed")
    done = run("scale_check.py", "scheduler", "--tasks", "20")
    assert done.returncode == 0, done.stderr
    assert re.search(r"distributed \S+: [\d.]+ ms for each of 20 tasks", done.stdout)


def test_the_commands_of_the_page_run():
    lines = [
        line.removeprefix("$ ")
        for block in BLOCKS
        if (block.page, block.language) == ("docs/scale.md", "console")
        for line in block.text.splitlines()
    ]
    assert len(lines) == 2
    for line in lines:
        _, program, *arguments = shlex.split(line)
        done = run(program.removeprefix("bench/"), *arguments)
        assert done.returncode == 0, done.stderr


def test_the_tables_of_the_page_are_the_output_of_the_program():
    page: Path = scale_check.PAGE
    text = page.read_text(encoding="utf-8")
    assert scale_check.with_tables(text) == text, "run bench/scale_check.py page"
