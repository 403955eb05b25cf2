"""`saeta demo [FILE]`: runs a trip and shows its steps as they happen."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from saeta import _core
from saeta._optional import load
from saeta._report import human_bytes
from saeta._report.timeline import write as write_timeline
from saeta.cli.exits import Exit
from saeta.cli.terminal import grid, on_terminal, say, say_lines


def run(
    file: Path | None,
    *,
    rows: int,
    seed: int,
    device: str | None,
    budget: str | None,
    out: Path | None,
    timeline: Path | None,
    as_json: bool,
) -> None:
    load("numpy", "saeta demo")
    load("pyarrow", "saeta demo")
    from saeta.demo import report
    from saeta.demo.trip import Trip

    with _folder(out) as folder:
        ctx = _core.context(device, budget=budget)
        source = file or _make_file(folder / "lineitem.arrow", rows, seed, quiet=as_json)
        target = folder / f"{source.stem}-with-result.arrow"
        show_progress = on_terminal() and not as_json
        trip = Trip(ctx, source, target, budget=ctx.memory.limit if budget else None, progress=show_progress)
        steps = []
        with _record_memory(ctx, timeline) as done:
            for step in trip.run():
                steps.append(step)
                done(step.title)
                if not as_json:
                    _show(len(steps), step)
            done("plain copies, to compare")
        if as_json:
            print(json.dumps(report.as_dict(trip, steps), indent=2))
        else:
            _show_end(trip, report.rows(trip), out)
            if timeline is not None:
                say(f"the memory in use meanwhile is drawn in {timeline}")
    failed = [check.name for step in steps for check in step.checks if not check.passed]
    if failed:
        if not as_json:
            say(f"{len(failed)} checks failed: {', '.join(failed)}", "bold red")
        raise typer.Exit(int(Exit.CHECK_FAILED))
    if not as_json:
        say(f"all {sum(len(step.checks) for step in steps)} checks passed", "bold green")


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        yield out
    else:
        with tempfile.TemporaryDirectory(prefix="saeta-demo-") as folder:
            yield Path(folder)


@contextmanager
def _record_memory(ctx: _core.Context, page: Path | None) -> Iterator[Callable[[str], None]]:
    """Returns the function to call at the end of each step. The page is also written after a failure."""
    if page is None:
        yield lambda name: None
        return
    phases: list[tuple[str, int]] = []
    with ctx.memory.record() as recording:
        try:
            yield lambda name: phases.append((name, len(recording.records())))
        finally:
            title = f"Memory on {ctx.device} during the demo"
            write_timeline(page, recording.records(), title=title, phases=phases)


def _make_file(path: Path, rows: int, seed: int, *, quiet: bool) -> Path:
    from saeta.demo.lineitem import write_lineitem

    if quiet or not on_terminal():
        write_lineitem(path, rows, seed, lambda done: None)
        return path
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("making lineitem", total=rows)
        write_lineitem(path, rows, seed, lambda done: bar.update(task, completed=done))
    return path


def _show(number: int, step: Any) -> None:
    say(f"{number}. {step.title}", "bold")
    for fact in step.facts:
        say(f"   {fact}")
    for check in step.checks:
        say(
            f"   {'✓' if check.passed else '✗'} {check.name}: {check.detail}",
            "green" if check.passed else "red",
        )
    say()


def _show_end(trip: Any, rates: list[dict[str, Any]], out: Path | None) -> None:
    say("memory, before everything was let go", "bold")
    say_lines(trip.memory)
    say()
    grid(
        "rates (medians)",
        ["leg", "bytes", "seconds", "GB/s", "of a plain copy"],
        [
            (
                row["name"],
                human_bytes(row["bytes"]),
                f"{row['seconds']:.4f}",
                f"{row['gb_per_s']:.2f}",
                "" if row["share"] is None else f"{row['share']:.0%}",
            )
            for row in rates
        ],
        right=(1, 2, 3, 4),
    )
    if out is not None:
        say(f"the files are in {out}")
    say()
