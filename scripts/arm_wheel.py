#!/usr/bin/env python3
"""Cross-compiles a wheel for 64-bit Arm, and tries it under qemu.

    arm_wheel.py [--output FOLDER] [PYTEST ARGUMENT]...

The wheel is for Python 3.11 and has no CUDA and none of the modules that need libarrow. It shows that the
package builds, loads and works there; a machine with an Arm processor builds the others
(scripts/manylinux.Containerfile).

1. Unpacks Debian's Python for arm64 into .deps/aarch64, with NumPy, pyarrow and pytest.
2. Builds the wheel in build/wheel-aarch64, and names it after the oldest glibc that it runs on (auditwheel).
3. Runs tests of the package under qemu: those named, or a selection. Tests that start other programs
   pass only if the system starts programs for Arm by itself (binfmt_misc).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from build_wheels import PYARROWS, ROOT, WheelError, pinned, prepare_environment, run

ARM = ROOT / ".deps" / "aarch64"
SYSTEM = ARM / "root"
PACKAGES = ARM / "packages"
DEBIAN = """
    libc6 libgcc-s1 libstdc++6 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev
    libexpat1 zlib1g libssl3 libffi8 libbz2-1.0 liblzma5 libuuid1 libsqlite3-0
"""
PINNED = """
    numpy pandas python-dateutil six rich markdown-it-py mdurl
    pytest pluggy iniconfig packaging hypothesis sortedcontainers pygments
"""
TESTS = """
    arrow booleans build_words changed_metadata combine corpus decimals equals exact_values hidden_rows
    loader_values loader_windows logical_nulls numbers odd_arrays rows scan_stream scan_windows schema
    slice_sizes table tensors written_batches
"""  # which start no programs
QEMU = ("setarch", "-R", "qemu-aarch64-static", "-L", str(SYSTEM))


def debian_packages() -> None:
    """Unpacks Debian's packages for arm64, beside those of this system."""
    if (SYSTEM / "usr/bin/python3.11").exists():
        return
    lists = ARM / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
    apt += ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={ARM}"]
    run(*apt, "update")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*apt, "download", *DEBIAN.split()], cwd=folder, check=False)
        if done.returncode != 0:
            raise WheelError(f"Debian's packages for arm64 can't be downloaded: {' '.join(DEBIAN.split())}")
        for package in sorted(Path(folder).glob("*.deb")):
            run("dpkg", "-x", package, SYSTEM)


def python_packages(tools: Path) -> None:
    """Unpacks NumPy, pyarrow and what pytest needs."""
    if PACKAGES.is_dir():
        return
    names = [*pinned(PINNED.split()), f"pyarrow=={PYARROWS[max(PYARROWS)]}"]
    partial = PACKAGES.with_suffix(".partial")
    platforms = [word for glibc in ("17", "28") for word in ("--platform", f"manylinux_2_{glibc}_aarch64")]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    versions = ["--python-version", "3.11", "--implementation", "cp"]
    run(
        tools / "python", "-m", "pip", "install", *options, *versions, *platforms, "--target", partial, *names
    )
    partial.rename(PACKAGES)


def build(tools: Path, output: Path) -> Path:
    headers = SYSTEM / "usr/include"
    defines = {
        "SAETA_CUDA": "OFF",
        "SAETA_BRIDGE": "OFF",
        "SAETA_RMM": "OFF",
        "Python_INCLUDE_DIR": headers / "python3.11",
        "CMAKE_CXX_FLAGS": f"-isystem {headers}",
    }
    settings = [word for name, value in defines.items() for word in ("-C", f"cmake.define.{name}={value}")]
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "cmake/aarch64-linux-gnu.cmake"),
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",  # scikit-build-core takes the platform's tag from these two
        "SETUPTOOLS_EXT_SUFFIX": ".cpython-311-aarch64-linux-gnu.so",
    }
    with tempfile.TemporaryDirectory() as scratch:
        pip: list[str | Path] = [
            tools / "python",
            "-m",
            "pip",
            "wheel",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        folder = ["-C", "build-dir=build/wheel-aarch64", "-C", "wheel.build-tag=0nocuda"]
        run(
            *pip,
            "--no-build-isolation",
            *folder,
            *settings,
            "--wheel-dir",
            scratch,
            ".",
            environment=environment,
        )
        (raw,) = Path(scratch).glob("*.whl")
        environment["LD_LIBRARY_PATH"] = str(SYSTEM / "usr/lib/aarch64-linux-gnu")
        run(tools / "auditwheel", "repair", "--wheel-dir", output, raw, environment=environment)
    return max(output.glob("saeta-*aarch64.whl"), key=lambda wheel: wheel.stat().st_mtime)


def try_it(wheel: Path, arguments: list[str]) -> None:
    """Runs tests of the unpacked wheel under qemu."""
    unpacked = ARM / "wheel"
    shutil.rmtree(unpacked, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    tests = arguments or [str(ROOT / f"tests/python/test_{name}.py") for name in TESTS.split()]
    environment = {**os.environ, "PYTHONPATH": f"{unpacked}{os.pathsep}{PACKAGES}", "PYTHONNOUSERSITE": "1"}
    python = SYSTEM / "usr/bin/python3.11"
    run(*QEMU, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, environment=environment)


def main() -> int:
    parser = argparse.ArgumentParser(description="Cross-compiles a wheel for 64-bit Arm and tries it.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    options, arguments = parser.parse_known_args()
    python = shutil.which("python3.11")
    try:
        if python is None or shutil.which("qemu-aarch64-static") is None:
            raise WheelError(
                "Python 3.11, g++-aarch64-linux-gnu and qemu-user-static are wanted (apt-get install)"
            )
        tools = prepare_environment(python)
        debian_packages()
        python_packages(tools)
        wheel = build(tools, options.output)
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        try_it(wheel, arguments)
    except WheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
