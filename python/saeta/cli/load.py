"""`saeta load FILE...`: loads files onto the device. Shows the rate and the memory.

Each argument becomes one table: a file, or all files of a glob or a folder. The first load of a file may wait
for a disk and allocates the staging ring, so only later rounds are compared with the link.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import typer

import saeta as sa
from saeta import _core
from saeta._files.data_sets import PARQUET_ENDINGS, Listed
from saeta._optional import load
from saeta._report import count_text, human_bytes
from saeta.cli.exits import Exit
from saeta.cli.files import files_of, is_local, is_read_once, source_of
from saeta.cli.terminal import grid, on_terminal, say, say_lines

YARDSTICK_BYTES = 256 << 20
PARQUET = b"PAR1"


def run(
    files: Sequence[str],
    *,
    device: str | None,
    budget: str | None,
    columns: str | None,
    rounds: int,
    check: bool,
    as_json: bool,
) -> None:
    if rounds > 1 or check:
        for path in filter(is_read_once, files):
            raise sa.errors.InvalidError(
                f"'{path}' can be read once: save it to a file for --rounds and --check"
            )
    ctx = _core.context(device, budget=budget)
    names = None if columns is None else columns.split(",")
    limit = _link(ctx) if rounds > 1 else None
    loaded = []
    kept = []
    for argument in files:
        parts = files_of(argument)
        if check and not all(map(is_local, parts)):
            raise sa.errors.InvalidError(f"'{argument}': --check compares files of this machine")
        table, seconds = _load(argument, parts, ctx, names, rounds, quiet=as_json)
        rate = table.nbytes / median(seconds[1:] or seconds) / 1e9
        found: dict[str, Any] = {
            "file": argument,
            "files": len(parts),
            "file_bytes": _bytes_of(parts),
            "bytes": table.nbytes,
            "rows": table.num_rows,
            "columns": table.num_columns,
            "batches": table.num_batches,
            "seconds": seconds,
            "gb_per_s": rate,
            "share": None if limit is None else rate / limit,
        }
        if check:
            found["same"] = _same([Path(part.source) for part in parts], table, names)
        loaded.append(found)
        kept.append(table)
        if not as_json:
            _show(found, limit, ctx.device)
    if as_json:
        memory = {**ctx.memory.statistics(), "by_tag": ctx.memory.by_tag()}
        made = {"device": ctx.device, "link_gb_per_s": limit, "files": loaded, "memory": memory}
        print(json.dumps(made, indent=2))
    else:
        say("memory", "bold")
        say_lines(ctx.memory.report())
    wrong = [found["file"] for found in loaded if not found.get("same", True)]
    if wrong:
        if not as_json:
            say(f"differs from what pyarrow reads: {', '.join(wrong)}", "bold red")
        raise typer.Exit(int(Exit.CHECK_FAILED))
    if check and not as_json:
        number = sum(found["files"] for found in loaded)
        say(f"{count_text(number, 'file', 'files')} as pyarrow reads them", "bold green")


def _link(ctx: sa.Context) -> float:
    """Measures one plain copy in GB/s: page-locked memory to the device, or memory to memory on the host."""
    kind = "memcpy" if ctx.device == "host" else "host_to_device"
    copies = _core._PlainCopies(ctx, YARDSTICK_BYTES, kind)
    return YARDSTICK_BYTES / median(copies.time() for _ in range(3)) / 1e9


def _bytes_of(parts: list[Listed]) -> int | None:
    return sum(Path(part.source).stat().st_size for part in parts) if all(map(is_local, parts)) else None


def _load(
    argument: str,
    parts: list[Listed],
    ctx: sa.Context,
    names: list[str] | None,
    rounds: int,
    *,
    quiet: bool,
) -> tuple[sa.Table, list[float]]:
    """Loads the files `rounds` times. Returns the last table and the seconds of each round.

    A table is released before the next one is loaded.
    """
    seconds = []
    first = parts[0]
    parquet = (
        is_parquet(Path(first.source)) if is_local(first) else str(first.source).endswith(PARQUET_ENDINGS)
    )
    for _ in range(rounds):
        table = None
        start = time.perf_counter()
        if parquet:
            table = sa.read_parquet(argument, ctx, columns=names)
        else:
            # Copies on the host too, because a view loads nothing.
            shown = on_terminal() and not quiet
            table = sa.read_ipc(source_of(argument), ctx, columns=names, copy=True, progress=shown)
        ctx.synchronize()
        seconds.append(time.perf_counter() - start)
    assert table is not None
    return table, seconds


def is_parquet(path: Path) -> bool:
    if is_read_once(path) or not path.exists():  # the reader reports missing files
        return False
    with path.open("rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def _same(paths: list[Path], table: sa.Table, names: list[str] | None) -> bool:
    pyarrow = load("pyarrow", "saeta load --check")
    from saeta.demo.compare import read, same_values

    if is_parquet(paths[0]):
        expected = load("pyarrow.dataset", "saeta load --check").dataset(paths).to_table(names)
    else:
        expected = pyarrow.concat_tables(read(path, sa.ipc.inspect(path)["format"]) for path in paths)
        expected = expected if names is None else expected.select(names)
    seen = table.to_arrow()
    return bool(
        seen.schema.equals(expected.schema)
        and seen.num_rows == expected.num_rows
        and all(map(same_values, seen.columns, expected.columns))
    )


def _show(found: dict[str, Any], limit: float | None, device: str) -> None:
    plain = "a copy in memory" if device == "host" else "the link"
    say(f"{found['file']} on {device}", "bold")
    first, *later = found["seconds"]
    shown = {
        "rows": f"{found['rows']:,}",
        "columns": found["columns"],
        "batches": f"{found['batches']:,}",
        "values": human_bytes(found["bytes"]),
        "file": "-" if found["file_bytes"] is None else human_bytes(found["file_bytes"]),
        "first, s": f"{first:.4f}",
    }
    if limit is not None:
        shown["again, s"] = f"{median(later):.4f}"
    shown["GB/s"] = f"{found['gb_per_s']:.2f}"
    if limit is not None:
        shown[f"of {plain} ({limit:.1f})"] = f"{found['share']:.0%}"
    grid("", list(shown), [list(shown.values())], right=range(len(shown)))
    if "same" in found:
        say(
            "✓ as pyarrow reads it" if found["same"] else "✗ differs from what pyarrow reads",
            "green" if found["same"] else "red",
        )
    say()
