"""The Python blocks of each documentation page run in order and print the output given in their comments.
Blocks that need a GPU run if there is one."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import saeta as sa
from code_blocks import BLOCKS, ROOT, missing_modules, pages_with_programs, program, promised
from gpu_frameworks import numba_with_a_device

# Pages with a test of their own, which checks more than the printed output.
WITH_A_TEST_OF_ITS_OWN = {
    "README.md": "test_readme.py",
    "docs/guides/memory.md": "test_memory_docs.py",
    "docs/tutorial.md": "test_tutorial.py",
}
ON_HOST = [page for page in pages_with_programs() if page not in WITH_A_TEST_OF_ITS_OWN]


@pytest.mark.parametrize("page", ON_HOST)
def test_the_page_prints_the_output_in_its_comments(run_python, page, tmp_path):
    text = program(page)
    missing = missing_modules(text)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    # Some pages write files where they are.
    done = run_python(f"import os; os.chdir({str(tmp_path)!r})\n{text}", JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(text), done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("page", pages_with_programs(on_gpu=True))
def test_the_page_prints_the_output_in_its_comments_on_a_gpu(run_python, page, tmp_path):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    text = program(page, on_gpu=True)
    missing = missing_modules(text)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if "numba.cuda" in text or "from numba import cuda" in text:
        numba_with_a_device()
    file = tmp_path / "guide.py"  # Triton needs the source file of a kernel
    file.write_text(text, encoding="utf-8")
    done = run_python(
        f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path({str(file)!r}, run_name='__main__')"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(text), done.stderr


def test_the_commands_of_the_guide_to_reading_run(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("typer")
    table = sa.table({"fare": [1.5, 2.5]}, "host")
    for folder in ("days", "more"):
        (tmp_path / folder).mkdir()
        table.write_ipc(tmp_path / folder / "1.arrow")
    table.write_ipc(tmp_path / "trips.arrow")
    table.write_ipc(tmp_path / "trips.arrows", format="stream")
    (tmp_path / "trips.csv").write_text("fare\n1.5\n2.5\n", encoding="utf-8")
    (commands,) = (
        block.text
        for block in BLOCKS
        if block.page == "docs/guides/reading.md" and block.language == "console"
    )
    lines = [line.removeprefix("$ ") for line in commands.splitlines()]
    assert len(lines) >= 4
    script = "\n".join(["gzip trips.arrows", 'saeta() { "$PYTHON" -m saeta "$@"; }', *lines])
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sa.read_ipc(tmp_path / "trips.arrow", "host")["fare"].to_pylist() == [1.5, 2.5]


def test_the_error_page_has_each_class_and_attribute():
    page = (ROOT / "docs/guides/errors.md").read_text(encoding="utf-8")
    classes = {
        name
        for name in sa.__all__
        if isinstance(getattr(sa, name), type) and issubclass(getattr(sa, name), sa.Error)
    }
    sections = re.split(r"^## (\w+)$", page, flags=re.MULTILINE)[1:]
    told = dict(zip(sections[::2], sections[1::2], strict=True))
    assert told.keys() == classes
    for attribute in sa.BudgetExceeded("").numbers():
        assert f"`{attribute}`" in told["BudgetExceeded"]
