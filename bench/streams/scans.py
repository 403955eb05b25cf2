"""The groups of reads and scans: whole reads, scans in windows, and scans whose results are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import saeta as sa
from saeta.bench import peers
from streams.measure import LINK, Bar, Contender, Peak, Rate
from streams.work import CODECS, LARGE_ROWS, SMALL_ROWS, Work, drain

WINDOWS = 4
"""The windows of memory that a scan may take."""


def reads(work: Work) -> list[Contender]:
    """Whole reads and scans of uncompressed files."""
    return [
        work.link,
        _read(work, "read_ipc, batches of 64Ki", work.large),
        _scan(work, "scan_ipc, batches of 64Ki", work.large, 0.92),
        _read(work, "read_ipc, batches of 8Ki", work.small, 0.88),
        _scan(work, "scan_ipc, batches of 8Ki", work.small, 0.85),
        _scan(work, "scan_ipc, 64Ki, as batches of 8,192 rows", work.large, 0.85, batch_size=SMALL_ROWS),
        _read(work, "read_ipc, strings, nulls and others, checked", work.mixed(), 0.90),
        *(_peers_on_host(work) if work.on_host else _peers_on_gpu(work)),
    ]


def codecs(work: Work) -> list[Contender]:
    """Whole reads and scans of compressed files."""
    found = [work.link]
    for codec in CODECS:
        path, name = work.mixed(codec), codec.upper()
        whole = _read(work, f"read_ipc, {name}", path)
        found += [whole, _scan(work, f"scan_ipc, {name}", path, bars=(Rate(1, (whole.name,)),))]
        found.append(_peer(f"pyarrow, to host memory, {name}", partial(peers.read, path), whole))
    return found


def pipeline(work: Work) -> list[Contender]:
    """A scan with a kernel for each batch, a writer alone, and a scan whose results go to a writer."""
    target = work.folder / "written.arrow"

    def computed() -> Iterator[sa.Table]:
        with sa.scan_ipc(work.large, work.ctx, window=work.window, copy=True) as scan:
            for batch in scan:
                names = batch.column_names
                yield sa.table({name: work.array(batch[name]) * 2 + 1 for name in names}, work.ctx)

    def write(tables: Any) -> None:
        with sa.ipc_writer(target) as writer:
            for table in tables:
                writer.write(table)

    def remove() -> None:
        target.unlink(missing_ok=True)

    def check() -> bool:
        write(computed())
        written = peers.read(target)["c0"].to_numpy()
        return bool(np.array_equal(written, work.first_column * np.float32(2) + np.float32(1)))

    held = list(computed())
    scanned, alone = "scan + kernel", "writer"

    def contender(name: str, run: Callable[[], Any], **options: Any) -> Contender:
        return Contender(name, run, work.bytes, work.rows, before=remove, **options)

    return [
        work.link,
        contender(scanned, lambda: drain(computed())),
        contender(alone, lambda: write(held)),
        contender(
            "scan + kernel + writer",
            lambda: write(computed()),
            check=check,
            bars=(Rate(0.90, (scanned, alone)),),
        ),
    ]


def _read(work: Work, name: str, path: Path, bar: float | None = None) -> Contender:
    expected = peers.read(path)
    bars = () if bar is None or work.on_host else (Rate(bar, (LINK,)),)

    def run() -> sa.Table:
        return sa.read_ipc(path, work.ctx, copy=True)

    return Contender(
        name,
        run,
        expected.nbytes,
        expected.num_rows,
        check=lambda: bool(run().to_arrow().equals(peers.read(path))),
        bars=bars,
    )


def _scan(
    work: Work,
    name: str,
    path: Path,
    share: float | None = None,
    *,
    bars: tuple[Bar, ...] = (),
    batch_rows: int | None = None,
) -> Contender:
    expected = peers.read(path)

    def scan() -> sa.Scan:
        return sa.scan_ipc(path, work.ctx, window=work.window, batch_size=batch_rows, copy=True)

    def run() -> None:
        with scan() as batches:
            drain(batches)

    def check() -> bool:
        with scan() as batches:
            made = pa.Table.from_batches(
                batch for table in batches for batch in table.to_arrow().to_batches()
            )
        return bool(made.equals(peers.read(path)))

    if share is not None and not work.on_host:
        bars = (Rate(share, (LINK,)), *bars)
    if share is not None and work.on_host:
        bars = (Rate(1, ("peer: pyarrow, read batch by batch",)), *bars)
    return Contender(
        name,
        run,
        expected.nbytes,
        expected.num_rows,
        check=check,
        bars=(*bars, Peak(WINDOWS, work.window)),
    )


def _peer(name: str, run: Callable[[], Any], like: Contender) -> Contender:
    return Contender(f"peer: {name}", run, like.bytes, like.rows, ours=False)


def _peers_on_gpu(work: Work) -> Iterator[Contender]:
    def load(peer: peers.Peer, path: Path) -> None:
        for batch in peers.batches(path):
            peer.load(pa.Table.from_batches([batch]))

    for peer in work.device_peers:
        for label, path in (("64Ki", work.large), ("8Ki", work.small)):
            name = f"peer: pyarrow + {peer.name}, {label}, batch by batch"
            yield Contender(name, partial(load, peer, path), work.bytes, work.rows, ours=False)


def _peers_on_host(work: Work) -> Iterator[Contender]:
    """Contenders on the host: views of the memory-mapped file, and pyarrow's reads."""

    def views() -> None:
        with sa.scan_ipc(work.large, work.ctx) as scan:
            drain(scan)

    def read() -> None:
        reader = pa.ipc.open_file(pa.OSFile(str(work.large)))
        for number in range(reader.num_record_batches):
            reader.get_batch(number)

    def dataset() -> None:
        import pyarrow.dataset as ds

        drain(ds.dataset(work.large, format="ipc").to_batches(batch_size=LARGE_ROWS))

    of_views = "peer: pyarrow, views"
    yield Contender("scan_ipc, views", views, work.bytes, work.rows, bars=(Rate(1, (of_views,)),))
    yield Contender(of_views, lambda: drain(peers.batches(work.large)), work.bytes, work.rows, ours=False)
    yield Contender("peer: pyarrow, read batch by batch", read, work.bytes, work.rows, ours=False)
    yield Contender("peer: pyarrow, dataset", dataset, work.bytes, work.rows, ours=False)
