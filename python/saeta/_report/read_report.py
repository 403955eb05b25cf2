"""What a profile of a read found, as a table and a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from saeta._report import count_text, human_bytes

PARTS = ("file", "decode", "copy", "link", "kernels", "other")
BOUND = 0.5  # of the time; below it no part alone explains the read


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Where the time of a read went, beside the limits of the machine: what `saeta.profile_read` returns.

    `str(report)` is the table that `saeta profile` prints.

    Attributes:
        source: what was read.
        device: where to.
        format: "ipc" or "parquet".
        rows: rows of the table.
        nbytes: bytes of the table's values.
        file_bytes: bytes that were read from the source. None: not known.
        link_bytes: bytes that Saeta copied to the device.
        cached: the share of the file that the page cache had before the read, from samples. None: not known.
        threads: threads that read, decompress and copy.
        seconds: duration of the read, the median of the rounds.
        parts: seconds by part. They add up to `seconds`, because a part that several threads share counts as
            the time that it takes all of them together. "file": reading the source. "decode": decompressing,
            or all that pyarrow or cuDF does with Parquet, its reading included. "copy": the processor's work
            in memory, such as filling chunks for the device. "link": waiting for copies to the device.
            "kernels": checks and joins of the device, or of the host, after the last copy. "other": planning,
            threads without work, Python.
        limits: GB/s measured in the same run. "file": the bytes of the file alone, read by as many threads.
            "link": a plain copy from page-locked memory, on a device. "copy": a plain copy by one thread, on
            the host.
        alone: seconds that each part would take if no other part held it up: the file and the link by their
            limits, others, and these if they are slower, as in `parts`.

    Example:
        >>> import saeta as sa, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
        >>> _ = sa.table({"fare": [12.5, 8.0]}, "host").write_ipc(path)
        >>> report = sa.profile_read(path, "host", rounds=1)
        >>> report.format, report.rows, report.nbytes
        ('ipc', 2, 16)
        >>> list(report.parts)
        ['file', 'decode', 'copy', 'link', 'kernels', 'other']
    """

    source: str
    device: str
    format: str
    rows: int
    nbytes: int
    file_bytes: int | None
    link_bytes: int
    cached: float | None
    threads: int
    seconds: float
    parts: dict[str, float]
    limits: dict[str, float]
    alone: dict[str, float]

    @property
    def gb_per_s(self) -> float:
        """The rate of the read: GB of values in a second."""
        return self.nbytes / self.seconds / 1e9

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part in the time of the read; together 1."""
        return {part: seconds / self.seconds for part, seconds in self.parts.items()}

    @property
    def bound(self) -> str:
        """The part that bounds the read: the longest one alone. "other" if that takes less than half."""
        longest = max(self.alone, key=self.alone.__getitem__)
        return longest if self.alone[longest] >= BOUND * self.seconds else "other"

    @property
    def bound_share(self) -> float:
        """The share of the time that the part which bounds the read takes alone."""
        bound = self.bound
        alone = self.parts["other"] if bound == "other" else self.alone[bound]
        return min(1.0, alone / self.seconds)

    def explain(self) -> str:
        """Returns one sentence about what bounds the read.

        Example:
            >>> import saeta as sa, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
            >>> _ = sa.table({"fare": [12.5, 8.0]}, "host").write_ipc(path)
            >>> sa.profile_read(path, "host", rounds=1).explain().startswith("bound by")
            True
        """
        share = f"{self.bound_share:.0%}"
        if self.bound == "file":
            where = "" if self.cached is None else f" ({self.cached:.0%} in the page cache)"
            limit = self.limits.get("file")
            if limit is None or self.file_bytes is None:
                return f"bound by the source{where}: reading takes {share} of the time"
            took = f"reading takes {self.shares['file']:.0%} of the time, at " if self.parts["file"] else ""
            rate = self.file_bytes / self.seconds / 1e9
            reached = f"{rate / limit:.0%} of the {limit:.2f} GB/s of its bytes alone"
            return f"bound by the file{where}: {took}{rate:.2f} GB/s, {reached}"
        link = f"bound by the device: threads wait for its copies and kernels for {share} of the time"
        if "link" in self.limits:
            rate, limit = self.link_bytes / self.seconds / 1e9, self.limits["link"]
            reached = f"{rate:.2f} GB/s, {rate / limit:.0%} of the {limit:.2f} GB/s of a plain copy"
            link = f"bound by the link: {reached}" if rate >= BOUND * limit else f"{link}, at {reached}"
        texts = {
            "link": link,
            "decode": f"bound by decoding: it takes {share} of the time of all threads",
            "copy": f"bound by the processor's copies in memory: they take {share} of the time",
            "kernels": f"bound by kernels: they run for {share} of the time, after the last copy",
        }
        if self.format == "parquet":
            texts["decode"] = f"bound by decoding Parquet: it takes {share} of the time, reading included"
        longest = max(self.alone, key=self.alone.__getitem__)
        part = f"{longest} takes {self.alone[longest] / self.seconds:.0%} of the time"
        return texts.get(
            self.bound, f"bound by no part alone: {part}; the rest is planning, Python, and threads that wait"
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns everything, for JSON.

        Example:
            >>> import saeta as sa, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "a.arrow")
            >>> _ = sa.table({"fare": [12.5, 8.0]}, "host").write_ipc(path)
            >>> sa.profile_read(path, "host", rounds=1).as_dict()["rows"]
            2
        """
        found = {"gb_per_s": self.gb_per_s, "shares": self.shares, "bound": self.bound}
        return {**asdict(self), **found, "bound_share": self.bound_share, "explanation": self.explain()}

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Returns part, seconds, share, seconds alone and limit of each part, for tables."""
        return [
            (
                part,
                f"{self.parts[part]:.4f}",
                f"{self.shares[part]:.0%}",
                f"{self.alone[part]:.4f}" if part in self.alone else "",
                f"{self.limits[part]:.2f}" if part in self.limits else "",
            )
            for part in PARTS
        ]

    def _heading(self) -> str:
        """Returns what was read, and how fast, in two lines."""
        form = "Parquet" if self.format == "parquet" else "Arrow IPC"
        file = "" if self.file_bytes is None else f" from {human_bytes(self.file_bytes)}"
        threads = count_text(self.threads, "thread", "threads")
        cached = "" if self.cached is None else f", {self.cached:.0%} of the file in the page cache"
        return (
            f"{self.source} on {self.device}: {form}, {count_text(self.rows, 'row', 'rows')}\n"
            f"{human_bytes(self.nbytes)} of values{file} in {self.seconds:.4f} s: {self.gb_per_s:.2f} GB/s, "
            f"{threads}{cached}"
        )

    def __str__(self) -> str:
        lines = [("part", "seconds", "share", "alone, s", "limit, GB/s"), *self._rows()]
        table = [
            f"{part:<8}{seconds:>9}{share:>7}{alone:>10}{limit:>13}".rstrip()
            for part, seconds, share, alone, limit in lines
        ]
        return "\n".join([self._heading(), *table, self.explain()])

    def __repr__(self) -> str:
        return f"<saeta.ReadReport: {self.explain()}>"
