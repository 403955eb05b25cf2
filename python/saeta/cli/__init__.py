"""The command `saeta`. It uses typer and rich, which `import saeta` does not load."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import NoReturn

PLAIN = {"✓": "ok", "✗": "wrong", "…": "..."}
BROKEN_PIPE = 141  # the code that a shell reports for a program ended by SIGPIPE


def main() -> None:
    """Runs the command."""
    try:
        from saeta.cli.app import app
        from saeta.cli.exits import run_with_json
    except ImportError as failure:
        if (failure.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        print(
            f"the command saeta needs typer and rich: {failure} (pip install 'saeta[cli]')", file=sys.stderr
        )
        raise SystemExit(6) from None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell, as in `saeta info >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - it stays open
    if isinstance(sys.stdout, io.TextIOWrapper):
        given = sys.stdout
        encoding, by_line = given.encoding, given.line_buffering
        errors = "saeta.plain" if given.errors in ("strict", "surrogateescape") else given.errors
        sys.stdout = _Output(given.detach(), encoding, errors, line_buffering=by_line)
    try:
        if "--json" in sys.argv[1:]:
            raise SystemExit(run_with_json(app))
        app(prog_name="saeta")
    finally:
        sys.stdout.flush()


def _in_plain_words(failure: UnicodeError) -> tuple[str, int]:
    """Returns the replacement for characters that the output's encoding lacks, such as "..." in ASCII."""
    if not isinstance(failure, UnicodeEncodeError):
        raise failure
    letters = failure.object[failure.start : failure.end]
    plain = [PLAIN.get(each, each.encode("ascii", "backslashreplace").decode()) for each in letters]
    return "".join(plain), failure.end


codecs.register_error("saeta.plain", _in_plain_words)


class _Output(io.TextIOWrapper):
    """Standard output that ends the program when its reader is gone (`saeta info | head -1`).

    The program ends with clean-up and without a message. typer and rich would exit with 1, which means that a
    check failed.
    """

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._end()

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._end()

    def _end(self) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # discards the buffered output
        raise SystemExit(BROKEN_PIPE) from None
