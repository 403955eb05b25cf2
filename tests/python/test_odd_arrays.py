"""NumPy arrays whose layout a column can't view (alignment, strides, byte order): copied, or refused with
copy=False."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa

# Packed records as in binary files. The header of three bytes misaligns the other fields.
FRAME = np.dtype([("head", "u1", 3), ("left", "<i2"), ("right", "<f4"), ("when", "M8[s]"), ("name", "U2")])


def packed(rows: int = 5) -> np.ndarray:
    made = np.zeros(rows, FRAME)
    made["left"] = np.arange(rows)
    made["right"] = np.arange(rows) / 2
    made["when"] = np.arange(rows).astype("M8[s]")
    made["name"] = [str(row) for row in range(rows)]
    return made


def behind_a_byte(values: np.ndarray) -> np.ndarray:
    """Returns the values contiguous at an odd address."""
    room = np.empty(values.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(values.tobytes(), np.uint8)
    made = room[1:].view(values.dtype).reshape(values.shape)
    assert not made.flags.aligned
    return made


ODD = {
    "a field of packed records": (packed()["left"], "is not aligned to its values of 2 bytes"),
    "floats of packed records": (packed()["right"], "is not aligned to its values of 4 bytes"),
    "an odd address": (behind_a_byte(np.arange(5)), "is not aligned to its values of 8 bytes"),
    "an odd address backwards": (behind_a_byte(np.arange(5.0))[::-1], "is not aligned"),
    "a matrix at an odd address": (behind_a_byte(np.arange(6).reshape(3, 2)), "is not aligned"),
    "another byte order": (np.arange(5, dtype=">i4"), "has values in another byte order"),
    "a matrix of another byte order": (
        np.arange(6, dtype=">f8").reshape(3, 2),
        "has values in another byte order",
    ),
    "one byte apart": (
        np.ndarray(3, np.uint16, np.zeros(9, np.uint16).tobytes(), 0, (6,))[:2],
        None,  # a stride of three values
    ),
}
WAYS = {
    "from_dlpack": lambda array, ctx: sa.from_dlpack(array, ctx),
    "column": lambda array, ctx: sa.column(array, ctx, name="x"),
    "table": lambda array, ctx: sa.table({"x": array}, ctx)["x"],
    "append_column": lambda array, ctx: sa.table({"y": [0] * len(array)}, ctx).append_column("x", array)["x"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ODD)
def test_odd_arrays_are_copied(anywhere, kind, way):
    array = ODD[kind][0]
    if array.ndim > 1 and way != "from_dlpack":
        pytest.skip("a column is 1-D")
    made = WAYS[way](array, anywhere)
    assert made.to_pylist() == array.tolist()
    assert made.type.dtype == array.dtype.name


@pytest.mark.parametrize("kind", [kind for kind, (_, why) in ODD.items() if why is not None])
def test_an_odd_array_is_refused_with_copy_false(host, kind):
    array, why = ODD[kind]
    with pytest.raises(BufferError, match=f"the NumPy array {why}.*copy was forbidden") as caught:
        sa.from_dlpack(array, host, copy=False)
    assert isinstance(caught.value, sa.ExchangeError)


def test_a_stride_that_is_not_a_multiple_of_the_item_size_needs_a_copy(host):
    records = np.zeros(4, np.dtype({"names": ["a"], "formats": ["<i4"], "offsets": [0], "itemsize": 6}))
    records["a"] = range(4)
    array = records["a"][:1]
    assert sa.from_dlpack(array, host, copy=False).to_pylist() == [0]  # a single value may have any stride
    assert sa.from_dlpack(records["a"], host).to_pylist() == [0, 1, 2, 3]
    with pytest.raises(sa.ExchangeError, match=r"NumPy array .*copy was forbidden"):
        sa.from_dlpack(records["a"], host, copy=False)


def test_types_that_dlpack_lacks_are_imported_from_packed_records(host):
    frames = packed(3)
    table = sa.table({name: frames[name] for name in ("left", "right", "when", "name")}, host)
    assert table.to_pydict() == {name: frames[name].tolist() for name in table.column_names}
    assert sa.column(frames["left"], host, name="left", type="float32").to_pylist() == [0, 1, 2]
    assert (
        sa.column(frames["when"], host, name="when", type="timestamp[us]").to_pylist()
        == frames["when"].tolist()
    )


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_odd_matrix_becomes_a_table(anywhere, order):
    matrix = np.array([[1, 2], [3, 4], [5, 6]], ">i4", order=order)
    for odd in (matrix, behind_a_byte(np.ascontiguousarray(matrix.astype("<i4")))):
        assert sa.table(odd, anywhere).to_pydict() == {"col_0": [1, 3, 5], "col_1": [2, 4, 6]}
        assert sa.from_dlpack(odd.T, anywhere, columns=True).to_pydict()["col_2"] == [5, 6]
        with pytest.raises(sa.ExchangeError, match="copy was forbidden"):
            sa.from_dlpack(odd, anywhere, columns=True, copy=False)


def test_a_masked_odd_array_keeps_its_mask(host):
    array = np.ma.array(packed()["left"], mask=[0, 1, 0, 0, 1])
    assert sa.from_dlpack(array, host).to_pylist() == [0, None, 2, 3, None]
    assert sa.column(array, host, name="x").to_pylist() == [0, None, 2, 3, None]


def test_bytes_at_an_odd_address_are_copied(host):
    odd = behind_a_byte(np.arange(5))
    assert sa.from_bytes([odd], host, schema={"x": "int64"}).to_pydict() == {"x": [0, 1, 2, 3, 4]}


def test_unsupported_shapes_and_types_are_still_refused(host):
    with pytest.raises(sa.ExchangeError, match="ndim is 0"):
        sa.from_dlpack(np.array(1), host)
    with pytest.raises(BufferError):
        sa.from_dlpack(np.array([1j]), host)
    with pytest.raises(sa.ExchangeError, match="strides"):
        sa.from_dlpack(np.arange(10)[::2], host, copy=False)
