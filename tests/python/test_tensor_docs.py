"""The guide to tensors runs as it stands and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/tensors.md").read_text(encoding="utf-8")


def test_the_guide_prints_what_its_comments_say(run_python):
    program = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", program, re.MULTILINE)
    assert promised
    done = run_python(program)
    assert done.stdout.splitlines() == promised, done.stderr
