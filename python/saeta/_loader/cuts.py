"""Cuts tensors of torch and JAX into batches in the least time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from saeta._core import Column, Table, from_dlpack
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices
from saeta._loader.records import PLAIN, Conversion
from saeta._optional import load

# Views made at once: the first of more views would have left the processor's caches before its use.
TORCH_CUTS = 64


def cut_for_torch(made: Any, rows: int) -> Iterator[Any]:
    """Cuts a tensor by the function of torch that makes views in the least time.

    Autograd does not connect such views with the tensor, so only they may be written to, or only the tensor.
    The program gets the views alone.
    """
    split = load("torch", "saeta.loader").unsafe_split_with_sizes
    whole, rest = divmod(len(made), rows)
    sizes = [rows] * whole + [rest] * (rest > 0)
    groups = [sizes[first : first + TORCH_CUTS] for first in range(0, len(sizes), TORCH_CUTS)]
    return chain.from_iterable(map(split, split(made, [sum(group) for group in groups]), groups))


def cut_for_jax(source: Column | Table, how: Conversion, rows: int) -> Iterable[Any]:
    """Cuts columns, because JAX compiles a program for each slice of an array."""
    if isinstance(source, Column) and not how.keywords():
        parts = range(0, len(source), rows)
        return (source.slice(first, min(rows, len(source) - first)).to_jax() for first in parts)
    choices = Choices(*how)
    values = from_dlpack(Exported(source, choices), source.context)
    if not how.masks:
        return cut_for_jax(values, PLAIN, rows)
    mask = from_dlpack(Exported(source, choices.mask()), source.context)
    return zip(cut_for_jax(values, PLAIN, rows), cut_for_jax(mask, PLAIN, rows), strict=True)


def cut_array(made: Any, rows: int) -> Iterator[Any]:
    """Cuts an array of NumPy or CuPy: iterating over an axis makes a view in less time than slicing does."""
    whole = len(made) // rows
    batches = made[: whole * rows].reshape(whole, rows, *made.shape[1:])
    rest = made[whole * rows :]
    return chain(batches, [rest] if len(rest) else [])
