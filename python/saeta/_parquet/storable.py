"""Which types Parquet can hold: those of which pyarrow can write a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from saeta._optional import load
from saeta.errors import ColumnNameError, UnsupportedError


def require_writable(schema: Any) -> None:
    """Raises UnsupportedError for the first column of a schema of pyarrow that Parquet can't hold."""
    reasons: dict[Any, str | None] = {}
    for field in schema:
        reason = _reason(field.type, reasons)
        if reason is not None:
            raise UnsupportedError(
                f"column '{field.name}' is of type {field.type}, which a Parquet file can't hold: {reason}"
            )


def leaves_of(schema: Any, names: Iterable[str]) -> list[str]:
    """Returns the paths in a Parquet file of all that columns are made of.

    Raises ColumnNameError for a column that does not exist.
    """
    wanted = list(names)
    for name in wanted:
        if name not in schema.names:
            raise ColumnNameError(
                f"use_dictionary: no column is named {name!r}: there are {schema.names[:9]}"
            )
    return [path for name in dict.fromkeys(wanted) for path in _paths(schema.field(name))]


def _paths(field: Any) -> Iterator[str]:
    parquet = load("pyarrow.parquet", "writing Parquet")
    pyarrow = load("pyarrow", "writing Parquet")
    target = pyarrow.BufferOutputStream()
    parquet.ParquetWriter(target, pyarrow.schema([field])).close()
    described = parquet.ParquetFile(pyarrow.BufferReader(target.getvalue())).metadata.schema
    return (described.column(number).path for number in range(len(described)))


def _reason(type_: Any, known: dict[Any, str | None]) -> str | None:
    """Returns why a type can't be written, None if it can."""
    if type_ not in known:
        known[type_] = _refusal(type_)
        for part in _parts(type_):
            known[type_] = known[type_] or _reason(part, known)
    return known[type_]


def _refusal(type_: Any) -> str | None:
    """Writes a null. Null lists have no values, so the types of values are tried as well."""
    pyarrow = load("pyarrow", "writing Parquet")
    if pyarrow.types.is_fixed_size_list(type_) and type_.list_size == 0:
        return "its lists have no values"  # pyarrow 26 ends the process for some of them
    try:
        rows = pyarrow.table({"": pyarrow.nulls(1, type_)})
        load("pyarrow.parquet", "writing Parquet").write_table(rows, pyarrow.MockOutputStream())
    except pyarrow.ArrowInvalid:  # the null, where a field allows none
        return None
    except (pyarrow.ArrowException, OSError) as failure:
        return str(failure)
    return None


def _parts(type_: Any) -> list[Any]:
    if isinstance(type_, load("pyarrow", "writing Parquet").BaseExtensionType):
        return _parts(type_.storage_type)
    return [type_.field(number).type for number in range(type_.num_fields)]
