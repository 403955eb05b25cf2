#!/usr/bin/env python3
"""Installs the wheels into clean environments and runs the README in each. Prints a table.

    check_wheels.py [--wheels FOLDER] [--python PROGRAM]... [--pyarrow MAJOR,...] [--quick]

For each pair of a Python and a pyarrow release, one pip command fills a new environment. In it run the Python
blocks of the README, the command `saeta`, and programs that use files, stores, loaders, sharing, spilling,
pyarrow and saeta.cuda. For each wheel a C++ project also builds with CMake against the library inside the
package, and what a newcomer does runs (tests/newcomer): README, quick start and tutorial as one notebook, and
twelve jobs. With a pyarrow release that the wheel was not built for, only saeta.cuda must fail, and its
message must name the command that helps. Features without pyarrow are tried in an environment without it.
--quick takes the newest Python alone and the smallest of the C++ programs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from build_wheels import ROOT, STABLE_ABI, find_pythons, minor_of

MAJORS = (22, 24, 26)
# Packages that the README uses in addition to pyarrow.
PEERS = ("duckdb", "numpy", "polars")
REFUSAL = """
import pyarrow
pyarrow.__version__ = "21.0.0"
import saeta
saeta.read_ipc("trips.arrow")
try:
    import saeta.cuda
except saeta.MissingDependency as failure:
    assert "but pyarrow 21.0.0 is installed: pip install 'pyarrow==" in str(failure), failure
else:
    raise SystemExit("pyarrow 21 was not refused")
"""

# Features that need only NumPy, tried with a file that the README wrote.
PACKAGE = """
import os
import pickle
import subprocess
import sys
import tempfile

os.environ["SAETA_SPILL_DIR"] = tempfile.mkdtemp()
import saeta

ctx = saeta.context("host")
table = saeta.read_ipc("trips.arrow", ctx)
assert table.write_ipc("copy.arrow", compression="zstd")
with saeta.ipc_writer("again.arrows", format="stream") as writer:
    for batch in saeta.scan_ipc("copy.arrow", ctx):
        writer.write(batch)
again = saeta.read_ipc("again.arrows", ctx, copy=True)
assert again.equals(table)
assert saeta.ipc.inspect("again.arrows")["format"] == "stream"
with saeta.loader("copy.arrow", ctx, batch_size=300, shuffle="rows", to="numpy") as batches:
    fares = sorted(fare for batch in batches for fare in batch["fare"].tolist())
assert fares == sorted(table["fare"].to_pylist())
assert pickle.loads(pickle.dumps(again)).equals(table)
handle = ctx.spillable(again)
del again
assert handle.spill() == "file"
with handle.use() as back:
    assert back.equals(table)
token = table.share()
reader = "import pickle, sys, saeta; print(saeta.open_shared(pickle.load(sys.stdin.buffer)).num_rows)"
done = subprocess.run([sys.executable, "-c", reader], input=pickle.dumps(token), stdout=subprocess.PIPE)
assert int(done.stdout) == table.num_rows
"""

# Reads from a store of fsspec.
STORE = """
import saeta
table = saeta.read_ipc("trips.arrow", "host")
table.write_ipc("memory://bucket/trips.arrow", compression="lz4")
assert saeta.read_ipc("memory://bucket/trips.arrow", "host").equals(table)
with saeta.scan_ipc("memory://bucket/trips.arrow", "host", columns="fare") as scan:
    assert sum(batch.num_rows for batch in scan) == table.num_rows
"""

WITH_PYARROW = """
import pyarrow
import pyarrow.parquet
import saeta
table = saeta.read_ipc("trips.arrow", "host")
arrow = table.to_arrow()
assert saeta.from_arrow(arrow, "host").equals(table)
pyarrow.parquet.write_table(arrow, "trips.parquet")
assert saeta.read_parquet("trips.parquet", "host").equals(table)

import saeta.cuda
assert saeta.cuda.new_host_buffer(5).size == 5
assert pyarrow.record_batch(table).num_rows == table.num_rows
"""

WITHOUT_PYARROW = """
import importlib.util
import saeta
assert importlib.util.find_spec("pyarrow") is None
table = saeta.read_ipc("trips.arrow", "host")
for call in (table.to_arrow, lambda: saeta.read_parquet("trips.parquet", "host")):
    try:
        call()
    except saeta.MissingDependency as failure:
        assert "pip install" in str(failure)
    else:
        raise SystemExit(f"{call} needs pyarrow")
