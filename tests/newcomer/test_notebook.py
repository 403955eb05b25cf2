"""README, the quick start and the tutorial, as one notebook that a stranger types into one kernel."""

from __future__ import annotations

import os

import pytest

from code_blocks import BLOCKS, missing_modules, promised

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

PAGES = ("README.md", "docs/quickstart.md", "docs/tutorial.md")
CELLS = [
    block
    for page in PAGES
    for block in BLOCKS
    if block.page == page and block.language == "python" and not block.gpu and not block.not_run
]


def printed(cell):
    texts = [each["text"] for each in cell.outputs if each.output_type == "stream" and each.name == "stdout"]
    return "".join(texts).splitlines()


def test_the_first_pages_run_in_one_kernel(tmp_path, monkeypatch):
    missing = sorted({name for block in CELLS for name in missing_modules(block.text)})
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert {block.page for block in CELLS} == set(PAGES)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONWARNINGS", "error::FutureWarning,error::DeprecationWarning:saeta")
    monkeypatch.setenv("MPLBACKEND", os.environ.get("MPLBACKEND", "agg"))
    folder = tmp_path / "work"
    folder.mkdir()
    cells = [nbformat.v4.new_code_cell(block.text) for block in CELLS]
    shown = nbformat.v4.new_code_cell("table")
    notebook = nbformat.v4.new_notebook(cells=[*cells, shown])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    for block, cell in zip(CELLS, notebook.cells, strict=False):
        assert printed(cell) == promised(block.text), block.text
    (output,) = notebook.cells[-1].outputs
    assert "<table" in output["data"]["text/html"]
    assert output["data"]["text/plain"].startswith("<saeta.Table ")
