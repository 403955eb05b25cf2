"""Decodes dictionary columns, and makes dictionary arrays of pyarrow."""

from __future__ import annotations

from typing import Any

from saeta._core import Column, DataType
from saeta._optional import load
from saeta.errors import InvalidError


def decoded(column: Column) -> Column:
    """Returns the values that the rows of a dictionary column refer to, taken on its device."""
    parts = [values._take(indices) for values, indices in column._dictionary_parts()]
    return Column.from_chunks(parts, column.name)


def dictionary_array(name: str, values: Any, wanted: DataType, target: Any) -> Any:
    """Returns an array of pyarrow as one of the dictionary type `target`, whose name is that of `wanted`.

    Raises:
        InvalidError: the indices of the type can't number the values.
    """
    pyarrow = load("pyarrow", f"column '{name}': a dictionary")
    indices, distinct = _encoded(pyarrow, values)
    try:
        indices = indices.cast(target.index_type)
    except pyarrow.ArrowInvalid as failure:
        raise InvalidError(
            f"column '{name}' has {len(distinct)} different values, more than {wanted.name} can number"
        ) from failure
    return pyarrow.DictionaryArray.from_arrays(indices, distinct, ordered=target.ordered)


def dictionary_encode(pyarrow: Any, values: Any) -> Any:
    """Returns an array of pyarrow as its own method does, which knows half floats from release 26 on."""
    if not pyarrow.types.is_float16(values.type):
        return values.dictionary_encode()
    bits = values.view("uint16").dictionary_encode()
    return pyarrow.DictionaryArray.from_arrays(bits.indices, bits.dictionary.view("float16"))


def _encoded(pyarrow: Any, values: Any) -> tuple[Any, Any]:
    """Returns indices and the values to which they refer."""
    try:
        encoded = dictionary_encode(pyarrow, values)
    except (
        pyarrow.ArrowNotImplementedError
    ):  # pyarrow can't compare values of this type, so each row gets its own entry
        places = iter(range(len(values)))
        valid = values.is_valid().to_pylist()
        return pyarrow.array([next(places) if each else None for each in valid], "int64"), values.drop_null()
    return encoded.indices, encoded.dictionary
