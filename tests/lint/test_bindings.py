"""Rules of the bindings that the compiler does not check."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "python" / "src").rglob("*.[ch]pp")
}


def test_bindings_use_only_our_own_gil_guards() -> None:
    """nanobind's guards terminate the process if a daemon thread uses them while the interpreter shuts down
    (python/src/core/gil.hpp)."""
    words = ("nb::gil_scoped", "nanobind::gil_scoped")
    assert [name for name, text in SOURCES.items() if any(word in text for word in words)] == []
    states = ("PyGILState_Ensure", "PyEval_RestoreThread")
    assert {name for name, text in SOURCES.items() if any(word in text for word in states)} == {"gil.hpp"}
