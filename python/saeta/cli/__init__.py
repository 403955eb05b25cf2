"""The command `saeta`. It stands on typer and rich, which `import saeta` does not load."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the command."""
    try:
        from saeta.cli.app import app
    except ImportError as failure:
        if (failure.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        print(f"the command saeta needs typer and rich: {failure} (pip install typer rich)", file=sys.stderr)
        raise SystemExit(6) from None
    app(prog_name="saeta")
