"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from saeta import _core
from saeta.cli.exits import MEANINGS, reported

EXIT_CODES = "Exit codes: " + "; ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items()) + "."

app = typer.Typer(
    help="Arrow columns on a device, exchanged without a copy and in order.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"saeta {_core._version()}")
        raise typer.Exit


@app.callback()
def saeta(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog=EXIT_CODES)
def info(as_json: Json = False) -> None:
    """Devices, memory, versions, and what is missing with how to get it."""
    from saeta.cli import info as command

    with reported(as_json):
        command.run(as_json)


@app.command(epilog=EXIT_CODES)
def inspect(
    file: Annotated[Path, typer.Argument(help="An Arrow IPC file or stream.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Schema, batches, rows, nulls, compression and dictionaries of a file."""
    from saeta.cli import inspect as command

    with reported(as_json):
        command.run(file, as_json)


# typer reads these annotations while the module is loaded, and older releases know Optional only.
@app.command(epilog=EXIT_CODES)
def demo(
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            help="An Arrow IPC file. Without one, a table like TPC-H's lineitem is made.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the table that is made.")] = 6_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the table that is made.")] = 19920102,
    device: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help='"host", "cuda" or "cuda:1".', show_default="the best there is"),
    ] = None,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help='For example "8GiB", or "50%" of the device.', show_default="what the file needs"),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder for the files, which stay there.", show_default="a temporary folder"),
    ] = None,
    timeline: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="HTML file for a picture of the memory in use during all of it.", show_default="none"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The whole trip with its proofs: a file onto the device under a budget, its columns to the frameworks without a copy,
    a result column back without a copy, the table to a file again, compared value by value."""
    from saeta.cli import demo as command

    with reported(as_json):
        command.run(
            file,
            rows=rows,
            seed=seed,
            device=device,
            budget=budget,
            out=out,
            timeline=timeline,
            as_json=as_json,
        )
