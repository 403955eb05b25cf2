#!/usr/bin/env python3
"""Downloads the third-party sources that Saeta compiles: nanoarrow, the DLPack header, LZ4 and Zstandard.

    fetch_sources.py [FOLDER]       (.deps of this repository when no folder is given)

All come from packages on PyPI through pip. Existing files are kept, so that a filled folder needs no network.
CMake runs this program if files are missing. It uses only the standard library.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

NANOARROW = "nanoarrow==0.9.0"
NANOARROW_SHA256 = "1ce15bbed8532839347faa78824c5dbd3769bff60661003e34c6fba5dd881bd3"
NANOARROW_MARKS = ('NANOARROW_VERSION "0.9.0"', "NANOARROW_NAMESPACE SaetaPrivate")
DLPACK_WHEEL = "apache-tvm-ffi==0.1.15.post2"
DLPACK_MEMBER = "tvm_ffi/include/dlpack/dlpack.h"
DLPACK_SHA256 = "62052bef24bd69bb7b52e95428f9e99bd7951783850c36c5f2a41e71fd63c2fc"


@dataclass(frozen=True)
class Codec:
    """A C library inside the source distribution of its Python package; its files are compiled unchanged."""

    name: str
    requirement: str
    archive_sha256: str
    folder: str  # inside the archive
    files: tuple[str, ...]  # extracted in this order: if the last one exists, all do
    last_sha256: str


LZ4 = Codec(
    name="lz4",
    requirement="lz4==4.4.5",
    archive_sha256="5f0b9e53c1e82e88c10d7c180069363980136b9d7a8306c4dca4f760d60c39f0",
    folder="lz4libs",
    files=("lz4.c", "lz4frame.c", "lz4hc.c", "xxhash.c", "lz4frame.h", "lz4hc.h", "xxhash.h", "lz4.h"),
    last_sha256="c1614ecf7ada7b0be1acb560d4239595f96fbb7aa6a79a7c40cb358753830be6",
)
ZSTD = Codec(
    name="zstd",
    requirement="zstandard==0.25.0",
    archive_sha256="7713e1179d162cf5c7906da876ec2ccb9c3a9dcbdffef0cc7f70c3667a205f0b",
    folder="zstd",
    files=("zstd.c", "zstd_errors.h", "zstd.h"),
    last_sha256="9b4bc8245565c98ccfc61c07749928b57e7c0f6fddb0530c4f6aa1971893d88b",
)


class FetchError(Exception):
    """A source can't be downloaded; the message says why and what to do."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pip_commands() -> list[tuple[list[str], dict[str, str]]]:
    """Returns commands that may run pip, with their environments. An isolated build has no pip itself."""
    plain = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    return [
        ([sys.executable, "-m", "pip"], dict(os.environ)),
        ([sys.executable, "-m", "pip"], plain),
        (["python3", "-m", "pip"], plain),
        (["pip3"], plain),
    ]


