"""Runs the whole benchmark: makes the files, then starts one process for each number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from saeta import _core
from saeta._report.info import info

Say = Callable[[str], object]
PACKAGES = ("numpy", "pyarrow", "torch", "cupy")

# The minimum for meaningful rates. A smaller run would measure caches and start-up.
LEAST_BYTES, LEAST_ROUNDS = 256 << 20, 3
# The bars are for a GPU, with this many threads to saturate its link.
BAR_THREADS = 16


@dataclass(frozen=True)
class Settings:
    device: str
    bytes: int = 2 << 30  # size of each file and table
    threads: Sequence[int] = (1, 2, 4, 8, 16)
    rounds: int = 5
    only: str | None = None  # runs only jobs that have this text in their names
    folder: Path | None = None  # folder for the files; None: a temporary one
    check: bool = True

    @property
    def says_shares(self) -> bool:
        """Whether rates can be compared with the limits of the machine."""
        return self.bytes >= LEAST_BYTES and self.rounds >= LEAST_ROUNDS

    @property
    def says_verdicts(self) -> bool:
        """Whether a share can be compared with its bar."""
        return self.says_shares and self.device != "host" and max(self.threads) >= BAR_THREADS


def quick(device: str) -> Settings:
    """Returns settings for a run of seconds on any machine. It shows that everything runs, not how fast."""
    return Settings(device, bytes=8 << 20, threads=(1, 2), rounds=2)


def run(settings: Settings, say: Say, *, command: str, commit: str) -> dict[str, Any]:
    """Runs the benchmark. Returns the results as one object, which `--out` writes."""
    environment = info()
    report: dict[str, Any] = {
        "benchmark": "movement",
        "commit": commit,
        "command": command,
        "versions": {name: environment["packages"].get(name) for name in PACKAGES}
        | {"saeta": _core._version()},
        "devices": environment["devices"],
        "device": settings.device,
        "bytes": settings.bytes,
        "rounds": settings.rounds,
        "shares": settings.says_shares,
        "verdicts": settings.says_verdicts,
        "limits": {},
        "missing": [],
        "results": [],
    }
    with tempfile.TemporaryDirectory(prefix="saeta-bench-", dir=settings.folder) as folder:
        say("making the files")
        from saeta.bench.jobs import make_files

        make_files(Path(folder), settings.bytes)
        most = max(settings.threads)
        for threads in sorted(settings.threads, reverse=True):
            say(f"{threads} threads")
            for message in _worker(settings, Path(folder), threads, first=threads == most):
                if "result" in message:
                    report["results"].append(_sum_up(message["result"], settings))
                    say(_line(report["results"][-1]))
                else:
                    report["limits"][str(threads)] = message["limits"]
                    report["missing"] = message["missing"]
    return report


def _worker(settings: Settings, folder: Path, threads: int, *, first: bool) -> Any:
    asked = {
        "device": settings.device,
        "folder": str(folder),
        "bytes": settings.bytes,
        "threads": threads,
        "rounds": settings.rounds,
        "only": settings.only,
        # Only the first process runs single-threaded peers, whose rates do not depend on the number of
        # threads, and checks values.
        "peers": first,
        "check": first and settings.check,
    }
    environment = {**os.environ, "SAETA_STAGING_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        [sys.executable, "-m", "saeta.bench.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            json.dump(asked, process.stdin)
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RuntimeError(
            f"the bench failed at {threads} threads: its process ended with {process.returncode}"
        )


def _sum_up(result: dict[str, Any], settings: Settings) -> dict[str, Any]:
    seconds = result.pop("seconds", None)
    if not seconds:
        return result
    rate = result["bytes"] / median(seconds) / 1e9
    share = rate / result["limit_gb_per_s"] if settings.says_shares else None
    bar, seconds_bar = result["bar"], result["seconds_bar"]
    reached = None
    if settings.says_verdicts and share is not None and bar is not None:
        reached = share >= bar
    if settings.says_verdicts and seconds_bar is not None:
        reached = median(seconds) <= seconds_bar
    return {
        **result,
        "seconds_p50": median(seconds),
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "gb_per_s": rate,
        "share": share,
        "reached": reached,
    }


def _line(result: dict[str, Any]) -> str:
    if "failed" in result:
        return f"  {result['job']}: {result['peer']} failed: {result['failed']}"
    share = "" if result["share"] is None else f", {result['share']:.0%}"
    return f"  {result['job']}: {result['peer']} {result['gb_per_s']:.2f} GB/s{share}"
