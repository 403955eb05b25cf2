"""Converts NumPy arrays to another type: floats to the nearest float, all other values exactly.

An error names the first value that the type can't represent.
"""

from __future__ import annotations

from typing import Any

from saeta import _core
from saeta._convert.exact_values import Cast, arrow_array, arrow_type, refusal_error
from saeta._convert.from_numpy import dense, mask_of, plain
from saeta._core import DataType
from saeta._optional import load
from saeta.errors import InvalidError, TypeMismatch

# The Arrow format to which pyarrow converts each kind of NumPy dtype.
NATURAL = {"b": "b", "U": "u", "T": "u", "S": "z"}
NUMBERS = tuple("cCsSiIlLefg")
TIME_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns", "D": "D"}
# The first and the last day of dates: of 32 bits, and of 64 bits in milliseconds.
DAYS = {"tdD": (-(2**31), 2**31 - 1), "tdm": (-106_751_991_167, 106_751_991_167)}
# The type of NumPy's times whose range or unit Arrow lacks, by the kind of the dtype and the unit.
COARSE_TIMES = {
    **dict.fromkeys(("MY", "MM", "MW", "MD"), "date32[day]"),
    **dict.fromkeys(("Mh", "Mm"), "timestamp[s]"),
    **dict.fromkeys(("mW", "mD", "mh", "mm"), "duration[s]"),
}


def array_of_type(name: str, array: Any, wanted: DataType | None, cast: Cast) -> Any:
    """Converts a NumPy array to the type.

    Returns an array with its mask if DLPack has the type, else a pyarrow array.

    Raises:
        TypeMismatch: the type is for values of another kind.
        InvalidError: the type can't represent a value.
    """
    if array.ndim != 1:
        raise InvalidError(f"column '{name}': a column is 1-D, the array has shape {array.shape}")
    kind = array.dtype.kind
    if wanted is None:
        fits_tensor = (kind in "biuf" and array.dtype.itemsize <= 8) or _core._narrow_float_type(
            array.dtype.name
        )
        return array if fits_tensor else _infer_type(name, array)
    if wanted.dtype == array.dtype.name:
        return array
    if wanted.format == NATURAL.get(kind):
        return _infer_type(name, array)
    if kind in "iuf" and wanted.format in NUMBERS and wanted.dtype not in (None, "bool"):
        return _numbers(name, array, wanted, cast)
    if kind in "Mm" and wanted.format.startswith({"M": ("ts", "td"), "m": ("tD",)}[kind]):
        return _times(name, array, wanted, cast)
    return arrow_array(name, _to_list(array), wanted, cast)


def _infer_type(name: str, array: Any) -> Any:
    """Converts the array to the type that pyarrow infers."""
    if array.dtype.names is not None:
        raise TypeMismatch(
            f"column '{name}': its values have the fields {', '.join(array.dtype.names)}: name a struct "
            "type, or make a column of each field"
        )
    kind = array.dtype.kind
    if kind == "V":
        return arrow_array(
            name, _to_list(array), DataType(f"fixed_size_binary[{array.dtype.itemsize}]"), None
        )
    if kind == "T":  # pyarrow 26 is the first that reads NumPy's strings of any length
        return arrow_array(name, _to_list(array), DataType("string"), None)
    if kind not in "bUSMm":
        return arrow_array(name, _to_list(array), None, None)
    if kind in "Mm":
        unit = load("numpy", f"column '{name}': an array").datetime_data(array.dtype)[0]
        if (coarse := COARSE_TIMES.get(kind + unit)) is not None:
            return _times(name, array, DataType(coarse), None)
    pyarrow = load("pyarrow", f"column '{name}': an array of {array.dtype}")
    mask, values = mask_of(array), dense(plain(array))
    try:
        return pyarrow.array(values, mask=mask)
    except pyarrow.ArrowException as failure:
        raise InvalidError(f"column '{name}': {failure}") from failure


def _to_list(array: Any) -> list[Any]:
    """Returns the values as Python objects, with None for masked ones."""
    mask, bare = mask_of(array), plain(array)
    values: list[Any] = list(bare) if array.dtype.kind in "Mm" else bare.tolist()
    if array.dtype.kind == "T":  # a missing text is the object that the dtype names
        values = [value if isinstance(value, str) else None for value in values]
    return (
        values if mask is None else [None if out else value for value, out in zip(values, mask, strict=True)]
    )


