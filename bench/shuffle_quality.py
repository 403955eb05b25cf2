#!/usr/bin/env python3
"""Measures how well a loader mixes the rows of a file.

    shuffle_quality.py [--mib N] [--window TEXT] [--batch N,...] [--folder F]
                       [--out FILE.json] [--commit TEXT]

The files have rows of 64 bytes with their own number, in batches of 65,536 rows (4 MiB), in one batch, and in
batches of 1024 rows. The program prints for each file and way of shuffling:

- distance: the mean distance of two rows that follow each other, relative to that of a random order, which is
  a third of the rows;
- batch distance: the same for the first rows of batches that follow each other;
- places: the median number of places that the rows of a batch come from. A place is a thousandth of the file;
- the share of batches that have rows of at least 4, 8 and 16 places;
- partners: of the rows of one batch, the mean number of other rows among them that are at most 64 rows away
  in the file. Few are better.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rates import add_result_arguments, write_result

import saeta as sa

ROW_BYTES = 64
PLACES = 1000
NEAR = 64
FILES = {"64Ki rows": 1 << 16, "one batch": None, "1Ki rows": 1 << 10}


def write(path: Path, rows: int, of_batch: int | None) -> None:
    number = np.arange(rows)
    rest = {f"x{each}": number.astype(np.float64) for each in range(ROW_BYTES // 8 - 1)}
    table = pa.table({"row": number, **rest})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=of_batch)


def measure(path: Path, rows: int, options: dict[str, Any]) -> dict[str, Any]:
    with sa.loader(path, "host", to="numpy", **options) as loader:
        batches = [np.array(batch["row"]) for batch in loader]
    order = np.concatenate(batches)
    assert np.array_equal(np.sort(order), np.arange(rows))
    firsts = np.array([batch[0] for batch in batches])
    places = np.array([len(np.unique(batch * PLACES // rows)) for batch in batches])
    near = []
    for batch in batches:
        ordered = np.sort(batch)
        ends = np.searchsorted(ordered, ordered + NEAR, "right") - np.searchsorted(ordered, ordered - NEAR)
        near.append(float(np.mean(ends - 1)))
    return {
        "distance": float(np.mean(np.abs(np.diff(order)))) / (rows / 3),
        "batch_distance": float(np.mean(np.abs(np.diff(firsts)))) / (rows / 3),
        "places": float(np.median(places)),
        **{f"share_{least}": float(np.mean(places >= least)) for least in (4, 8, 16)},
        "partners": float(np.mean(near)),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--mib", type=int, default=1024)
    arguments.add_argument("--window", default="64MiB")
    arguments.add_argument(
        "--batch", type=lambda text: [int(part) for part in text.split(",")], default=[1024]
    )
    arguments.add_argument("--folder", type=Path)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    rows = (given.mib << 20) // ROW_BYTES
    results = []
    print("file        shuffle  batch  distance  of batches  places   >=4   >=8  >=16  partners")
    with tempfile.TemporaryDirectory(prefix="saeta-shuffle-", dir=given.folder) as folder:
        for name, of_batch in FILES.items():
            path = Path(folder) / "rows.arrow"
            write(path, rows, of_batch)
            for shuffle in ("rows", "batches"):
                for batch in given.batch:
                    options = {"batch_size": batch, "shuffle": shuffle, "window": given.window, "seed": 3}
                    found = measure(path, rows, options)
                    results.append({"file": name, "shuffle": shuffle, "batch": batch, **found})
                    shares = "".join(f"{found[f'share_{least}']:6.0%}" for least in (4, 8, 16))
                    print(
                        f"{name:12}{shuffle:9}{batch:5}{found['distance']:10.3f}{found['batch_distance']:12.3f}"
                        f"{found['places']:8.0f}{shares}{found['partners']:10.2f}",
                        flush=True,
                    )
    write_result(given.out, "shuffle_quality", given.commit, rows=rows, results=results)


if __name__ == "__main__":
    main()
