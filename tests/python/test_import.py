"""`import saeta` loads nothing heavy and needs neither a GPU nor NumPy nor pyarrow."""

from __future__ import annotations

HEAVY = (
    "numpy", "pyarrow", "pandas", "polars", "torch", "cupy", "jax", "duckdb", "typer", "click", "rich",
    "importlib.metadata", "email.message", "asyncio", "ctypes",
)  # fmt: skip


def test_import_loads_nothing_heavy(run_python):
    program = f"""
import sys

before = set(sys.modules)
import saeta

print(sorted({set(HEAVY)!r} & (set(sys.modules) - before)))
"""
    done = run_python(program)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_core_works_without_numpy_and_pyarrow(run_python):
    program = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import array
import saeta as sa

ctx = sa.context("host")
assert ctx.device == "host"
assert sa.devices()[-1].name == "host"
print(sa.table({}, ctx))
for call in (lambda: sa.read_ipc("x.arrow", ctx), lambda: sa.table({"a": [1]}, ctx)):
    try:
        call()
    except sa.MissingDependency as failure:
        assert isinstance(failure, ImportError)
        assert "pip install" in str(failure), failure
    else:
        raise AssertionError("nothing was missing")
missing = {each["part"]: each["why"] for each in sa.info()["missing"]}
assert "pyarrow" in missing["ipc"], missing
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert "on host: 0 rows x 0 columns" in done.stdout


def test_the_command_says_what_it_needs(run_python):
    program = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "typer":
            raise ModuleNotFoundError("No module named 'typer'", name=name)

sys.meta_path.insert(0, Absent())
from saeta.cli import main
main()
"""
    done = run_python(program)
    assert done.returncode == 6
    assert "pip install typer rich" in done.stderr


def test_a_pyarrow_of_another_release_is_named(run_python):
    program = """
import pyarrow
pyarrow.__version__ = "1.2.3"
import saeta as sa
try:
    sa.ipc.module()
except sa.MissingDependency as failure:
    print(failure)
"""
    done = run_python(program)
    assert "built with pyarrow" in done.stdout, done.stderr
    assert "1.2.3 is installed" in done.stdout
