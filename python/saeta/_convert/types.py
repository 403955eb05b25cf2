"""Makes types, fields and schemas from text in Arrow's notation, or from objects of other Arrow libraries.

Examples: "timestamp[us, tz=UTC]", "list<item: int64>", "struct<a: int8, b: string not null>[...]".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from saeta import _core
from saeta._core import DataType, Field, Schema, SymbolTable
from saeta._text import did_you_mean
from saeta.errors import InvalidError, TypeMismatch

# Names without parameters, and their format strings in the Arrow C Data Interface. Where the name that Arrow
# prints differs from pyarrow's name, both are listed.
FORMATS = {
    "null": "n",
    "bool": "b",
    "bool_": "b",
    "boolean": "b",
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "halffloat": "e",
    "float16": "e",
    "float": "f",
    "float32": "f",
    "double": "g",
    "float64": "g",
    "date32": "tdD",
    "date32[day]": "tdD",
    "date64": "tdm",
    "date64[ms]": "tdm",
    "month_interval": "tiM",
    "day_time_interval": "tiD",
    "month_day_nano_interval": "tin",
    "binary": "z",
    "large_binary": "Z",
    "string": "u",
    "str": "u",
    "utf8": "u",
    "large_string": "U",
    "large_utf8": "U",
    "binary_view": "vz",
    "string_view": "vu",
    "utf8_view": "vu",
}
UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+),\s*(-?\d+)\)")
TIMED = re.compile(r"(time32|time64|duration|timestamp)\[(s|ms|us|ns)(?:,\s*tz=([^\]]+))?\]")
SIZED = re.compile(r"fixed_size_binary\[(\d+)\]")
DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+)(?:, ordered=([01]))?>")
BOOL8 = "extension<arrow.bool8>"
BYTE_BOOL = "bool8"
SYMBOL = "symbol"
LISTS = {"list": "+l", "large_list": "+L", "list_view": "+vl", "large_list_view": "+vL"}
UNIONS = {"dense_union": "+ud", "sparse_union": "+us"}
NESTED = re.compile(r"(\w+)<(.*)>(?:\[(\d+)\])?", re.DOTALL)
UNION_FIELD = re.compile(r"(.*)=(\d+)", re.DOTALL)
OPENING, CLOSING = "<[(", ">])"
# Names with parameters, and those of other libraries for types of Arrow.
PARAMETRIC = (
    *("decimal32", "decimal64", "decimal128", "decimal256", "time32", "time64", "duration", "timestamp"),
    *(
        "fixed_size_binary",
        "dictionary",
        "fixed_size_list",
        "struct",
        "map",
        *LISTS,
        *UNIONS,
        "symbol",
        "bool8",
    ),
)
OF_OTHERS = {
    "int": "int64",
    "uint": "uint64",
    "long": "int64",
    "half": "float16",
    "datetime64": "timestamp",
    "datetime": "timestamp",
    "timedelta64": "duration",
    "timedelta": "duration",
    "date": "date32",
    "category": "dictionary<values=string, indices=int32>",
    "bytes": "binary",
    "text": "string",
    "decimal": "decimal128",
    "array": "list",
}
# Types of Python, which NumPy reads in the same way. Arrow's word "float" is another type: float32.
OF_PYTHON = {bool: "bool", int: "int64", float: "float64", str: "string", bytes: "binary"}
OF_NUMPY = {"datetime64[D]": "date32", "datetime64": "timestamp", "timedelta64": "duration"}


def data_type(given: Any) -> DataType:
    """Implements `DataType(...)`: returns the type that `given` names, describes or is."""
    if isinstance(given, DataType):
        return given
    if isinstance(given, str):
        return _type_of_text(given.strip())
    if hasattr(given, "__arrow_c_schema__"):
        return _core._import_field(given.__arrow_c_schema__()).type
    if name := _name_of_dtype(given):
        return _type_of_text(name)
    named = given if isinstance(given, type) else type(given)
    raise TypeMismatch(
        f"{named.__name__} is not a type: expected text in Arrow's words, as 'timestamp[us, tz=UTC]', "
        "a DataType, an object with __arrow_c_schema__, as the types of pyarrow, or a dtype of NumPy or torch"
    )


def _name_of_dtype(given: Any) -> str | None:
    """Returns Arrow's name of a dtype of NumPy, torch, CuPy or JAX, or of a corresponding Python type."""
    if isinstance(given, type) and given in OF_PYTHON:
        return OF_PYTHON[given]
    if type(given).__module__ == "torch":
        return str(given).removeprefix("torch.")
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(given, numpy.dtype | type):
        return None
    dtype = numpy.dtype(given)
    if dtype.kind in "OSUT":
        return None
    if not dtype.isnative:
        raise InvalidError(f"{dtype!r} is not a type: Arrow's values have the byte order of this machine")
    name: str = dtype.name
    unit, bracket, rest = name.partition("[")
    return OF_NUMPY.get(name) or OF_NUMPY.get(unit, unit) + bracket + rest


def parts_of(given: Any) -> tuple[list[Field], Any]:
    """Returns the fields and the metadata of a schema.

    Each field is given as a Field, a field of another Arrow library, or a pair of name and type.
    """
    if hasattr(given, "__arrow_c_schema__") and not isinstance(given, Schema):
        given = _core._import_schema(given.__arrow_c_schema__())
    if isinstance(given, Schema):
        return list(given.fields), given.metadata
    if isinstance(given, Field):
        return [given], None
    if isinstance(given, Mapping):
        given = given.items()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeMismatch(
            f"{type(given).__name__} is not a sequence of fields: expected Field objects or pairs (name, "
            "type)"
        )
    return [field_of(item) for item in given], None


