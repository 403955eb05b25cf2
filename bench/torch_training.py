#!/usr/bin/env python3
"""Times training steps of torch under a hard memory budget, with torch's own allocator and with Saeta's.

    torch_training.py [--steps N] [--rounds N] [--budget BYTES] [--out FILE.json] [--commit HASH]

A step is the forward pass, the backward pass and the optimizer of a transformer encoder, launched one kernel
after the other (eager) or replayed as one CUDA graph. torch's allocator can be chosen only once in a process,
so each case runs in its own process; in each round all cases run one after the other. Times are measured on
the device between two events: the mean time of a step over a round, after a warm-up. The program also counts
allocation requests to the context: during the timed steps, and during the capture.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rates import add_result_arguments, write_result

import saeta as sa

WARM_UP = 5  # steps before the timed ones
BATCH, LENGTH, WIDTH, LAYERS = 32, 256, 512, 6
ALLOCATORS = ("torch", "saeta")
LAUNCHES = ("eager", "graph")


@dataclass
class Requests:
    """Counts allocation requests to the context; always 0 with torch's own allocator."""

    ctx: Any

    def count(self) -> int:
        return 0 if self.ctx is None else self.ctx.memory.statistics()["requests"]

    def graph_bytes(self) -> int:
        return 0 if self.ctx is None else self.ctx.memory.by_tag().get("torch.graph_pool", 0)


def under_budget(torch: Any, budget: int) -> Any:
    """Creates a context and makes torch allocate from it."""
    ctx = sa.context("cuda", budget=budget)
    torch.cuda.memory.change_current_allocator(sa.allocators.torch_allocator(ctx))
    return ctx


def make_step(torch: Any, capturable: bool) -> Callable[[], Any]:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, capturable=capturable)
    batch = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def as_graph(torch: Any, step: Callable[[], Any]) -> Callable[[], Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Any:
        graph.replay()
        return loss

    return replay


def time_steps(torch: Any, step: Callable[[], Any], steps: int) -> float:
    """Returns milliseconds per step."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(steps):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


def measure(allocator: str, launch: str, steps: int, budget: int) -> dict[str, Any]:
    """Measures one round of one case. Runs in its own process."""
    import torch

    requests = Requests(under_budget(torch, budget) if allocator == "saeta" else None)
    step = make_step(torch, capturable=launch == "graph")
    before_capture = requests.count()
    if launch == "graph":
        step = as_graph(torch, step)
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    before = requests.count()
    milliseconds = time_steps(torch, step, steps)
    return {
        "ms": milliseconds,
        "requests": requests.count() - before,
        "capture_requests": before - before_capture if launch == "graph" else 0,
        "graph_pool_bytes": requests.graph_bytes(),
        "loss": float(step().detach()),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


def in_fresh_process(options: argparse.Namespace, allocator: str, launch: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", allocator, launch]
    command += ["--steps", str(options.steps), "--budget", str(options.budget)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_all(options: argparse.Namespace) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Runs all cases in each round. Returns the versions, and a result for each case."""
    cases = [(allocator, launch) for launch in LAUNCHES for allocator in ALLOCATORS]
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            rounds[case].append(in_fresh_process(options, *case))
    last = rounds[cases[0]][-1]
    versions = {"torch": last["torch"], "device": last["device"], "python": platform.python_version()}
    lines = []
    for (allocator, launch), found in rounds.items():
        times = [each["ms"] for each in found]
        counts = {
            name: found[-1][name] for name in ("requests", "capture_requests", "graph_pool_bytes", "loss")
        }
        line = {"allocator": allocator, "launch": launch, "steps": options.steps}
        line |= {"ms": statistics.median(times), "least_ms": min(times), "most_ms": max(times)} | counts
        lines.append(line)
    return versions, lines


def reason_against() -> str | None:
    """Returns why this machine can't run the benchmark, or None."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return None if sa.info()["cuda"]["usable"] else "no usable CUDA device"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="A training step of torch: its own allocator beside Saeta's."
    )
    parser.add_argument("--steps", type=int, default=50, help="timed, by round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=16 << 30, metavar="BYTES")
    add_result_arguments(parser)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.case is not None:
        print(json.dumps(measure(*options.case, options.steps, options.budget)))
        return 0
    if (reason := reason_against()) is not None:
        print(f"not measured: {reason}")
        return 0
    versions, lines = measure_all(options)
    print(
        f"torch_training on {versions['device']}, torch {versions['torch']}, "
        f"median of {options.rounds} rounds"
    )
    print(
        f"{'launch':8}{'allocator':11}{'ms a step':>10}{'least':>9}{'most':>9}"
        f"{'requests':>10}{'in capture':>12}"
    )
    for line in lines:
        print(
            f"{line['launch']:8}{line['allocator']:11}{line['ms']:10.3f}{line['least_ms']:9.3f}"
            f"{line['most_ms']:9.3f}{line['requests']:10}{line['capture_requests']:12}"
        )
    write_result(
        options.out,
        "torch_training",
        options.commit,
        versions=versions,
        budget_bytes=options.budget,
        rounds=options.rounds,
        results=lines,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
