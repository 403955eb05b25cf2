"""The guide to each framework runs as it stands and prints what its comments say. Blocks for a GPU run where
there is one."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import saeta as sa
from gpu_frameworks import numba_with_a_device

GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"
ON_HOST = {
    "numpy": ["numpy"],
    "pyarrow": ["pyarrow"],
    "polars": ["polars"],
    "pandas": ["pandas"],
    "duckdb": ["duckdb"],
    "jax": ["jax"],
    "handover": ["numpy"],
    "reading": ["pyarrow", "fsspec", "duckdb"],
    "training": ["numpy", "pyarrow", "jax"],
    "errors": ["numpy", "pyarrow"],
    "nulls": ["numpy", "pyarrow"],
    "leaks": [],
    "kernels": ["numpy"],
    "stores": ["pyarrow", "fsspec"],
    "many-files": ["pyarrow"],
    "sockets": ["pyarrow"],
    "one-budget": [],
    "packed": ["numpy", "pyarrow"],
    "sharing": ["numpy", "pyarrow"],
    "spilling": [],
    "../coming-from-rmm": ["numpy"],
}
ON_GPU = [
    "torch",
    "cupy",
    "numba",
    "cudf",
    "pyarrow-cuda",
    "training",
    "nulls",
    "kernels",
    "one-budget",
    "../tutorial",
]
BLOCK = re.compile(r"^(?:<!-- gpu: ([\w.]+) -->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def program_of(page: str, on_gpu: bool) -> tuple[str, set[str]]:
    """The blocks of a page one after the other, and the modules that blocks for a GPU name."""
    found = BLOCK.findall((GUIDES / f"{page}.md").read_text(encoding="utf-8"))
    blocks = [text for module, text in found if bool(module) == on_gpu]
    return "\n".join(blocks), {module for module, _ in found if module}


def promised(program: str) -> list[str]:
    return re.findall(r"^ *print\(.*\)\s+# (.*)$", program, re.MULTILINE)


@pytest.mark.parametrize("page", ON_HOST)
def test_the_guide_prints_what_its_comments_say(run_python, page):
    for module in ON_HOST[page]:
        pytest.importorskip(module)
    program, _ = program_of(page, on_gpu=False)
    assert promised(program)
    done = run_python(program, JAX_PLATFORMS="cpu")
    assert done.stdout.splitlines() == promised(program), done.stderr


def test_the_page_about_processes_prints_what_its_comments_say(run_python):
    pytest.importorskip("numpy")
    program, _ = program_of("../processes", on_gpu=False)
    assert len(promised(program)) == 4
    done = run_python(program)
    assert done.stdout.splitlines() == promised(program), done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("page", ON_GPU)
def test_the_guide_to_a_gpu_prints_what_its_comments_say(run_python, page, tmp_path):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    program, modules = program_of(page, on_gpu=True)
    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            pytest.skip(f"{module} is not installed")
    if "numba.cuda" in modules:
        numba_with_a_device()
    file = tmp_path / "guide.py"  # Triton reads the source of a kernel from its file
    file.write_text(program, encoding="utf-8")
    done = run_python(f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')")
    assert done.stdout.splitlines() == promised(program), done.stderr


def test_every_block_compiles_and_every_page_is_tested():
    pages = {path.stem for path in GUIDES.glob("*.md")} - {"arrow", "memory", "tables", "tensors"}
    assert pages == {page for page in (*ON_HOST, *ON_GPU) if not page.startswith("..")}
    for page in pages:
        for on_gpu in (False, True):
            compile(program_of(page, on_gpu)[0], page, "exec")
        assert program_of(page, on_gpu=True)[0] or page in ON_HOST


def test_the_page_of_errors_has_each_class_and_each_of_its_attributes():
    page = (GUIDES / "errors.md").read_text(encoding="utf-8")
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
