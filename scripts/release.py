#!/usr/bin/env python3
"""Prepares a release up to the upload. Stops at the first step that fails.

    release.py [--repository ADDRESS] [--container PROGRAM] [--skip-tests]

1. The tree is committed, the version is new, and CHANGELOG.md gives its date.
2. .ci/run and make thorough pass.
3. The wheels and the source distribution are built for manylinux_2_28, in the container that
   scripts/manylinux.Containerfile describes. `--container none` builds on this machine, for the glibc here.
4. The wheels are installed and tested, and a wheel is built from the source distribution without a network.
5. dist/SHA256SUMS is written, and the commands that tag the commit and upload the files are printed.

ADDRESS is the public repository, for project URLs and the links of the README.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build_metadata import version
from build_wheels import ROOT, WheelError, build_from_sdist, find_pythons, prepare_environment, run

DIST = ROOT / "dist"
IMAGE = "saeta-manylinux"


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def require_ready(release: str) -> None:
    """Raises WheelError if this version can't be released yet; the message says what to do first."""
    if changed := output_of("git", "status", "--porcelain"):
        raise WheelError(f"commit or remove first:\n{changed}")
    if output_of("git", "tag", "--list", f"v{release}"):
        raise WheelError(f"v{release} is released: raise the version in CMakeLists.txt")
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None or not re.fullmatch(rf"{re.escape(release)}, \d{{4}}-\d\d-\d\d", heading[1]):
        found = heading[1] if heading else "nothing"
        raise WheelError(f"CHANGELOG.md begins with {found!r}, expected '{release}, YYYY-MM-DD'")


def build_in_container(program: str, repository: str) -> None:
    run(program, "build", "--tag", IMAGE, "--file", "scripts/manylinux.Containerfile", "scripts")
    run(
        program, "run", "--rm", "--volume", f"{ROOT}:/saeta", "--env", f"SAETA_REPOSITORY={repository}", IMAGE
    )


def write_sums() -> list[Path]:
    files = sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return files


def release(repository: str, container: str, with_tests: bool) -> None:
    """Runs the steps in order."""
    number = version()
    require_ready(number)
    if with_tests:
        run(".ci/run")
        run("make", "thorough")
    shutil.rmtree(DIST, ignore_errors=True)
    if container == "none":
        environment = {**os.environ, "SAETA_REPOSITORY": repository}
        run(sys.executable, "scripts/build_wheels.py", "--sdist", environment=environment)
    else:
        build_in_container(container, repository)
    run(sys.executable, "scripts/check_wheels.py")
    with tempfile.TemporaryDirectory() as scratch:
        (sdist,) = DIST.glob("*.tar.gz")
        build_from_sdist(prepare_environment(find_pythons()[0]), sdist, Path(scratch))
    files = write_sums()
    print("\nReady. What is left:")
    print(f"  git tag -a v{number} -m 'Saeta {number}' && git push origin v{number}")
    print(f"  twine upload {' '.join(str(file.relative_to(ROOT)) for file in files)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Prepares a release, up to the upload.")
    parser.add_argument("--repository", required=True, help="address of the public repository")
    parser.add_argument("--container", default="podman", help="podman, docker, or none to build here")
    parser.add_argument("--skip-tests", action="store_true", help="they have passed for this commit")
    options = parser.parse_args()
    try:
        release(options.repository, options.container, with_tests=not options.skip_tests)
    except WheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
