"""Arguments that the compiled functions refuse, and their error messages."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import saeta as sa
from saeta import _core


class Number:
    def __init__(self, index):
        self._index = index

    def __index__(self):
        return self._index()


def test_a_row_index_must_fit_64_bits(host):
    table = sa.table({"n": [1, 2, 3]}, host)
    assert table.column(Number(lambda: 0)).name == table.column(-1).name == "n"
    for wrong in (1, -2):
        with pytest.raises(sa.OutOfRange, match=f"column {wrong} of a table with 1 columns"):
            table.column(wrong)
    with pytest.raises(sa.OutOfRange, match="column number of more than 64 bits of a table with 1 columns"):
        table.column(2**70)

    def fail():
        raise LookupError("no number today")

    with pytest.raises(LookupError, match="no number today"):
        table.column(Number(fail))
    with pytest.raises(sa.TypeMismatch, match="the bounds of a slice must be numbers of rows, or None"):
        table["a":"b"]
    with pytest.raises(LookupError, match="no number today"):
        table[Number(fail) : 2]
    assert table[Number(lambda: 1) : 3]["n"].to_pylist() == [2, 3]


def test_invalid_column_names_are_not_found(host):
    with pytest.raises(sa.ColumnNameError):
        sa.table({"n": [1]}, host).column("\udfff")


def test_a_row_count_is_one_number(host):
    table = sa.table({"n": [1, 2, 3]}, host)
    one = sa.column(np.array([2], "i8"), host, name="count")
    assert sa.counted_table(table, one).num_rows == 2
    with pytest.raises(sa.InvalidError, match="a row count is one number, not 2 chunks"):
        sa.counted_table(table, sa.Column.from_chunks([one, one]))


def test_chosen_tensor_accepts_only_columns_and_tables():
    choices = _core._TensorChoices()
    with pytest.raises(
        sa.TypeMismatch, match="can't make a tensor of an object of type int: expected a Column or a Table"
    ):
        _core._ChosenTensor(3, choices, on_host=True)


def test_a_released_schema_in_a_capsule_is_refused():
    capsule = sa.schema({"a": "int32"}).__arrow_c_schema__()

    class Given:
        def __arrow_c_schema__(self):
            return capsule

    assert sa.schema(Given()).names == ["a"]
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = read(capsule, b"arrow_schema")
    fields = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
    release = 7  # its index after format, name, metadata, flags, n_children, children and dictionary
    kept = fields[release]
    fields[release] = None
    with pytest.raises(sa.ClosedError, match="the schema in the capsule was released already"):
        sa.schema(Given())
    fields[release] = kept


class VersionedTensor(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


def test_a_tensor_of_another_major_version_is_refused(host):
    source = np.arange(3)

    class Later:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            capsule = source.__dlpack__(max_version=(1, 0))
            read = ctypes.pythonapi.PyCapsule_GetPointer
            read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            ctypes.cast(read(capsule, b"dltensor_versioned"), ctypes.POINTER(VersionedTensor))[0].major = 7
            return capsule

    with pytest.raises(sa.ExchangeError, match=r"version is 7\.0 and only major version 1 can be read"):
        sa.from_dlpack(Later(), host)
    capsule = Later().__dlpack__()
    with pytest.raises(
        sa.ExchangeError,
        match=r"the tensor is of DLPack version 7\.0, only major version 1 is supported",
    ):
        _core._tensor_device(capsule)
    assert _core._tensor_device(source.__dlpack__(max_version=(1, 0))) == (1, 0)
    assert _core._tensor_device(source.__dlpack__()) == (1, 0)


def test_a_shareable_context_can_be_opened_twice(run_python):
    program = """
