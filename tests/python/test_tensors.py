"""Tensors of columns with values that tensors lack: nulls, times, dictionaries and bitmaps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import copies


def floats_in(ctx: sa.Context) -> sa.Column:
    return sa.from_arrow(pa.array([1.5, None, 3.5, None], pa.float32()), ctx)


def integers_in(ctx: sa.Context) -> sa.Column:
    return sa.from_arrow(pa.array([None, 7, None, 9, 10], pa.int16()), ctx)


def test_nulls_can_become_nan_in_floats(anywhere):
    floats = floats_in(anywhere)
    seen = floats.to_numpy(nulls="nan")
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, np.array([1.5, np.nan, 3.5, np.nan], np.float32))
    half = sa.from_arrow(pa.array([None, np.float16(2)], pa.float16()), anywhere)
    np.testing.assert_array_equal(half.to_numpy(nulls="nan"), np.array([np.nan, 2], np.float16))


def test_nulls_can_be_filled_with_a_value(anywhere):
    integers, floats = integers_in(anywhere), floats_in(anywhere)
    assert integers.to_numpy(fill=-1).tolist() == [-1, 7, -1, 9, 10]
    assert integers.slice(1, 2).to_numpy(fill=np.int8(5)).tolist() == [7, 5]
    assert floats.to_numpy(fill=0.25).tolist() == [1.5, 0.25, 3.5, 0.25]
    assert floats.to_numpy(fill=np.float32(-1)).tolist() == [1.5, -1, 3.5, -1]
    large = sa.from_arrow(pa.array([None, 1], pa.uint64()), anywhere)
    assert large.to_numpy(fill=2**64 - 1).tolist() == [2**64 - 1, 1]
    bits = sa.from_arrow(pa.array([True, None, False]), anywhere)
    assert bits.to_numpy(fill=False).tolist() == [True, False, False]
    assert bits.to_numpy(fill=True).dtype == np.bool_


def test_a_mask_is_true_for_valid_values(anywhere):
    integers = integers_in(anywhere)
    values, mask = integers.to_numpy(nulls="mask")
    assert (values.dtype, mask.dtype) == (np.int16, np.bool_)
    assert mask.tolist() == [False, True, False, True, True]
    assert values[mask].tolist() == [7, 9, 10]
    full, all_true = sa.from_arrow(pa.array([1, 2]), anywhere).to_numpy(nulls="mask")
    assert full.tolist() == [1, 2]
    assert all_true.tolist() == [True, True]
    assert integers.is_valid().to_pylist() == mask.tolist()


def test_a_host_column_with_a_mask_shares_its_values(host):
    column = sa.from_arrow(pa.array([None, 7, 8], pa.int16()), host)
    values, _ = column.to_numpy(nulls="mask")
    assert values.ctypes.data == column.address
    assert not values.flags.writeable


@pytest.mark.parametrize("keywords", [{"nulls": "nan"}, {"fill": 0.0}])
def test_filling_nulls_copies_only_if_there_are_nulls(host, keywords):
    valid = sa.from_arrow(pa.array([1.0, 2.0]), host)
    assert valid.to_numpy(copy=False, **keywords).ctypes.data == valid.address
    holes = sa.from_arrow(pa.array([1.0, None]), host)
    with pytest.raises(BufferError, match="1 of 2 values of a double column are null and must be replaced"):
        holes.to_numpy(copy=False, **keywords)
    with pytest.raises(sa.ExchangeError, match="its validity is bits"):
        valid.to_numpy(copy=False, nulls="mask")
    assert copies(host) == 0


def test_chunks_are_joined_with_filled_nulls(host):
    column = sa.from_arrow(pa.chunked_array([[1, None], [None, 4]]), host)
    assert column.to_numpy(fill=0).tolist() == [1, 0, 0, 4]
    values, mask = column.to_numpy(nulls="mask")
    assert mask.tolist() == [True, False, False, True]
    assert values[mask].tolist() == [1, 4]


def test_the_error_for_nulls_names_the_options(anywhere):
    integers = integers_in(anywhere)
    with pytest.raises(BufferError, match=r"2 nulls.*fill=value or nulls='mask'"):
        integers.to_numpy()
    with pytest.raises(BufferError, match=r"2 of 5 values.*fill=value or nulls='mask'"):
        integers.__dlpack__()
    with pytest.raises(BufferError, match="no NaN"):
        integers.to_numpy(nulls="nan")


@pytest.mark.parametrize(
    ("keywords", "raised", "text"),
    [
        ({"fill": 40_000}, sa.OutOfRange, "fill 40000 for a column of type int16"),
        ({"fill": 2**64}, sa.OutOfRange, "does not fit"),
        ({"fill": 1.0}, sa.TypeMismatch, "expected an integer"),
        ({"fill": "1"}, sa.TypeMismatch, "fill is of type str, expected a number"),
        ({"fill": -(2**63) - 1}, sa.OutOfRange, "does not fit"),
        ({"nulls": "zero"}, sa.InvalidError, "expected 'nan'"),
        ({"nulls": "masked"}, sa.InvalidError, "expected 'nan'"),
        ({"nulls": 0}, sa.TypeMismatch, "nulls is int 0"),
        ({"mask": True}, sa.TypeMismatch, "mask"),
        ({"nulls": "nan", "fill": 1}, sa.InvalidError, "nulls and fill were given"),
        ({"fill": 0, "nulls": "mask"}, sa.InvalidError, "nulls and fill were given"),
    ],
)
def test_wrong_options_are_refused(host, keywords, raised, text):
    column = sa.from_arrow(pa.array([None, 7], pa.int16()), host)
    with pytest.raises(raised, match=text):
        column.to_numpy(**keywords)


@pytest.mark.parametrize(
    ("type", "integer"),
    [
        (pa.date32(), np.int32),
        (pa.date64(), np.int64),
        (pa.time32("s"), np.int32),
        (pa.time64("us"), np.int64),
        (pa.timestamp("ns", "UTC"), np.int64),
        (pa.duration("ms"), np.int64),
    ],
    ids=str,
)
def test_times_are_exported_as_integers_on_request(host, type, integer):  # noqa: A002
    ticks = pa.array([86_400_000, None, 0], pa.int64() if integer == np.int64 else pa.int32()).cast(type)
    column = sa.from_arrow(ticks, host)
    with pytest.raises(BufferError, match="reinterpret=True"):
        column.__dlpack__()
    seen = column.to_numpy(reinterpret=True, fill=-1)
    assert seen.dtype == integer
    assert seen.tolist() == [86_400_000, -1, 0]
    assert column.slice(2, 1).to_numpy(reinterpret=True, copy=False).ctypes.data == column.slice(2, 1).address


def test_dictionaries_are_exported_as_indices_on_request(host):
    column = sa.from_arrow(pa.array(["b", "a", None, "b"]).dictionary_encode(), host)
    with pytest.raises(BufferError, match="codes=True"):
        column.__dlpack__()
    assert column.to_numpy(codes=True, fill=-1).tolist() == [0, 1, -1, 0]
    assert column.slice(0, 2).to_numpy(codes=True, copy=False).ctypes.data == column.address


def test_types_that_no_option_converts_are_refused(host):
    text = sa.from_arrow(pa.array(["a", None]), host)
    for keywords in ({"fill": 0}, {"nulls": "nan"}, {"codes": True, "reinterpret": True, "fill": 0}):
        with pytest.raises(BufferError, match="string has no tensor type"):
            text.to_numpy(**keywords)
    values, mask = text.to_numpy(nulls="mask")  # an object array, which only NumPy supports
    assert (values.tolist(), mask.tolist()) == (["a", None], [True, False])


def test_jax_imports_filled_nulls_and_masks(host):
    jax = pytest.importorskip("jax")
    with jax.default_device(jax.devices("cpu")[0]):
        column = sa.from_arrow(pa.array([1.0, None, 3.0], pa.float32()), host)
        filled = column.to_jax(fill=9)
        values, mask = column.to_jax(nulls="mask")
        assert filled.tolist() == [1.0, 9.0, 3.0]
        assert mask.tolist() == [True, False, True]
        assert values[mask].tolist() == [1.0, 3.0]
        with pytest.raises(BufferError, match="null"):
            column.to_jax()
        del filled, values, mask


class Framework:
    """Stands in for torch or CuPy, with NumPy's from_dlpack."""

    from_dlpack = staticmethod(np.from_dlpack)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_torch_and_cupy_import_filled_nulls_and_masks(host, monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, name, Framework)
    column = sa.from_arrow(pa.array([1, None], pa.int32()), host)
    convert = getattr(column, f"to_{name}")
    assert convert(fill=5).tolist() == [1, 5]
    values, mask = convert(nulls="mask")
    assert values[mask].tolist() == [1]
    assert sa.from_arrow(pa.array([3], pa.timestamp("s")), host).to_numpy(reinterpret=True).tolist() == [3]
    with pytest.raises(BufferError, match="null"):
        convert()


