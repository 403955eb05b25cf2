"""The commands and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from saeta import _core
from saeta.cli.exits import MEANINGS, report_failures

EXIT_CODES = "Exit codes: " + "; ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items()) + "."

app = typer.Typer(
    help="Arrow columns on a device, exchanged without a copy and in order.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
)

Device = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help='"host", "cuda" or "cuda:1".', show_default="the best there is"),
]
Budget = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help='For example "8GiB", or "50%" of the device.', show_default="none"),
]
Columns = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Names of the columns, separated by commas.", show_default="all"),
]
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
    """Shows devices, memory and versions, and how to get what is missing."""
    from saeta.cli import info as command

    with report_failures(as_json):
        command.run(as_json)


@app.command(epilog=EXIT_CODES)
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="An Arrow IPC file or stream, a Parquet file, a folder or a glob; - for standard input.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Shows schema, batches, rows, nulls, compression and dictionaries of a file; of a folder, its files."""
    from saeta.cli import inspect as command

    with report_failures(as_json):
        command.run(file, as_json)


# typer reads these annotations while the module is loaded, and older releases support only Optional.
@app.command(epilog=EXIT_CODES)
def demo(
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            help="An Arrow IPC file. Default: a generated table like TPC-H's lineitem.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows of the generated table.")] = 6_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated table.")] = 19920102,
    device: Device = None,
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
        typer.Option(help="HTML file for a picture of the memory in use over time.", show_default="none"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Runs a full round trip and checks each step.

    A file is read onto the device under a budget, its columns are passed to frameworks without a copy, a
    result column is imported without a copy, and the table is written to a file and compared value by value.
    """
    from saeta.cli import demo as command

    with report_failures(as_json):
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


@app.command(epilog=EXIT_CODES)
def load(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Arrow IPC or Parquet: files, globs, folders, URLs; - for standard input.",
            show_default=False,
        ),
    ],
    device: Device = None,
    budget: Budget = None,
    columns: Columns = None,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="Number of loads. The later ones are compared with the link."),
    ] = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the values with what pyarrow reads.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Loads files onto the device. Shows the rate, and what the memory holds."""
    from saeta.cli import load as command

    with report_failures(as_json):
        command.run(
            files,
            device=device,
            budget=budget,
            columns=columns,
            rounds=rounds,
            check=check,
            as_json=as_json,
        )


@app.command(epilog=EXIT_CODES)
def profile(
    file: Annotated[
        str,
        typer.Argument(help="Arrow IPC or Parquet: a file, a glob, a folder, a URL.", show_default=False),
    ],
    device: Device = None,
    budget: Budget = None,
    columns: Columns = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of timed reads. The one with the median time is shown.")
    ] = 3,
    cold: Annotated[
        bool, typer.Option("--cold", help="Take the file out of the page cache before each read.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Shows where the time of a read goes: file, decoding, link and kernels.

    Beside it are the limits of the machine, measured in the same run, and what bounds the read.
    """
    from saeta.cli import profile as command

    with report_failures(as_json):
        command.run(
            file,
            device=device,
            budget=budget,
            columns=columns,
            rounds=rounds,
            cold=cold,
            as_json=as_json,
        )


@app.command(epilog=EXIT_CODES)
def convert(
    source: Annotated[Path, typer.Argument(help="Arrow IPC, Parquet or CSV.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(help="An Arrow IPC file or stream, or Parquet.", show_default=False)
    ],
    to: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help='"file", "stream" or "parquet".', show_default="by the suffix"),
    ] = None,
    compression: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help='"none", "lz4" or "zstd"; for Parquet also "snappy", "gzip" or "brotli".',
            show_default="none",
        ),
    ] = None,
    level: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Level of the compression.", show_default="the fastest"),
    ] = None,
    batch_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="Number of rows in a batch.",
            show_default="as they come, at most 4 MiB with a compression",
        ),
    ] = None,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Converts a file: Arrow IPC, Parquet or CSV in, Arrow IPC or Parquet out."""
    from saeta.cli import convert as command

    with report_failures(as_json):
        command.run(
            source,
            target,
            to=to,
            compression=compression,
            level=level,
            batch_size=batch_size,
            columns=columns,
            as_json=as_json,
        )


@app.command(epilog=EXIT_CODES)
def bench(
    device: Device = None,
    size: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--bytes", help="Size of each file and table.", show_default="2GiB"),
    ] = None,
    threads: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Numbers of threads, separated by commas.", show_default="1,2,4,8,16"),
    ] = None,
    rounds: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Number of rounds. The median is shown.", show_default="5"),
    ] = None,
    only: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Run only the jobs whose name contains this.", show_default="all"),
    ] = None,
    folder: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Folder for the files. Needs seven times --bytes.", show_default="the temporary one"
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run every job on little data, in seconds. Its rates mean nothing."),
    ] = False,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="JSON file for the results.", show_default="none"),
    ] = None,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Picture of the results: .png, .svg or .pdf.", show_default="none"),
    ] = None,
    commit: Annotated[str, typer.Option(help="Name of the measured commit, for the JSON file.")] = "",
    as_json: Json = False,
) -> None:
    """Measures the rates of data movement on this machine.

    Shows each rate as a share of the machine's limit, and the rates of other tools.
    """
    from saeta.cli import bench as command

    with report_failures(as_json):
        command.run(
            device=device,
            size=size,
            threads=threads,
            rounds=rounds,
            only=only,
            folder=folder,
            quick=quick,
            out=out,
            plot=plot,
            commit=commit,
            as_json=as_json,
        )
