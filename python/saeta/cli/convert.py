"""`saeta convert IN OUT`: converts between Arrow IPC, Parquet and CSV."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import saeta as sa
from saeta._files.data_sets import IPC_ENDINGS, PARQUET_ENDINGS
from saeta._files.sinks import format_of
from saeta._optional import load
from saeta._report import count_text, human_bytes
from saeta.cli.load import is_parquet
from saeta.cli.terminal import on_terminal, say
from saeta.errors import BudgetExceeded, FormatError, InvalidError

# The form of OUT by its suffix, if --to is not given.
FORMS = {
    **{suffix: format_of(suffix, None) for suffix in IPC_ENDINGS},
    **dict.fromkeys((*PARQUET_ENDINGS, ".pq"), "parquet"),
}
CSV = (".csv", ".tsv", ".txt")
PENDING = 128 << 20


def run(
    source: Path,
    target: Path,
    *,
    to: str | None,
    compression: str | None,
    batch_size: int | None,
    columns: str | None,
    as_json: bool,
    level: int | None = None,
) -> None:
    load("pyarrow", "saeta convert")
    form = to or FORMS.get(target.suffix.lower())
    if form not in ("file", "stream", "parquet"):
        raise InvalidError(
            f"the suffix of '{target}' is not one of {', '.join(FORMS)}: choose file, stream or parquet with "
            "--to"
        )
    start = time.perf_counter()
    try:
        batches = _open(source, None if columns is None else columns.split(","), batch_size)
        if form == "file" and _may_replace_dictionaries(batches):
            batches = sa.from_arrow(batches, "host")
        shown = on_terminal() and not as_json
        rows = _write(batches, target, form, (compression, level), batch_size, progress=shown)
    except load("pyarrow", "saeta convert").ArrowInvalid as failure:
        raise FormatError(f"{source}: {failure}") from failure
    done: dict[str, Any] = {
        "source": str(source),
        "target": str(target),
        "form": form,
        "rows": rows,
        "source_bytes": source.stat().st_size,
        "target_bytes": target.stat().st_size,
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        print(json.dumps(done, indent=2))
    else:
        say(
            f"{target}: {count_text(rows, 'row', 'rows')}, {human_bytes(done['target_bytes'])} "
            f"of {human_bytes(done['source_bytes'])}, in {done['seconds']:.2f} s"
        )


def _open(source: Path, columns: list[str] | None, batch_size: int | None) -> Any:
    """Opens a file of any supported form: as a Scan, or as a RecordBatchReader of pyarrow."""
    if source.suffix.lower() in CSV:
        csv: Any = load("pyarrow.csv", "reading CSV")
        parsing = csv.ParseOptions(delimiter="\t" if source.suffix.lower() == ".tsv" else ",")
        chosen = csv.ConvertOptions(include_columns=columns)
        return _rebatch(csv.open_csv(source, parse_options=parsing, convert_options=chosen), batch_size)
    if is_parquet(source):
        dataset = load("pyarrow.dataset", "reading Parquet")
        scanner = dataset.dataset(source, format="parquet").scanner(columns=columns)
        return _rebatch(scanner.to_reader(), batch_size)
    return sa.scan_ipc(source, "host", columns=columns, batch_size=batch_size)


def _may_replace_dictionaries(batches: Any) -> bool:
    """Whether batches may have different dictionaries, which a file can't have. A table joins them."""
    if isinstance(batches, sa.Scan) and batches.num_batches >= 0:
        return False  # of a file
    pa: Any = load("pyarrow", "saeta convert")

    def has_dictionary(of: Any) -> bool:
        return pa.types.is_dictionary(of) or any(
            has_dictionary(of.field(number).type) for number in range(of.num_fields)
        )

    return any(map(has_dictionary, pa.schema(batches.schema).types))


def _rebatch(reader: Any, rows: int | None) -> Any:
    """Regroups the rows into batches of `rows` rows."""
    if rows is None:
        return reader
    pa: Any = load("pyarrow", "saeta convert")

    def batches() -> Iterator[Any]:
        held: list[Any] = []
        count = 0
        for batch in reader:
            held.append(batch)
            count += batch.num_rows
            if count >= rows:
                whole = pa.Table.from_batches(held, reader.schema).combine_chunks()
                full = count // rows * rows
                yield from whole.slice(0, full).to_batches(rows)
                held = whole.slice(full).to_batches()
                count -= full
        if count:
            yield from pa.Table.from_batches(held, reader.schema).combine_chunks().to_batches(rows)

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _write(
    batches: Any,
    target: Path,
    form: str,
    codec: tuple[str | None, int | None],
    batch_size: int | None,
    *,
    progress: bool,
) -> int:
    compression, level = codec
    words: Any = {"compression_level": level, "progress": progress}
    if form == "parquet":
        words["compression"] = compression or "snappy"
        rows = 0
        with sa.parquet_writer(target, batches.schema, row_group_size=batch_size, **words) as writer:
            for batch in batches:
                writer.write(batch)
                rows += batch.num_rows
        return rows
    if compression not in (None, "none", "lz4", "zstd"):
        raise InvalidError(f"compression '{compression}': expected none, lz4 or zstd")
    words |= {"compression": None if compression == "none" else compression, "format": form}
    words["batch_size"] = batch_size
    if isinstance(batches, sa.Table):
        sa.write_ipc(batches, target, **words)
        return batches.num_rows
    rows = 0
    with sa.ipc_writer(target, batches.schema, pending=_pending(), **words) as writer:
        source = iter(batches)
        while (batch := _next(source, writer)) is not None:
            writer.write(batch)
            rows += batch.num_rows
            del batch  # its memory is free when it is written
    return rows


def _next(source: Iterator[Any], writer: sa.IpcWriter) -> Any:
    """Returns the next batch, None at the end. Where it has no room, what waits is written first."""
    try:
        return next(source, None)
    except BudgetExceeded:
        writer.flush()
        return next(source, None)


def _pending() -> int:
    """Returns the number of bytes that may wait to be written. The source needs most of the budget."""
    left = sa.context("host").memory.statistics()["remaining"]
    return PENDING if left is None else max(1, min(PENDING, left // 4))