"""

# Dask workers find the package by this entry point.
ENTRY_POINT = """
from importlib.metadata import entry_points
(found,) = (each for each in entry_points(group="dask.sizeof") if each.name == "saeta")
found.load()
"""


# Packages that the first pages and the jobs use in addition to PEERS and those of requirements-notebook.txt.
OF_NEWCOMERS = ("fsspec", "matplotlib", "pandas", "pytest")


class CheckError(Exception):
    """A step failed; the message has its output."""


def run(*command: str | Path, folder: Path) -> str:
    # The environment must not see this tree or the user's packages.
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckError(f"{' '.join(words)[:200]}\n{done.stdout}{done.stderr}")
    return done.stdout


def wheel_for(python: str, folder: Path) -> Path:
    """Returns the newest wheel that supports this Python: a specific one, or the one for the stable ABI."""
    minor = minor_of(python)
    wanted = f"-cp3{STABLE_ABI}-abi3-" if minor >= STABLE_ABI else f"-cp3{minor}-cp3{minor}-"
    found = [wheel for wheel in folder.glob("saeta-*.whl") if wanted in wheel.name]
    if not found:
        raise CheckError(f"{folder} has no wheel for {python} (make wheel)")
    return max(found, key=lambda wheel: wheel.stat().st_mtime)


def readme_program() -> str:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))


def check_cpp(python: Path, scratch: Path, quick: bool) -> str:
    """Builds the C++ projects of tests/consumer against the library inside the package."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None or shutil.which("c++") is None:
        return "no compiler"
    found = run(python, "-c", "import saeta; print(saeta.cmake_dir())", folder=scratch).strip()
    options = [
        f"-DSAETA_DIR={found}",
        f"-DBUILD={scratch}",
        "-DGENERATOR=Ninja",
        "-DCXX=c++",
        f"-DSMALL={quick}",
    ]
    run("cmake", *options, "-P", ROOT / "tests/consumer/run.cmake", folder=scratch)
    return "ok"


def check_newcomer(inside: Path, install: list[str], scratch: Path) -> str:
    """Runs tests/newcomer in an environment that has the wheel. The notebook must not be skipped."""
    requirements = ROOT / "scripts/requirements-notebook.txt"
    run(inside, *install, "-r", requirements, *OF_NEWCOMERS, folder=scratch)
    tests = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    told = run(*tests, ROOT / "tests/newcomer/test_notebook.py", folder=scratch)
    if "1 passed" not in told:
        raise CheckError(f"the notebook did not run:\n{told}")
    run(*tests, ROOT / "tests/newcomer/test_jobs.py", folder=scratch)
    return "ok"


def check_one(python: str, major: int, wheel: Path, first_of_wheel: bool, quick: bool) -> dict[str, str]:
    """Runs all checks in one environment. Returns a row of the table."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        environment = scratch / "environment"
        run(python, "-m", "venv", environment, folder=scratch)
        inside = environment / "bin/python"
        start = time.monotonic()
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        run(inside, *install, f"{wheel}[cli]", f"pyarrow=={major}.*", *PEERS, "fsspec", folder=scratch)
        row = {"python": "", "pyarrow": "", "installed in": f"{time.monotonic() - start:.0f} s"}

        run(inside, "-c", readme_program(), folder=scratch)
        row["README"] = "ok"
        for program in (PACKAGE, STORE, WITH_PYARROW):
            run(inside, "-c", program, folder=scratch)
        row["programs"] = "ok"
        state = json.loads(run(environment / "bin/saeta", "info", "--json", folder=scratch))
        if state["saeta.cuda"]["built_for"].partition(".")[0] != str(major):
            raise CheckError(
                f"the module for pyarrow {major} was built with {state['saeta.cuda']['built_for']}"
            )
        run(environment / "bin/saeta", "inspect", "trips.arrow", folder=scratch)
        row["command"] = "ok"
        run(inside, "-c", ENTRY_POINT, folder=scratch)
        row["entry point"] = "ok"
        run(inside, "-c", REFUSAL, folder=scratch)
        row["other pyarrow"] = "refused"
        row["C++"] = check_cpp(inside, scratch, quick) if first_of_wheel else "-"
        row["notebook"] = check_newcomer(inside, install, scratch) if first_of_wheel else "-"
        check_alone(python, wheel, scratch / "trips.arrow")
        row["without pyarrow"] = "ok"
        row["python"], row["pyarrow"] = state["python"], state["packages"]["pyarrow"]
        return row


def check_alone(python: str, wheel: Path, trips: Path) -> None:
    """Tries an environment with NumPy and the wheel only, then with fsspec and the command's packages."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        environment = scratch / "environment"
        run(python, "-m", "venv", environment, folder=scratch)
        inside = environment / "bin/python"
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        run(inside, *install, wheel, "numpy", folder=scratch)
        shutil.copy(trips, scratch)
        run(inside, "-c", PACKAGE, folder=scratch)
        run(inside, *install, "fsspec", "rich", "typer", folder=scratch)
        run(environment / "bin/saeta", "inspect", "trips.arrow", folder=scratch)
        for program in (STORE, WITHOUT_PYARROW):
            run(inside, "-c", program, folder=scratch)


def table(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["-" * len(name) for name in rows[0]], *(list(row.values()) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Installs the wheels and runs the README.")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist", help="folder of the wheels")
    parser.add_argument("--python", action="append", default=[], help="all that are found by default")
    parser.add_argument("--pyarrow", default=",".join(map(str, MAJORS)), help="major releases, with commas")
    parser.add_argument("--quick", action="store_true", help="the newest Python, the smallest C++ programs")
    options = parser.parse_args()
    rows = []
    seen: set[Path] = set()
    try:
        for python in options.python or find_pythons()[-1 if options.quick else 0 :]:
            wheel = wheel_for(python, options.wheels.resolve())
            for major in options.pyarrow.split(","):
                print(f"{python}, pyarrow {major}, {wheel.name}", flush=True)
                rows.append(check_one(python, int(major), wheel, wheel not in seen, options.quick))
                seen.add(wheel)
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
