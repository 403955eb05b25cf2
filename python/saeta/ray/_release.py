"""Checks at import that the installed Ray has the interfaces that this package needs."""

from __future__ import annotations

import re

from saeta._optional import load
from saeta.errors import MissingDependency

OLDEST = (2, 60)  # the first release that was tested
BEFORE = (3, 0)
WANTED = f"'ray>={OLDEST[0]}.{OLDEST[1]},<{BEFORE[0]}'"


def require_supported(release: str) -> None:
    """Raises MissingDependency for a release of Ray that is too old or too new."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    known = (int(numbers[1]), int(numbers[2])) if numbers else None
    if known is None or not OLDEST <= known < BEFORE:
        old = known is not None and known < OLDEST
        raise MissingDependency(
            f"saeta.ray: ray {release} is {'too old' if old else 'too new'}, expected ray "
            f"{OLDEST[0]}.{OLDEST[1]} or later, and before {BEFORE[0]}.{BEFORE[1]} (pip install {WANTED})"
        )


def require_interfaces(release: str) -> None:
    """Raises MissingDependency for a release that has moved the interface of tensor transports.

    Ray may change this interface in any release, because it is in alpha.
    """
    try:
        from ray.experimental import register_tensor_transport as register_tensor_transport
        from ray.experimental.rdt import CommunicatorMetadata as CommunicatorMetadata
        from ray.experimental.rdt import TensorTransportManager as TensorTransportManager
        from ray.experimental.rdt import TensorTransportMetadata as TensorTransportMetadata
    except ImportError as failure:
        raise _other_interface(release, str(failure)) from failure


def require_complete(transport: type, release: str) -> None:
    """Raises MissingDependency for a release that requires transport methods that `transport` lacks."""
    lacking = sorted(getattr(transport, "__abstractmethods__", ()))
    if lacking:
        raise _other_interface(release, f"it also wants {', '.join(lacking)}")


def _other_interface(release: str, reason: str) -> MissingDependency:
    return MissingDependency(
        f"saeta.ray: ray {release} has another interface of tensor transports: {reason} (pip install "
        f"'ray=={OLDEST[0]}.{OLDEST[1]}.*')"
    )


RELEASE = str(load("ray", "saeta.ray").__version__)
require_supported(RELEASE)
require_interfaces(RELEASE)