def field_of(given: Any) -> Field:
    """Makes a field from a Field, a field of another Arrow library, or a pair of name and type."""
    if isinstance(given, Field):
        return given
    if hasattr(given, "__arrow_c_schema__"):
        return _core._import_field(given.__arrow_c_schema__())
    if isinstance(given, tuple | list) and len(given) in (2, 3) and isinstance(given[0], str):
        return Field(*given)
    raise TypeMismatch(f"{given!r} is not a field: expected a Field, a pyarrow field or a pair (name, type)")


def _type_of_text(text: str) -> DataType:
    if text == BOOL8:
        return _core._bool8_type()
    if text == BYTE_BOOL:
        return _core._byte_bool_type()
    if text == SYMBOL:
        return SymbolTable.default().type
    if match := DICTIONARY.fullmatch(text):
        values, indices = _type_of_text(match[1]), _type_of_text(match[2])
        return _core._dictionary_type(indices, values, match[3] == "1")
    if narrow := _core._narrow_float_type(text.removeprefix("extension<").removesuffix(">")):
        return narrow
    if format_text := FORMATS.get(text) or _format_with_parameters(text):
        return _core._type_of_format(format_text)
    if nested := _nested_type(text):
        return nested
    raise InvalidError(
        f"'{text}' is not a type: expected Arrow's words for one, as 'int64', 'decimal128(12, 2)', 'string', "
        "'timestamp[us, tz=UTC]', 'dictionary<values=string, indices=int32>' or 'list<item: int64>'"
        f"{_meant_type(text)}"
    )


def _meant_type(text: str) -> str:
    """Returns which type was probably meant, by its name without parameters."""
    name, bracket, rest = next((part for part in map(text.partition, "[(<") if part[1]), (text, "", ""))
    plain = did_you_mean(name, (*FORMATS, *PARAMETRIC), OF_OTHERS)
    return plain.replace("'?", f"{bracket}{rest}'?") if bracket and plain else plain


def _format_with_parameters(text: str) -> str | None:
    if match := DECIMAL.fullmatch(text):
        bits, precision, scale = match.groups()
        return f"d:{precision},{scale},{bits}"
    if match := SIZED.fullmatch(text):
        return f"w:{match[1]}"
    match = TIMED.fullmatch(text)
    if match is None or (match[3] and match[1] != "timestamp"):
        return None
    unit = UNITS[match[2]]
    if match[1].startswith("time") and match[1] != "timestamp":
        wide = match[1] == "time64"
        return f"tt{unit}" if wide == (unit in "un") else None
    return f"tD{unit}" if match[1] == "duration" else f"ts{unit}:{match[3] or ''}"


def _nested_type(text: str) -> DataType | None:
    """Returns the nested type that `text` names, None for any other text."""
    match = NESTED.fullmatch(text)
    if match is None:
        return None
    name, inside, size = match.groups()
    parts = [part.strip() for part in _split(inside)]
    if name in LISTS and size is None and len(parts) == 1:
        return _core._nested_type(LISTS[name], [_field(parts[0], "item")])
    if name == "fixed_size_list" and size is not None and len(parts) == 1:
        return _core._nested_type(f"+w:{size}", [_field(parts[0], "item")])
    if size is not None:
        return None
    if name == "struct":
        return _core._nested_type("+s", [_field(part) for part in parts])
    if name == "map":
        return _map(parts)
    if name in UNIONS:
        return _union(UNIONS[name], parts)
    if name == "run_end_encoded" and len(parts) == 2:
        ends, values = (_field(part) for part in parts)
        return _core._nested_type("+r", [ends.with_nullable(False), values])
    return None


def _map(parts: list[str]) -> DataType | None:
    keys_sorted = parts[2:] == ["keys_sorted"]
    if len(parts) != 2 + keys_sorted:
        return None
    entries = [Field("key", _type_of_text(parts[0]), False), _field(f"value: {parts[1]}")]
    return _core._nested_type("+m", [Field("entries", _core._nested_type("+s", entries), False)], keys_sorted)


def _union(kind: str, parts: list[str]) -> DataType | None:
    matches = [UNION_FIELD.fullmatch(part) for part in parts]
    fields = [_field(one[1]) for one in matches if one]
    codes = ",".join(one[2] for one in matches if one)
    return _core._nested_type(f"{kind}:{codes}", fields) if all(matches) else None


def _field(text: str, unnamed: str = "") -> Field:
    """Parses a field as Arrow prints it, "name: type not null". A missing name becomes `unnamed`."""
    nullable = not text.endswith(" not null")
    text = text.removesuffix(" not null")
    name, colon, type_text = text.partition(": ")
    if not colon or any(letter in name for letter in OPENING):
        name, type_text = unnamed, text
    return Field(name, _type_of_text(type_text.strip()), nullable)


def _split(text: str) -> Iterator[str]:
    """Yields the parts between commas that are not inside brackets."""
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter in OPENING) - (letter in CLOSING)
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text.strip():
        yield text[start:]


def field(
    name: str,
    type: DataType | str | object,  # noqa: A002
    nullable: bool = True,
    metadata: Mapping[Any, Any] | None = None,
) -> Field:
    """Makes a Field, as `pyarrow.field` does: see `saeta.Field`.

    Example:
        >>> import saeta as sa
        >>> sa.field("fare", "float64", nullable=False).nullable
        False
    """
    return Field(name, type, nullable, metadata)


def schema(fields: object, metadata: Mapping[Any, Any] | None = None) -> Schema:
    """Makes a Schema, as `pyarrow.schema` does: see `saeta.Schema`.

    Example:
        >>> import saeta as sa
        >>> sa.schema([("a", "int64"), sa.field("b", "string", nullable=False)]).names
        ['a', 'b']
    """
    return Schema(fields, metadata)
