"""Reports what this build and this machine can do, and how to install what is missing."""

from __future__ import annotations

from typing import Any

from saeta import _core, _libarrow
from saeta._optional import distribution
from saeta.errors import MissingDependency

# Packages that Saeta exchanges data with, with the names of their distributions.
PEERS: dict[str, tuple[str, ...]] = {
    "pyarrow": ("pyarrow",),
    "numpy": ("numpy",),
    "pandas": ("pandas",),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
    "torch": ("torch",),
    "cupy": ("cupy", "cupy-cuda13x", "cupy-cuda12x"),
    "jax": ("jax",),
}


def info() -> dict[str, Any]:
    """Returns versions, devices and packages found.

    For each missing part it says why it is missing and how to get it.

    Imports none of the packages except pyarrow, whose libarrow saeta.cuda needs.

    Example:
        >>> import saeta as sa
        >>> sorted(sa.info())[:2]
        ['cuda', 'devices']
    """
    import platform

    runtime = _core._runtime()
    bridge = _bridge_state()
    packages = {name: _version_of(distributions) for name, distributions in PEERS.items()}
    return {
        "version": _core._version(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "devices": [_device(device) for device in _core.devices()],
        "cuda": {
            "built": runtime["built_with_cuda"],
            "usable": runtime["cuda_usable"],
            "runtime": runtime["cuda_runtime"] or None,
            "driver": runtime["cuda_driver"] or None,
        },
        "saeta.cuda": {key: bridge[key] for key in ("usable", "built_for", "loaded")},
        "packages": packages,
        "missing": _missing(
            {
                "cuda": runtime["cuda_missing"],
                "saeta.cuda": bridge["missing"],
            },
            packages,
        ),
    }


def _device(device: _core.Device) -> dict[str, Any]:
    names = ("name", "model", "architecture", "driver", "total_bytes", "free_bytes", "multiprocessors")
    return {name: getattr(device, name) for name in names}


def _bridge_state() -> dict[str, Any]:
    """The state of the modules that link the libarrow inside pyarrow."""
    try:
        module, _ = (
            _libarrow.load(name, "pyarrow's device memory (saeta.cuda)") for name in ("_bridge", "_arrow")
        )
    except MissingDependency as failure:
        return {"usable": False, "built_for": None, "loaded": None, "missing": str(failure)}
    return {
        "usable": True,
        "built_for": module.built_arrow_version(),
        "loaded": module.loaded_arrow_version(),
        "missing": "",
    }


def _version_of(distributions: tuple[str, ...]) -> str | None:
    import importlib.metadata

    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _missing(own: dict[str, str], packages: dict[str, str | None]) -> list[dict[str, str]]:
    parts = [{"part": name, "why": why} for name, why in own.items() if why]
    for name, version in packages.items():
        if version is None:
            parts.append({"part": name, "why": f"not installed (pip install {distribution(name)})"})
    return parts