from saeta import _core
made = _core._shareable_context("host")
assert made == _core._shareable_context("host")
print(made.device)
"""
    done = run_python(program)
    assert (done.stderr, done.stdout) == ("", "host\n")


@pytest.mark.parametrize(
    "chosen",
    [
        {"nulls": "nan"},
        {"fill": 0},
        {"reinterpret": True},
        {"codes": True},
        {"order": "row"},
        {"dtype": "float32"},
    ],
)
def test_tensor_options_tell_whether_values_are_exported_unchanged(chosen):
    assert _core._TensorChoices().shows_values
    assert _core._TensorChoices(nulls="mask").shows_values
    assert not _core._TensorChoices(**chosen).shows_values


class Named:
    """Stands in for a torch dtype, whose name is available only by str()."""

    __module__ = "torch"

    def __init__(self, text):
        self._text = text

    def __str__(self):
        return self._text


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (Named("torch.int32"), "int32"),
        (Named("torch.float16"), "float16"),
        (np.float32, "float32"),
        (np.dtype("i8"), "int64"),
        ("uint8", "uint8"),
        (sa.DataType("int16"), "int16"),
    ],
)
def test_a_dtype_is_named_as_frameworks_name_it(host, dtype, kind):
    column = sa.column(
        [1, 2], host, name="n", type="int8" if kind != "uint16" and kind != "uint8" else "uint8"
    )
    assert column.to_numpy(dtype=dtype).dtype == kind


def test_a_fill_is_a_number(host):
    column = sa.column([1, None], host, name="n")
    with pytest.raises(sa.TypeMismatch, match="fill is of type object, expected a number"):
        column.to_numpy(fill=object())
    assert column.to_numpy(fill=Number(lambda: 7)).tolist() == [1, 7]


def test_slices_cover_all_chunks_and_are_bounds_checked(host):
    parts = [sa.column(values, host, name="n", type="int64") for values in ([0, 1], [2], [3, 4, 5])]
    column = sa.Column.from_chunks(parts)
    whole = list(range(6))
    for offset in range(7):
        for length in range(7 - offset):
            assert column.slice(offset, length).to_pylist() == whole[offset : offset + length]
    for offset, length in ((0, 7), (1, 6), (3, 4), (6, 1), (7, 0), (-1, 1), (1, -1)):
        with pytest.raises(
            sa.OutOfRange,
            match=rf"rows \[{offset}, {offset} \+ {length}\) of a column with 6 rows",
        ):
            column.slice(offset, length)


def test_the_index_of_a_duplicate_name_is_an_error():
    schema = sa.schema([("a", "int8"), ("b", "int8"), ("a", "int16"), ("c", "int8"), ("b", "int8")])
    assert [schema.get_field_index(name) for name in "abcd"] == [-1, -1, 3, -1]


def test_the_count_of_a_counted_table_is_a_column(host):
    table = sa.table({"n": [1, 2, 3]}, host)
    counted = sa.counted_table(table, sa.column(np.array([2], "i8"), host, name="count"))
    assert counted.count.name == "rows"
    assert (counted.count.type, counted.count.to_pylist()) == ("int64", [2])
    assert not counted.count.field.nullable
    assert counted.capacity.num_rows == 3


def test_a_wait_ends_only_when_it_is_cancelled(run_python):
    program = """
import saeta as sa
from saeta import _core

ctx = sa.context("host", budget="64KiB", wait=0.2)
block = ctx.allocate("64KiB")
cancellation = _core._Cancellation()
for _ in range(2):
    try:
        with cancellation:
            ctx.allocate(1)
    except sa.Error as failure:
        print(type(failure).__name__)
    cancellation.cancel()
"""
    done = run_python(program)
    assert (done.stderr, done.stdout) == ("", "BudgetExceeded\nClosedError\n")


def test_to_torch_with_an_incomplete_torch_is_an_attribute_error(run_python):
    program = """
import sys, types
import saeta as sa

sys.modules["torch"] = types.ModuleType("torch")
column = sa.column([1, 2], "host", name="n")
try:
    column.to_torch()
except AttributeError as failure:
    print(failure)
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert "from_dlpack" in done.stdout