def _numbers(name: str, array: Any, wanted: DataType, cast: Cast) -> Any:
    numpy = load("numpy", f"column '{name}': an array")
    mask, values = mask_of(array), dense(plain(array))
    target = numpy.dtype(wanted.dtype)
    with numpy.errstate(all="ignore"):  # unrepresentable values are found by comparison below
        within, converted = _cut(numpy, values, target)
        rounds = cast is not None or values.dtype.kind == target.kind == "f"
        fits = within if rounds else within & _is_equal(numpy, values, converted)
    _require(name, values, fits, mask, wanted, within, converted)
    return converted if mask is None else numpy.ma.array(converted, mask=mask)


def _cut(numpy: Any, values: Any, target: Any) -> tuple[Any, Any]:
    """Returns which numbers are in the type's range, and all numbers truncated or rounded to the type."""
    if target.kind == "f":
        converted = values.astype(target)
        finite = numpy.isfinite(converted)
        return finite if values.dtype.kind != "f" else finite | ~numpy.isfinite(values), converted
    bounds = numpy.iinfo(target)
    if values.dtype.kind != "f":
        return (values >= bounds.min) & (values <= bounds.max), values.astype(target)
    whole = numpy.trunc(values.astype("f8") if values.dtype.itemsize < 8 else values)
    # Both bounds are powers of two, which floats represent exactly.
    within = (whole >= float(bounds.min)) & (whole < float(int(bounds.max) + 1))
    return within, numpy.where(within, whole, 0).astype(target)


def _is_equal(numpy: Any, values: Any, converted: Any) -> Any:
    """Returns which converted numbers equal their originals. The comparison never rounds."""
    if values.dtype.kind != "f" and converted.dtype.kind == "f":
        wide = converted.astype("f8")
        bounds = numpy.iinfo(values.dtype)
        inside = (wide >= float(bounds.min)) & (wide < float(int(bounds.max) + 1))
        return inside & (numpy.where(inside, wide, 0).astype(values.dtype) == values)
    return converted.astype(values.dtype) == values


def _times(name: str, array: Any, wanted: DataType, cast: Cast) -> Any:
    numpy, pyarrow = (load(library, f"column '{name}': an array") for library in ("numpy", "pyarrow"))
    if wanted.format.startswith("ts") and wanted.format[4:]:
        raise TypeMismatch(
            f"column '{name}': {array.dtype} has no time zone, and {wanted.name} has one: "
            f"array.astype('M8[{TIME_UNITS[wanted.format[2]]}]') with reinterpret=True is taken for UTC"
        )
    if array.dtype.kind == "m" and numpy.datetime_data(array.dtype)[0] in ("Y", "M", "generic"):
        raise TypeMismatch(
            f"column '{name}': {array.dtype} has no fixed length in {wanted.name}: months and years vary"
        )
    mask, values = mask_of(array), dense(plain(array))
    unit = "D" if wanted.format.startswith("td") else TIME_UNITS[wanted.format[2]]
    converted = values.astype(f"{values.dtype.kind}8[{unit}]")
    back, missing = converted.astype(values.dtype), numpy.isnat(values)
    first, last = DAYS.get(wanted.format, (-(2**63), 2**63 - 1))
    number = converted.astype("i8")
    in_range = (number >= first) & (number <= last)
    fits = missing | in_range & (back == values)
    given, one = numpy.datetime_data(values.dtype)[0], numpy.timedelta64(1, unit)
    if given in ("Y", "M") or numpy.timedelta64(1, given) >= one:  # nothing to truncate
        within = fits
    else:
        within = fits | in_range & (abs(values - back) < one)
    _require(name, values, fits if cast is None else within, mask, wanted, within, converted)
    return pyarrow.array(converted, arrow_type(name, wanted), mask=mask)


def _require(
    name: str, values: Any, fits: Any, mask: Any, wanted: DataType, within: Any, converted: Any
) -> None:
    if mask is not None:
        fits = fits | mask
    if not fits.all():
        row = int(fits.argmin())
        raise refusal_error(
            name, row, _value(values, row), wanted.name, _value(converted, row) if within[row] else None
        )


def _value(array: Any, row: int) -> Any:
    return array[row] if array.dtype.kind in "Mm" else array[row].item()