def download(requirement: str, flags: list[str], folder: Path) -> Path:
    """Returns the single file that `pip download` writes for `requirement`."""
    wanted = ["download", "--no-deps", "--quiet", "--disable-pip-version-check", *flags, requirement]
    # To learn the metadata of a source distribution, pip may compile all of it.
    unoptimised = {"CFLAGS": "-O0", "CXXFLAGS": "-O0"}
    for command, environment in pip_commands():
        try:
            probe = subprocess.run([*command, "--version"], env=environment, capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if probe.returncode != 0:
            continue
        words = [*command, *wanted, "--dest", str(folder)]
        run = subprocess.run(words, env={**environment, **unoptimised}, check=False)
        files = sorted(folder.iterdir())
        if run.returncode != 0 or len(files) != 1:
            shown = " ".join(["pip", *wanted])
            raise FetchError(f"{requirement} can't be downloaded. With a network, try: {shown}")
        return files[0]
    raise FetchError("no pip was found (apt-get install python3-pip, or python3 -m ensurepip)")


def unpack(requirement: str, expected: str, inside: str, scratch: Path) -> Path:
    """Downloads a source distribution and extracts its folder `inside`. Returns where that folder is."""
    downloads = scratch / "downloads"
    downloads.mkdir()
    archive = download(requirement, ["--no-binary", requirement.split("==")[0]], downloads)
    found = sha256(archive.read_bytes())
    if found != expected:
        raise FetchError(f"{archive.name} has SHA-256 {found}, expected {expected}")
    with tarfile.open(archive) as bundle:
        bundle.extractall(scratch, members=[m for m in bundle if f"/{inside}/" in m.name])
    return scratch / archive.name.removesuffix(".tar.gz") / inside


def write_atomically(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(target)


def have_nanoarrow(deps: Path) -> bool:
    folder = deps / "nanoarrow"
    if not all((folder / name).is_file() for name in ("nanoarrow.c", "nanoarrow.h", "nanoarrow.hpp")):
        return False
    header = (folder / "nanoarrow.h").read_text(encoding="utf-8")
    return all(mark in header for mark in NANOARROW_MARKS)


def fetch_nanoarrow(deps: Path) -> None:
    """Makes one C file and its headers with nanoarrow's own bundler, which prefixes every symbol."""
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        root = unpack(NANOARROW, NANOARROW_SHA256, "subprojects/arrow-nanoarrow", scratch)
        output = scratch / "output"
        options = ["--symbol-namespace", "SaetaPrivate", "--header-namespace", ""]
        folders = ["--include-output-dir", str(output), "--source-output-dir", str(output)]
        bundler = [sys.executable, str(root / "ci" / "scripts" / "bundle.py"), *options, *folders]
        subprocess.run(bundler, check=True)
        # The header goes last: its existence means that the folder is complete.
        for name in ("nanoarrow.c", "nanoarrow.hpp", "nanoarrow.h"):
            write_atomically(deps / "nanoarrow" / name, (output / name).read_bytes())


def have_dlpack(deps: Path) -> bool:
    header = deps / "dlpack" / "dlpack.h"
    return header.is_file() and sha256(header.read_bytes()) == DLPACK_SHA256


def fetch_dlpack(deps: Path) -> None:
    """Extracts the published DLPack header from a wheel that contains it."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = download(DLPACK_WHEEL, ["--only-binary", ":all:"], Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            header = archive.read(DLPACK_MEMBER)
    found = sha256(header)
    if found != DLPACK_SHA256:
        raise FetchError(f"{DLPACK_MEMBER} of {wheel.name} has SHA-256 {found}, expected {DLPACK_SHA256}")
    write_atomically(deps / "dlpack" / "dlpack.h", header)


def have_codec(codec: Codec, deps: Path) -> bool:
    folder = deps / codec.name
    if not all((folder / name).is_file() for name in codec.files):
        return False
    return sha256((folder / codec.files[-1]).read_bytes()) == codec.last_sha256


def fetch_codec(codec: Codec, deps: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = unpack(codec.requirement, codec.archive_sha256, codec.folder, Path(scratch))
        for name in codec.files:
            write_atomically(deps / codec.name / name, (root / name).read_bytes())


def fetch(deps: Path) -> list[str]:
    """Downloads the missing sources. Returns a line of text for each source."""
    lines = []
    for name, have, get in (
        ("nanoarrow 0.9.0", have_nanoarrow, fetch_nanoarrow),
        ("dlpack.h 1.3", have_dlpack, fetch_dlpack),
        ("LZ4 1.9.4", partial(have_codec, LZ4), partial(fetch_codec, LZ4)),
        ("Zstandard 1.5.7", partial(have_codec, ZSTD), partial(fetch_codec, ZSTD)),
    ):
        if have(deps):
            lines.append(f"{name}: there")
        else:
            print(f"fetching {name} into {deps} (about a minute)", flush=True)
            get(deps)
            lines.append(f"{name}: fetched")
    return lines


def main() -> int:
    default = Path(__file__).resolve().parent.parent / ".deps"
    deps = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    try:
        for line in fetch(deps):
            print(line)
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
