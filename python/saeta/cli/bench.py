"""`saeta bench`: measures the rates of data movement on this machine, compared with other tools."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from saeta import _core
from saeta._optional import load
from saeta._report import count_text, human_bytes
from saeta.cli.terminal import grid, on_terminal, say
from saeta.errors import InvalidError


def run(
    *,
    device: str | None,
    size: str | None,
    threads: str | None,
    rounds: int | None,
    only: str | None,
    folder: Path | None,
    quick: bool,
    out: Path | None,
    plot: Path | None,
    commit: str,
    as_json: bool,
) -> None:
    load("numpy", "saeta bench")
    load("pyarrow", "saeta bench")
    if plot is not None:
        load("matplotlib", "the plot of saeta bench")
    from dataclasses import replace

    from saeta.bench import run as bench

    chosen = device or _core.devices()[0].name
    settings = bench.quick(chosen) if quick else bench.Settings(chosen)
    given: dict[str, Any] = {
        "bytes": None if size is None else _core._parse_bytes(size),
        "threads": None if threads is None else _numbers(threads),
        "rounds": rounds,
        "only": only,
        "folder": folder,
    }
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    if plot is not None and not settings.says_shares:
        raise InvalidError(f"a plot shows shares of the limits: {_advice()}")

    def tell(text: str) -> None:
        if on_terminal() and not as_json:
            print(text, file=sys.stderr)

    results = bench.run(settings, tell, command=shlex.join(["saeta", *sys.argv[1:]]), commit=commit)
    if out is not None:
        out.write_text(json.dumps(results, indent=2) + "\n")
    if plot is not None:
        from saeta.bench.plot import draw

        draw(results, plot)
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        _show(results, max(settings.threads))


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InvalidError(f"threads '{text}': expected numbers from 1 on, with commas between")
    return numbers


def _show(results: dict[str, Any], most: int) -> None:
    limits = results["limits"][str(most)]
    plain = "memcpy" if results["device"] == "host" else "a pinned copy"
    measured = f": {plain} {limits['in']:.1f} GB/s in, {limits['out']:.1f} out" if results["shares"] else ""
    say(f"{results['device']}{measured}", "bold")
    counts = sorted({result["threads"] for result in results["results"]})
    rows = []
    for job in dict.fromkeys(result["job"] for result in results["results"]):
        own = {
            result["threads"]: result
            for result in results["results"]
            if result["job"] == job and result["peer"] == "saeta"
        }
        last = own[most]
        rows.append(
            (
                job,
                *(f"{own[count]['gb_per_s']:.2f}" for count in counts),
                *([f"{last['share']:.0%}"] if results["shares"] else []),
                *([_bar(last)] if results["verdicts"] else []),
                "; ".join(_peer(result) for result in results["results"] if _beside(result, job, most)),
            )
        )
    headings = [
        "job, GB/s",
        *(f"{count} thr." for count in counts),
        *(["of the limit"] if results["shares"] else []),
        *(["to reach"] if results["verdicts"] else []),
        "what people use",
    ]
    grid("", headings, rows, right=range(1, len(headings) - 1))
    if not results["shares"]:
        size, rounds = human_bytes(results["bytes"]), count_text(results["rounds"], "round", "rounds")
        say(f"{size} and {rounds} show that everything runs, and no rates: {_advice()}")
    for why in results["missing"]:
        say(f"not measured: {why}")


def _advice() -> str:
    from saeta.bench.run import LEAST_BYTES, LEAST_ROUNDS

    return f"these need --bytes {LEAST_BYTES >> 20}MiB and --rounds {LEAST_ROUNDS}, or more"


def _beside(result: dict[str, Any], job: str, most: int) -> bool:
    return bool(result["job"] == job and result["peer"] != "saeta" and result["threads"] == most)


def _bar(result: dict[str, Any]) -> str:
    if result["reached"] is None:
        return ""
    wanted = f"{result['bar']:.0%}" if result["bar"] is not None else f"{result['seconds_bar'] * 1e3:.0f} ms"
    return f"{wanted} {'✓' if result['reached'] else '✗'}"


def _peer(result: dict[str, Any]) -> str:
    return f"{result['peer']} " + (f"{result['gb_per_s']:.2f}" if "gb_per_s" in result else "failed")
