"""The command line, run in this process: how options map to arguments, and how the command ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import saeta as sa

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from saeta import _core, cli
from saeta.cli import app as commands
from saeta.cli import bench, convert, demo, info, inspect, load, profile


def run(monkeypatch, module, *arguments):
    """Runs a command and returns the arguments that its function was called with."""
    got = []
    monkeypatch.setattr(module, "run", lambda *plain, **named: got.append((plain, named)))
    done = CliRunner().invoke(commands.app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    (found,) = got
    return found


def test_every_option_of_demo(monkeypatch):
    plain = {
        "rows": 6_000_000,
        "seed": 19_920_102,
        "device": None,
        "budget": None,
        "out": None,
        "timeline": None,
    }
    assert run(monkeypatch, demo, "demo") == ((None,), {**plain, "as_json": False})
    options = (
        "--rows",
        5,
        "--seed",
        6,
        "--device",
        "host",
        "--budget",
        "1MiB",
        "--out",
        "o",
        "--timeline",
        "t",
    )
    assert run(monkeypatch, demo, "demo", "a.arrow", *options, "--json") == (
        (Path("a.arrow"),),
        {
            "rows": 5,
            "seed": 6,
            "device": "host",
            "budget": "1MiB",
            "out": Path("o"),
            "timeline": Path("t"),
            "as_json": True,
        },
    )


def test_every_option_of_load(monkeypatch):
    plain = {"device": None, "budget": None, "columns": None, "rounds": 1, "check": False, "as_json": False}
    assert run(monkeypatch, load, "load", "a", "b") == ((["a", "b"],), plain)
    options = ("--device", "host", "--budget", "1MiB", "--columns", "x,y", "--rounds", 3, "--check", "--json")
    assert run(monkeypatch, load, "load", "a", *options) == (
        (["a"],),
        {
            "device": "host",
            "budget": "1MiB",
            "columns": "x,y",
            "rounds": 3,
            "check": True,
            "as_json": True,
        },
    )


def test_every_option_of_profile(monkeypatch):
    plain = {"device": None, "budget": None, "columns": None, "rounds": 3, "cold": False, "as_json": False}
    assert run(monkeypatch, profile, "profile", "a") == (("a",), plain)
    options = ("--device", "host", "--budget", "1MiB", "--columns", "x,y", "--rounds", 5, "--cold", "--json")
    assert run(monkeypatch, profile, "profile", "a", *options) == (
        ("a",),
        {
            "device": "host",
            "budget": "1MiB",
            "columns": "x,y",
            "rounds": 5,
            "cold": True,
            "as_json": True,
        },
    )


def test_every_option_of_convert(monkeypatch):
    plain = {
        "to": None,
        "compression": None,
        "batch_size": None,
        "columns": None,
        "as_json": False,
        "level": None,
    }
    assert run(monkeypatch, convert, "convert", "a", "b") == ((Path("a"), Path("b")), plain)
    options = (
        "--to",
        "file",
        "--compression",
        "lz4",
        "--level",
        3,
        "--batch-size",
        7,
        "--columns",
        "x",
        "--json",
    )
    assert run(monkeypatch, convert, "convert", "a", "b", *options) == (
        (Path("a"), Path("b")),
        {"to": "file", "compression": "lz4", "batch_size": 7, "columns": "x", "as_json": True, "level": 3},
    )


def test_every_option_of_bench(monkeypatch):
    words = ("device", "threads", "only", "commit")
    paths = ("folder", "out", "plot")
    options = [part for word in (*words, *paths) for part in (f"--{word}", f"the-{word}")]
    got = run(monkeypatch, bench, "bench", *options, "--bytes", "5MiB", "--rounds", 2, "--quick", "--json")
    assert got == (
        (),
        {
            **{word: f"the-{word}" for word in words},
            **{word: Path(f"the-{word}") for word in paths},
            "size": "5MiB",
            "rounds": 2,
            "quick": True,
            "as_json": True,
        },
    )
    (), plain = run(monkeypatch, bench, "bench")
    assert plain == {
        **dict.fromkeys((*words, *paths, "size", "rounds")),
        "quick": False,
        "commit": "",
        "as_json": False,
    }


def test_info_and_inspect_take_their_file_and_json(monkeypatch):
    assert run(monkeypatch, info, "info") == ((False,), {})
    assert run(monkeypatch, info, "info", "--json") == ((True,), {})
    assert run(monkeypatch, inspect, "inspect", "a") == ((Path("a"), False), {})
    assert run(monkeypatch, inspect, "inspect", "a", "--json") == ((Path("a"), True), {})


@pytest.mark.parametrize("command", ["info", "inspect a", "demo", "load a", "convert a b", "bench"])
def test_an_error_of_every_command_has_its_code_and_json(monkeypatch, command):
    def fail(*_, **__):
        raise sa.DeviceError("no such device")

    for module in (bench, convert, demo, info, inspect, load):
        monkeypatch.setattr(module, "run", fail)
    done = CliRunner().invoke(commands.app, [*command.split(), "--json"])
    assert done.exit_code == 5
    assert json.loads(done.stdout)["error"]["message"] == "no such device"
    done = CliRunner().invoke(commands.app, command.split())
    assert (done.exit_code, done.stdout, done.stderr) == (5, "", "DeviceError: no such device\n")


def test_version_and_help_exit_immediately():
    done = CliRunner().invoke(commands.app, ["--version", "info"])
    assert (done.exit_code, done.stdout) == (0, f"saeta {_core._version()}\n")
    text = " ".join(CliRunner().invoke(commands.app, ["load", "--help"]).stdout.split())
    for part in ("as_json", "add_completion"):
        assert part not in text
    assert "Show" in text
    assert "--install-completion" not in CliRunner().invoke(commands.app, ["--help"]).stdout
    assert CliRunner().invoke(commands.app, []).exit_code == 2


def test_commands_need_only_typer_and_rich(monkeypatch, capsys):
    for name in ("typer", "rich.console", "click"):

        def missing(name=name):
            raise ImportError(f"No module named {name!r}", name=name)

        monkeypatch.setitem(sys.modules, "saeta.cli.app", Failing(missing))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 6
        assert capsys.readouterr().err == (
            f"the command saeta needs typer and rich: No module named {name!r} (pip install 'saeta[cli]')\n"
        )

    def other():
        raise ImportError("No module named 'numpy'", name="numpy")

    monkeypatch.setitem(sys.modules, "saeta.cli.app", Failing(other))
    with pytest.raises(ImportError, match="numpy"):
        cli.main()


class Failing(type(sys)):
    def __init__(self, fail):
        super().__init__("saeta.cli.app")
        self.__dict__["fail"] = fail

    def __getattr__(self, name):
        if name == "app":
            self.fail()
        raise AttributeError(name)


def test_a_closed_output_pipe_ends_with_141(monkeypatch):
    class Gone(io.BytesIO):
        gone = True

        def write(self, data):
            if self.gone:
                raise BrokenPipeError
            return len(data)

    replaced = []
    monkeypatch.setattr(cli.os, "dup2", lambda new, old: replaced.append((new, old)))
    monkeypatch.setattr(cli.os, "open", lambda path, flags: replaced.append((path, flags)) or 9)
    monkeypatch.setattr(cli._Output, "fileno", lambda self: 77)
    by_line, later = (cli._Output(Gone(), "utf-8", line_buffering=each) for each in (True, False))
    later.write("no line")
    for act in (lambda: by_line.write("a line\n"), later.flush):
        replaced.clear()
        with pytest.raises(SystemExit) as ended:
            act()
        assert ended.value.code == 141
        assert replaced == [(cli.os.devnull, cli.os.O_WRONLY), (9, 77)]
    Gone.gone = False
    by_line.detach()
    later.detach()


def test_the_command_wraps_stdout_to_end_quietly(monkeypatch):
    seen = []
    given = io.TextIOWrapper(io.BytesIO(), "latin-1", "replace", line_buffering=True)
    monkeypatch.setattr(sys, "stdout", given)

    def app(*, prog_name):
        seen.append(
            (prog_name, type(sys.stdout), sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering)
        )
        print("é€")

    monkeypatch.setitem(sys.modules, "saeta.cli.app", SimpleNamespace(app=app))
    cli.main()
    assert seen == [("saeta", cli._Output, "latin-1", "replace", True)]
    assert sys.stdout.buffer.getvalue() == b"\xe9?\n"


def test_an_output_without_a_file_descriptor_is_not_wrapped(monkeypatch):
    given = io.StringIO()
    monkeypatch.setattr(sys, "stdout", given)
    monkeypatch.setitem(sys.modules, "saeta.cli.app", SimpleNamespace(app=lambda prog_name: print(prog_name)))
    cli.main()
    assert sys.stdout is given
    assert given.getvalue() == "saeta\n"
