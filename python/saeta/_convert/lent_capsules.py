"""Takes several DLPack capsules at once: all of them are consumed, or none."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from saeta._core import _capsule_name, _LentCapsule
from saeta.errors import Error

DLPACK = ("dltensor", "dltensor_versioned", "used_dltensor", "used_dltensor_versioned")


class lent:  # noqa: N801 - a context manager, used as a function
    """Gives a block the values, with DLPack capsules as tensors that `from_dlpack` takes.

    The capsules are consumed when the block succeeds. After an exception the caller has them back.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values
        self._capsules: list[_LentCapsule] = []

    def __enter__(self) -> list[Any]:
        try:
            return [self._lend(value) for value in self._values]
        except BaseException:
            self._give_back()
            raise

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is not None:
            self._give_back()
            return
        for capsule in self._capsules:
            capsule.keep()

    def _lend(self, value: Any) -> Any:
        if _capsule_name(value) not in DLPACK:
            return value
        self._capsules.append(_LentCapsule(value))
        return self._capsules[-1]

    def _give_back(self) -> None:
        for capsule in self._capsules:
            with suppress(Error):  # the failure of the block is raised
                capsule.give_back()
