"""Supported releases of Ray, and the errors for others."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

import saeta as sa


def test_the_error_without_ray_names_the_install_command(run_python):
    program = """
import sys
sys.modules["ray"] = None
import saeta
try:
    import saeta.ray
except saeta.MissingDependency as failure:
    print(failure)
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert "pip install ray" in done.stdout


@pytest.mark.parametrize("release", ["2.60.0", "2.60.1", "2.61.0rc0", "2.100.3"])
def test_supported_releases_are_accepted(release):
    pytest.importorskip("ray")
    from saeta.ray import _release

    _release.require_supported(release)


@pytest.mark.parametrize(
    ("release", "why"),
    [("2.59.1", "too old"), ("1.13.0", "too old"), ("3.0.0", "too new"), ("10.1", "too new")],
)
def test_the_error_for_another_release_names_both_versions(release, why):
    pytest.importorskip("ray")
    from saeta.ray import _release

    with pytest.raises(sa.MissingDependency, match=rf"ray {release} is {why}, expected ray 2\.60"):
        _release.require_supported(release)


def test_the_error_names_a_release_with_a_moved_interface(monkeypatch):
    pytest.importorskip("ray")
    import ray.experimental.rdt

    from saeta.ray import _release

    monkeypatch.delattr(ray.experimental.rdt, "TensorTransportManager")
    with pytest.raises(sa.MissingDependency, match=r"2\.77\.0 .*interface of tensor transports"):
        _release.require_interfaces("2.77.0")


def test_the_error_names_transport_methods_that_a_newer_release_requires():
    pytest.importorskip("ray")
    from saeta.ray import _release
    from saeta.ray._transport import TableTransport

    class Newer(ABC):
        @abstractmethod
        def compress(self):
            pass

        @abstractmethod
        def announce(self):
            pass

    _release.require_complete(TableTransport, "2.60.0")
    with pytest.raises(sa.MissingDependency, match=r"ray 2\.77\.0 .* wants announce, compress"):
        _release.require_complete(Newer, "2.77.0")


def test_importing_the_package_does_not_import_ray_data(run_python):
    pytest.importorskip("ray")
    done = run_python("import sys, saeta.ray; print('ray.data' in sys.modules)")
    assert done.stdout == "False\n", done.stderr
