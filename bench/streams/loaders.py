"""The groups of the training loader: over files, and over a table on the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import saeta as sa
from streams.measure import LINK, Bar, Contender, Rate
from streams.others import data_loaders, other_loaders, pyarrow_loaders
from streams.work import COLUMNS, ROW_BYTES, SMALL_ROWS, Work, drain, to_host

SEED = 1
FETCHED = 64  # bytes that a random read transfers from GPU memory
VALUE = 4
INDEX = 8
GATHER_BYTES = INDEX + len(COLUMNS) * (FETCHED + VALUE)
"""Bytes that the memory moves for a random row: an index, and a random read and a value for each column."""
GATHER = "the gather's limit: copy of the bytes that it moves"
COPY_BYTES = 1 << 30
VIEWS = 64
"""Views of a column that one torch call creates. More of them would not fit into the CPU caches."""


def from_files(work: Work) -> list[Contender]:
    """Compares the loader over a file, in order and shuffled, with other loaders."""
    return _on_host(work) if work.on_host else _on_device(work)


def _on_device(work: Work) -> list[Contender]:
    plain, mixed = pyarrow_loaders(work)
    of_torch = data_loaders(work)
    ordered, shuffled = other_loaders(work)
    bars = (Rate(0.85, (LINK,)), Rate(20, (plain.name,)), *(Rate(100, (each.name,)) for each in of_torch[:1]))
    made = [work.link, plain, mixed, *of_torch, *ordered, *shuffled]
    if work.array_name == "torch":
        made.append(_peer(work, "torch alone, views of one window", lambda: _views(work)))
    for shuffle in (False, "batches", "rows"):
        made += [_from_file(work, shuffle, matrix=matrix, bars=bars) for matrix in (False, True)]
    return made


def _on_host(work: Work) -> list[Contender]:
    """Compares matrices, too: batches of columns may be views here, but every loader copies matrices."""
    of_torch = data_loaders(work)
    made = [work.link, *of_torch]
    for matrix in (False, True):
        plain, mixed = pyarrow_loaders(work, matrix=matrix)
        ordered, shuffled = other_loaders(work, matrix=matrix)
        made += [plain, mixed, *ordered, *shuffled]
        for shuffle in (False, "batches", "rows"):
            like, others = (mixed, shuffled) if shuffle == "rows" else (plain, [*of_torch, *ordered])
            bars: list[Bar] = [Rate(1, (like.name,))]
            if others:
                bars.append(Rate(2, tuple(each.name for each in others), max))
            made.append(_from_file(work, shuffle, matrix=matrix, bars=tuple(bars)))
    return made


def from_table(work: Work) -> list[Contender]:
    """Compares the loader over a table on the device, with shuffled rows, with indexing each column."""
    table = sa.read_ipc(work.large, work.ctx, copy=True)
    arrays, name = work.arrays, work.array_name
    columns = {each: work.array(table[each]) for each in COLUMNS}
    matrix = arrays.stack(list(columns.values()), 1)
    made = [
        _peer(work, f"{name}, an index of each column", lambda: _indexed(work, columns)),
        _peer(work, f"{name}, an index of one row-major matrix", lambda: _indexed(work, {"x": matrix})),
    ]
    if name == "torch" and (tensordict := work.library("tensordict")) is not None:
        made.append(
            _peer(
                work,
                "tensordict",
                lambda: _indexed(work, {"x": tensordict.TensorDict(columns, batch_size=[work.rows])}),
            )
        )
    bars: tuple[Bar, ...] = ()
    if not work.on_host:
        made.append(_gather_limit(work))
        bars = (Rate(0.60, (GATHER,)),)
    name = "loader, table, rows shuffled"
    return made + [_loader(work, name, table, "rows", matrix=matrix, bars=bars) for matrix in (False, True)]


def _from_file(work: Work, shuffle: str | bool, *, matrix: bool, bars: tuple[Bar, ...]) -> Contender:
    order = f"{shuffle} shuffled" if shuffle else "in order"
    return _loader(work, f"loader, file, {order}", work.large, shuffle, matrix=matrix, bars=bars)


def _loader(
    work: Work,
    name: str,
    source: Path | sa.Table,
    shuffle: str | bool,
    *,
    matrix: bool,
    bars: tuple[Bar, ...],
) -> Contender:
    """A loader as a contender; each run is an epoch. Mini-batches are dicts of columns, or matrices."""

    @cache
    def loader() -> Any:
        return sa.loader(
            source,
            work.ctx,
            batch_size=SMALL_ROWS,
            shuffle=shuffle,
            window=work.window,
            seed=SEED,
            to=work.array_name,
            matrix=matrix,
        )

    def check() -> bool:
        ends = [_first_and_last_column(batch) for batch in loader()]
        first, last = (
            np.concatenate([to_host(each) for each in column]) for column in zip(*ends, strict=True)
        )
        if not np.array_equal(last, 1 - first):
            return False
        if shuffle is False:
            return bool(np.array_equal(first, work.first_column))
        return bool(np.array_equal(np.sort(first), work.sorted_first_column))

    form = "matrix" if matrix else "columns"
    return Contender(
        f"{name}, {form}", lambda: drain(loader()), work.bytes, work.rows, check=check, bars=bars
    )


def _first_and_last_column(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, dict):
        if len(batch) > 1:
            return batch[COLUMNS[0]], batch[COLUMNS[-1]]
        (batch,) = batch.values()
    return batch[:, 0], batch[:, -1]


def _peer(work: Work, name: str, batches: Any) -> Contender:
    return Contender(f"peer: {name}", lambda: drain(batches()), work.bytes, work.rows, ours=False)


def _indexed(work: Work, held: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the mini-batches of an epoch by indexing each array with random row numbers."""
    order = _permutation(work)
    for first in range(0, work.rows, SMALL_ROWS):
        rows = order[first : first + SMALL_ROWS]
        yield {name: each[rows] for name, each in held.items()}


def _views(work: Work) -> Iterator[dict[str, Any]]:
    """Yields as many mini-batches as an epoch has, all views of one allocated window: the cost of views."""
    torch = work.arrays
    window = torch.empty(len(COLUMNS), VIEWS * SMALL_ROWS, device="cuda")
    for first in range(0, work.rows // SMALL_ROWS, VIEWS):
        sizes = [SMALL_ROWS] * min(VIEWS, work.rows // SMALL_ROWS - first)
        columns = window[:, : sum(sizes)].unbind()
        for views in zip(*(torch.unsafe_split_with_sizes(each, sizes) for each in columns), strict=True):
            yield dict(zip(COLUMNS, views, strict=True))


def _permutation(work: Work) -> Any:
    if work.array_name == "torch":
        return work.arrays.randperm(work.rows, device="cuda")
    return work.arrays.random.permutation(work.rows)


def _gather_limit(work: Work) -> Contender:
    """A plain copy on the device, converted to rows by the bytes that a gather moves for each row."""
    arrays = work.arrays
    values = np.frombuffer(np.random.default_rng(SEED).bytes(COPY_BYTES), np.uint8)
    source, target = work.put(values), work.put(values)

    def copy() -> None:
        if work.array_name == "torch":
            target.copy_(source)
        else:
            arrays.copyto(target, source)

    rows = 2 * COPY_BYTES // GATHER_BYTES
    return Contender(GATHER, copy, rows * ROW_BYTES, rows, ours=False)
