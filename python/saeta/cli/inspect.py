"""`saeta inspect FILE`: shows what a file contains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from saeta import ipc
from saeta._report import count_text, human_bytes
from saeta.cli.files import source_of
from saeta.cli.terminal import grid, say


def run(file: Path, as_json: bool) -> None:
    summary = ipc.inspect(source_of(file))
    if as_json:
        summary["metadata"] = {_text(key): _text(value) for key, value in summary["metadata"].items()}
        print(json.dumps({"file": str(file), **summary}, indent=2))
        return
    batches = summary["batch_rows"]
    say(f"{file}: Arrow IPC {summary['format']}, {human_bytes(summary['bytes'])}", "bold")
    say(f"metadata version {summary['metadata_version']}, compression {summary['compression']}")
    say(
        f"{count_text(sum(batches), 'row', 'rows')} in "
        f"{count_text(len(batches), 'batch', 'batches')}{_sizes(batches)}"
    )
    for key, value in summary["metadata"].items():
        say(f"  {_text(key)} = {_cut(_text(value))}")
    say()
    grid(
        "",
        ["column", "type", "nullable", "nulls", "dictionary values", ""],
        [
            (
                column["name"],
                column["type"],
                "yes" if column["nullable"] else "no",
                f"{column['nulls']:,}",
                "-" if column["dictionary_values"] is None else f"{column['dictionary_values']:,}",
                "" if column["supported"] else "can't be read: its name has a zero byte",
            )
            for column in summary["columns"]
        ],
        right=(3, 4),
    )


def _sizes(batches: list[int]) -> str:
    if len(batches) < 2:
        return ""
    return (
        f" of {min(batches):,} to {max(batches):,} rows"
        if min(batches) != max(batches)
        else f" of {batches[0]:,} rows"
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
