"""`saeta inspect PATH`: shows what a file, or each file of a folder, contains."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from saeta import ipc
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS, list_sources
from saeta._optional import load
from saeta._report import count_text, human_bytes
from saeta.cli.files import source_of
from saeta.cli.load import is_parquet
from saeta.cli.terminal import grid, say
from saeta.errors import FormatError

GLOB = "*?["


def run(file: Path, as_json: bool) -> None:
    if file.is_dir() or (not file.exists() and any(letter in str(file) for letter in GLOB)):
        _show_files(file, as_json)
        return
    summary = _summary(file)
    if as_json:
        summary["metadata"] = {_text(key): _text(value) for key, value in summary["metadata"].items()}
        print(json.dumps({"file": str(file), **summary}, indent=2))
        return
    batches = summary["batch_rows"]
    words = ("row group", "row groups") if summary["format"] == "parquet" else ("batch", "batches")
    kind = "Parquet" if summary["format"] == "parquet" else f"Arrow IPC {summary['format']}"
    say(f"{file}: {kind}, {human_bytes(summary['bytes'])}", "bold")
    say(f"metadata version {summary['metadata_version']}, compression {summary['compression']}")
    say(f"{count_text(sum(batches), 'row', 'rows')} in {count_text(len(batches), *words)}{_sizes(batches)}")
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
                _count(column["nulls"]),
                _count(column["dictionary_values"]),
                "" if column["supported"] else "can't be read: its name has a zero byte",
            )
            for column in summary["columns"]
        ],
        right=(3, 4),
    )


def _summary(file: Path) -> dict[str, Any]:
    if is_parquet(file):
        return _parquet(file)
    try:
        return ipc.inspect(source_of(file))
    except FormatError as failure:
        way = _way(file, str(failure))
        if way is None:
            raise
        raise FormatError(f"{file} {way}") from failure


def _way(file: Path, reason: str) -> str | None:
    """Says which command takes a file of another format; None for bytes that are of no known format."""
    if "CSV" in reason:
        target = file.with_suffix(".arrow")
        return f"looks like text, such as CSV: `saeta convert {file} {target}` makes an Arrow file"
    if "JSON" in reason:
        return "looks like JSON: saeta.table(pyarrow.json.read_json(path)) reads lines of JSON"
    if "Feather V1" in reason:
        return "is a Feather V1 file: pyarrow.feather reads it, and writes Arrow IPC as version 2"
    return None


def _parquet(file: Path) -> dict[str, Any]:
    """Describes a Parquet file as `saeta.ipc.inspect` does an Arrow file. Row groups stand for batches."""
    parquet: Any = load("pyarrow.parquet", "inspecting Parquet")
    try:
        metadata = parquet.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
    except load("pyarrow", "inspecting Parquet").ArrowException as failure:
        raise FormatError(f"{file}: {failure}") from failure
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    leaves = [group.column(number) for group in groups for number in range(group.num_columns)]
    codecs = sorted({leaf.compression.lower() for leaf in leaves})
    nulls: dict[str, int | None] = {}
    for leaf in leaves:
        counted = leaf.statistics.null_count if leaf.statistics and leaf.statistics.has_null_count else None
        before = nulls.get(leaf.path_in_schema, 0)
        nulls[leaf.path_in_schema] = None if before is None or counted is None else before + counted
    return {
        "format": "parquet",
        "metadata_version": metadata.format_version,
        "bytes": file.stat().st_size,
        "compression": ", ".join(codecs).replace("uncompressed", "none") or "none",
        "batch_rows": [group.num_rows for group in groups],
        "metadata": {key: value for key, value in (schema.metadata or {}).items() if key != b"ARROW:schema"},
        "columns": [
            {
                "name": field.name,
                "type": str(field.type),
                "nullable": field.nullable,
                "nulls": nulls.get(field.name),
                "dictionary_values": None,
                "supported": True,
            }
            for field in schema
        ],
    }


def _show_files(folder: Path, as_json: bool) -> None:
    listed = list_sources(os.fspath(folder), None, (*IPC_ENDINGS, *PARQUET_ENDINGS))
    files = [str(each.source) for each in listed]
    summaries = [{"file": name, **_summary(Path(name))} for name in files]
    if as_json:
        for summary in summaries:
            summary["metadata"] = {_text(key): _text(value) for key, value in summary["metadata"].items()}
        print(json.dumps({"files": summaries}, indent=2))
        return
    rows = sum(sum(summary["batch_rows"]) for summary in summaries)
    size = sum(summary["bytes"] for summary in summaries)
    say(
        f"{folder}: {count_text(len(files), 'file', 'files')}, {count_text(rows, 'row', 'rows')}, "
        f"{human_bytes(size)}",
        "bold",
    )
    say(", ".join(f"{column['name']}: {column['type']}" for column in summaries[0]["columns"]))
    say()
    grid(
        "",
        ["file", "format", "rows", "batches", "bytes", "compression"],
        [
            (
                os.path.relpath(summary["file"], folder) if folder.is_dir() else summary["file"],
                summary["format"],
                f"{sum(summary['batch_rows']):,}",
                f"{len(summary['batch_rows']):,}",
                human_bytes(summary["bytes"]),
                summary["compression"],
            )
            for summary in summaries
        ],
        right=(2, 3, 4),
    )


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


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
