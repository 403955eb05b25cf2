"""Imports NumPy arrays that DLPack can't export as they are.

These are masked arrays, misaligned arrays, other byte orders, and types of ml_dtypes.
"""

from __future__ import annotations

import sys
from typing import Any

from saeta import _core
from saeta._core import Column, Schema, Table, from_dlpack
from saeta._optional import load
from saeta.errors import ExchangeError, InvalidError, TypeMismatch


def from_array(
    array: Any,
    ctx: Any,
    copy: bool | None,
    name: str,
    columns: bool,
    schema: Schema | None,
    reinterpret: bool,
) -> Column | Table | None:
    """Imports such an array as `from_dlpack` would.

    Returns None for an array that DLPack can export, or that it refuses for another reason.
    """

    def take(values: Any, fields: Schema | None = schema) -> Any:
        if columns:
            return from_dlpack(values, ctx, copy=copy, columns=True, schema=fields, reinterpret=reinterpret)
        return from_dlpack(values, ctx, copy=copy, name=name)

    if is_masked_array(array):
        mask = mask_of(array)
        if mask is not None and copy is False:
            raise ExchangeError(
                "the mask of a NumPy array has one byte per value and a validity buffer one bit, and a copy "
                "was forbidden"
            )
        result = take(plain(array))
        return result if mask is None else _masked(result, mask, schema)
    narrow = _core._narrow_float_type(array.dtype.name)
    if narrow is not None:
        result = take(array.view(f"u{array.dtype.itemsize}"), None)
        return result._with_type_of_bytes(narrow) if not columns else _table_of(result, narrow, schema)
    reason = _reason_to_copy(array)
    if reason is None:
        return None
    if copy is False:
        raise ExchangeError(
            f"the NumPy array {reason}: a column needs a copy of it, and a copy was forbidden"
        )
    whole: Column | Table = take(dense(array))
    return whole


def is_array(value: Any) -> bool:
    """Whether the value is a NumPy array. False while NumPy is not imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_masked_array(value: Any) -> bool:
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(value, ma.MaskedArray)


def mask_of(array: Any) -> Any:
    """Returns the mask of an array, True for masked values. None if no value is masked."""
    if not is_masked_array(array):
        return None
    mask = load("numpy.ma", "a masked array").getmask(array)
    if mask.dtype.names is not None:
        raise TypeMismatch(
            f"the mask of a NumPy array has the fields {', '.join(mask.dtype.names)}, and only whole values "
            "can be null: take the fields one by one"
        )
    return mask if mask.any() else None


def plain(array: Any) -> Any:
    """Returns the values of an array without its mask."""
    return (
        array
        if not is_masked_array(array)
        else load("numpy.ma", "a masked array").getdata(array, subok=False)
    )


def dense(array: Any) -> Any:
    """Returns the values in a form that DLPack and Arrow can use.

    This is the array's own memory if possible, else a copy.
    """
    native = array.dtype.newbyteorder("=")
    if native.kind in "Mm":  # only NumPy has units such as ten seconds
        unit = load("numpy", "an array of times").datetime_data(native)[0]
        native = native if unit == "generic" else f"{native.kind}8[{unit}]"
    return array.astype(native, order="K", copy=_reason_to_copy(array) is not None)


def _reason_to_copy(array: Any) -> str | None:
    width = array.dtype.itemsize
    if not array.dtype.isnative:
        return "has values in another byte order"
    if not array.flags.aligned:
        return f"is not aligned to its values of {width} bytes"
    steps = [step for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1]
    if width and any(step % width for step in steps):
        return f"has strides of {array.strides} bytes, which are not multiples of its values of {width} bytes"
    return None


def _masked(source: Column | Table, mask: Any, schema: Schema | None) -> Column | Table:
    if isinstance(source, Column):
        return source._masked(from_dlpack(~mask, source.context))
    valid = from_dlpack(~mask, source.context, columns=True)
    columns = [column._masked(rows) for column, rows in zip(source.columns, valid.columns, strict=True)]
    for field, column in zip(schema.fields if schema is not None else (), columns, strict=False):
        if not field.nullable and column.null_count:
            raise InvalidError(
                f"column '{field.name}' has {column.null_count} nulls, and its field allows none"
            )
    table = _core._from_columns(source.context, columns)
    return table if schema is None else table._with_schema(schema)


def _table_of(bits: Table, narrow: _core.DataType, schema: Schema | None) -> Table:
    columns = [column._with_type_of_bytes(narrow) for column in bits.columns]
    if schema is not None:
        if len(schema) != len(columns):
            raise TypeMismatch(f"the array has {len(columns)} columns and the schema {len(schema)} fields")
        columns = [column._with_field(field) for column, field in zip(columns, schema.fields, strict=True)]
    return _core._from_columns(bits.context, columns)