class TorchType:
    """Stands in for a torch dtype, whose name is available only by str()."""

    __module__ = "torch"

    def __repr__(self):
        return "torch.float32"


def test_a_torch_dtype_is_recognised_by_its_text(host):
    column = sa.column(np.arange(3), host, name="a")
    assert column.to_numpy(dtype=TorchType()).dtype == np.float32


def test_strings_are_exported_as_offsets_and_bytes(anywhere):
    column = sa.from_arrow(pa.array(["ab", "", "cde"]), anywhere)
    with pytest.raises(BufferError, match=r"offsets_and_values\(\)"):
        column.__dlpack__()
    offsets, data = column.offsets_and_values()
    assert offsets.to_numpy().tolist() == [0, 2, 2, 5]
    assert bytes(data.to_numpy()[:5]) == b"abcde"
    assert (offsets.type, data.type) == ("int32", "uint8")
    assert copies(anywhere) == (0 if anywhere.device == "host" else 3)
    part, whole = column.slice(1, 2).offsets_and_values()
    assert part.to_numpy().tolist() == [2, 2, 5]
    assert len(whole) == len(data)


def test_lists_are_exported_as_offsets_and_values(host):
    column = sa.from_arrow(pa.array([[1, 2], [3]], pa.large_list(pa.int16())), host)
    with pytest.raises(BufferError, match=r"offsets_and_values\(\)"):
        column.__dlpack__()
    offsets, values = column.offsets_and_values()
    assert np.from_dlpack(offsets).tolist() == [0, 2, 3]
    assert np.from_dlpack(values).tolist() == [1, 2, 3]
    assert (offsets.type, values.type) == ("int64", "int16")
    assert offsets.address == column.address


def test_offsets_of_rows_with_nulls_come_with_a_mask(anywhere):
    column = sa.from_arrow(pa.array(["a", None, "b"], pa.large_string()), anywhere).with_name("words")
    with pytest.raises(BufferError, match=r"column 'words' has 1 nulls.*nulls='mask'"):
        column.offsets_and_values()
    offsets, data, valid = column.offsets_and_values(nulls="mask")
    assert offsets.to_numpy().tolist() == [0, 1, 1, 2]
    assert bytes(data.to_numpy()[:2]) == b"ab"
    assert valid.to_numpy().tolist() == [True, False, True]


def test_the_error_for_columns_without_offsets(host):
    with pytest.raises(BufferError, match="int64 has no offsets"):
        sa.from_arrow(pa.array([1]), host).offsets_and_values()
