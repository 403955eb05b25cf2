"""`import saeta` loads no large library and needs neither a GPU nor NumPy nor pyarrow."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

import pytest

import saeta as sa
from saeta import _libarrow

HEAVY = (
    "numpy", "pyarrow", "pandas", "polars", "torch", "cupy", "jax", "duckdb", "typer", "click", "rich",
    "importlib.metadata", "email.message", "asyncio", "ctypes",
)  # fmt: skip


def test_import_loads_no_large_library(run_python):
    program = f"""
import sys

before = set(sys.modules)
import saeta

print(sorted({set(HEAVY)!r} & (set(sys.modules) - before)))
"""
    done = run_python(program)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_importing_the_package_a_second_time_reuses_its_classes(run_python):
    program = """
import io, sys, warnings
warnings.simplefilter("error")
import saeta as first
import saeta.ipc
kept = first.table({"a": [1, None]}, "host")
kept.write_ipc(io.BytesIO())
for round in range(3):
    for name in [each for each in sys.modules if each.partition(".")[0] == "saeta"]:
        del sys.modules[name]
    import saeta as again
    assert again is not first
    assert (again.Table, again.Error, again.SymbolTable) == (first.Table, first.Error, first.SymbolTable)
    assert again.errors.Error is again.Error is sys.modules["saeta.errors"].Error
    assert again.context("host") == first.context("host")
    made = again.table({"a": [1, None]}, "host")
    assert made.equals(kept) and first.concat_tables([made, kept]).num_rows == 4
    written = io.BytesIO()
    again.write_ipc(made, written)
    assert again.read_ipc(written.getvalue(), "host").equals(kept)
    assert again.info()["version"] == again.__version__
    for package in (first, again):
        try:
            package.context("nowhere")
        except again.Error as failure:
            assert isinstance(failure, first.Error)
        else:
            raise AssertionError("no error")
import pickle
assert pickle.loads(pickle.dumps(kept)).equals(kept)
print("done")
"""
    done = run_python(program)
    assert (done.stdout.strip(), done.stderr) == ("done", "")


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
try:
    sa.table({"a": [1]}, ctx)
except sa.MissingDependency as failure:
    assert isinstance(failure, ImportError)
    assert "pip install 'pyarrow==" in str(failure), failure
else:
    raise AssertionError("nothing was missing")
missing = {each["part"]: each["why"] for each in sa.info()["missing"]}
assert "pyarrow" in missing["saeta.cuda"], missing
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert "on host: 0 rows x 0 columns" in done.stdout


def test_a_free_threaded_python_is_refused(run_python):
    done = run_python("import sys; sys.abiflags = 't'; import saeta")
    assert done.returncode != 0
    assert "ImportError: saeta needs a Python with the GIL" in done.stderr


def test_the_command_names_its_missing_packages(run_python):
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
    assert "pip install 'saeta[cli]'" in done.stderr


def test_saeta_cuda_without_pyarrow_is_a_missing_dependency(run_python):
    program = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import saeta as sa
try:
    import saeta.cuda
except sa.MissingDependency as failure:
    print(failure)
"""
    done = run_python(program)
    assert "pip install 'pyarrow==" in done.stdout, done.stderr


def test_the_error_names_an_unsupported_pyarrow_release(run_python):
    program = """
import pyarrow
pyarrow.__version__ = "1.2.3"
import saeta as sa
try:
    import saeta.cuda
except sa.MissingDependency as failure:
    print(failure)
"""
    done = run_python(program)
    major = pytest.importorskip("pyarrow").__version__.partition(".")[0]
    assert "this saeta works with pyarrow" in done.stdout, done.stderr
    assert "but pyarrow 1.2.3 is installed" in done.stdout
    assert f"pip install 'pyarrow=={major}.*'" in done.stdout


def test_the_pyarrow_release_is_found_without_importing_it(run_python):
    pytest.importorskip("pyarrow")
    program = """
import sys
import saeta as sa
assert "pyarrow" not in sys.modules
import saeta._bridge
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_a_pyarrow_without_metadata_is_imported_by_the_first_call(run_python):
    program = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "pyarrow" else found(name)
import saeta as sa
try:
    import saeta._bridge
except ModuleNotFoundError:
    import saeta.cuda
    assert saeta._bridge.built_arrow_version()
else:
    raise AssertionError("it was found")
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_consecutive_supported_releases_are_listed_as_a_range():
    assert _libarrow._listed([26]) == "26"
    assert _libarrow._listed([22, 23, 24]) == "22 to 24"
    assert _libarrow._listed([22, 24, 25]) == "22, 24 and 25"


def test_the_error_explains_a_libarrow_with_another_soname():
    failure = ImportError("libarrow.so.2601: cannot open shared object file: No such file or directory")
    said = str(_libarrow._explain(failure, "this test", "26.0.0"))
    assert "was built with pyarrow 26.1, but pyarrow 26.0.0 is installed" in said
    assert "pip install 'pyarrow==26.1.*'" in said
    assert "no working module for this test" in str(
        _libarrow._explain(ImportError("x"), "this test", "26.0.0")
    )


def test_the_error_explains_a_missing_extension_module(tmp_path, monkeypatch):
    monkeypatch.setattr(_libarrow, "PACKAGE", tmp_path)
    failure = ModuleNotFoundError("No module named 'saeta._arrow'", name="saeta._arrow")
    said = str(_libarrow._explain(failure, "this test", "26.0.0"))
    assert said == "this build of saeta has no working module for this test: No module named 'saeta._arrow'"
    (tmp_path / "_pyarrow26").mkdir()
    for minor in (12, 9):
        (tmp_path / "_pyarrow26" / f"_arrow.cpython-3{minor}-x86_64-linux-gnu.so").touch()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    said = str(_libarrow._explain(failure, "this test", "26.0.0"))
    assert (
        f"this test: this saeta has the module for Python 3.9 and 3.12, but this is Python {version}" in said
    )
    assert said.endswith("pip install --no-binary saeta saeta")


def test_building_with_another_pyarrow_needs_one_option():
    """The requirements that pip gets from the build back end for an isolated build."""
    back_end = pytest.importorskip("scikit_build_core.build")
    project = Path(__file__).resolve().parents[2]
    with contextlib.chdir(project):
        assert [each.split("==")[0] for each in back_end.get_requires_for_build_wheel({})].count(
            "pyarrow"
        ) == 1
        assert "pyarrow==25.0.0" in back_end.get_requires_for_build_wheel(
            {"build.requires": "pyarrow==25.0.0"}
        )


def test_an_install_hint_names_the_package_that_is_installed():
    from saeta._optional import load

    wanted = {
        "cupy": r"pip install cupy-cuda1\dx",
        "rmm": r"pip install rmm-cu1\d",
        "cuda.bindings.nothing": "cuda-bindings",
    }
    for package, command in wanted.items():
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            with pytest.raises(sa.MissingDependency, match=command):
                load(package, "this test")
    with pytest.raises(
        sa.MissingDependency, match=r"this test needs no_such_package: .*\(pip install no_such_package\)"
    ):
        load("no_such_package", "this test")
