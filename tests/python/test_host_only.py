"""An installation without CUDA on a machine with a GPU says so, once."""

from __future__ import annotations

import logging

import pytest

from saeta import _core
from saeta._report import host_only


@pytest.mark.parametrize(("built", "driver", "said"), [(False, True, 1), (False, False, 0), (True, True, 0)])
def test_a_gpu_that_stays_unused_is_named(monkeypatch, caplog, tmp_path, built, driver, said):
    monkeypatch.setattr(_core, "_runtime", lambda: {"built_with_cuda": built})
    monkeypatch.setattr(host_only, "DRIVER", tmp_path / "version")
    if driver:
        (tmp_path / "version").write_text("NVRM version: 580")
    with caplog.at_level(logging.WARNING, "saeta"):
        host_only.note()
    assert [record.message for record in caplog.records if "built without CUDA" in record.message] == [
        record.message for record in caplog.records
    ]
    assert len(caplog.records) == said


def test_the_first_context_looks_once(run_python):
    program = """
import saeta as sa
from saeta._report import host_only
seen = []
host_only.note = lambda: seen.append(1)
assert not seen, "an import looks at nothing"
for _ in range(3):
    sa.context("host")
sa.table({"a": [1]}, "host")
print(len(seen))
"""
    done = run_python(program)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")
