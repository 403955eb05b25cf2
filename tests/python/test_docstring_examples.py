"""Public functions, classes and modules have examples in their docstrings, and all examples run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import saeta as sa
from docstring_examples import (
    ON_GPU,
    NotInstalledError,
    other_code,
    public_docstrings,
    public_examples,
    run_example,
)

EXAMPLES = public_examples()
# Their examples change settings of the process and run in processes of their own.
SETS_THE_PROCESS_UP = {
    "saeta.Memory.guard_check",
    "saeta.SpillHandle.spill",
    "saeta.cuda.install",
    "saeta.install_reducers",
}
WITH_A_GPU = {name for name, text in EXAMPLES.items() if ON_GPU.search(text)}
ANYWHERE = EXAMPLES.keys() - WITH_A_GPU - SETS_THE_PROCESS_UP
ON_A_SIMULATED_DEVICE = [
    name for name in EXAMPLES if name in WITH_A_GPU and name.startswith("saeta.cuda") and "numba" not in name
]
PROGRAM = f"""
import sys
sys.path.append({str(Path(__file__).resolve().parents[1] / "python_support")!r})
from docstring_examples import NotInstalledError, run_example
try:
    run_example(sys.argv[1])
except NotInstalledError as missing:
    print(missing)
"""


def run_alone(run_python, name):
    done = run_python(PROGRAM, name)
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout:
        pytest.skip(done.stdout.strip())


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_the_example_of_a_docstring_runs(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # examples write files to the current directory
    try:
        run_example(name)
    except NotInstalledError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", sorted(SETS_THE_PROCESS_UP & EXAMPLES.keys()))
def test_the_example_runs_in_its_own_process(run_python, name):
    run_alone(run_python, name)


@pytest.mark.parametrize("name", ON_A_SIMULATED_DEVICE)
def test_the_example_of_saeta_cuda_runs_on_a_simulated_device(name):
    from cuda_module import simulated

    with simulated():
        run_example(name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(WITH_A_GPU))
def test_the_example_runs_on_a_gpu(run_python, name):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    run_alone(run_python, name)


def test_every_public_function_class_and_module_has_an_example():
    assert [name for name in public_docstrings(of_members=False) if name not in EXAMPLES] == []


def test_docstrings_of_overloads_have_each_signature_once():
    assert [name for name, text in public_docstrings().items() if "Overloaded function." in text] == []


def test_all_code_in_docstrings_is_an_example():
    found = {name: other_code(text) for name, text in public_docstrings().items()}
    assert {name: code for name, code in found.items() if code} == {}
    assert other_code("Does it.\n\n    import saeta\n    saeta.info()\n\nSo it does.") == ["    import saeta"]


def test_an_example_is_skipped_only_if_its_library_is_not_installed():
    if importlib.util.find_spec("torch") is None:
        with pytest.raises(NotInstalledError, match="torch is not installed"):
            run_example("saeta.Column.to_torch")
    else:
        run_example("saeta.Column.to_torch")
