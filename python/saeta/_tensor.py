"""Exports columns and tables as tensors of other libraries.

The compiled module reads and checks the keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices

if TYPE_CHECKING:
    from saeta._core import Column, Table

__all__ = ["Choices", "Exported", "tensor_of"]


def tensor_of(source: Column | Table, take: Callable[[Any], Any], **chosen: Any) -> Any:
    """Exports a column or table through `take`, the `from_dlpack` of a library.

    With `with_mask=True` returns the tensor of the values and the tensor of their validity.
    """
    if not chosen:
        return take(source)
    how = Choices(**chosen)
    values = take(Exported(source, how))
    return (values, take(Exported(source, how.mask()))) if how.with_mask else values
