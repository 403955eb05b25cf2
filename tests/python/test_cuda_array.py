"""Imports through the CUDA Array Interface: fields of the dictionary, mask, and lifetime of the memory.

Host memory stands in for a GPU's, as `import_interface` does not check the kind of memory. tests/conformance
uses devices.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import saeta as sa
from contexts import copies
from saeta._convert.from_tensors import import_interface


class Array:
    """A NumPy array that exports only the CUDA Array Interface."""

    def __init__(self, array: np.ndarray, **changed: Any) -> None:
        self.array = array
        self.changed = changed

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self.array
        strides = None if array.flags.c_contiguous else array.strides
        return {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, not array.flags.writeable),
            "strides": strides,
            "version": 3,
            "stream": None,
            **self.changed,
        }


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]
)
def test_an_array_is_shared_and_kept_alive(host, dtype):
    source = Array((np.arange(100) % 2).astype(dtype))
    address = source.array.ctypes.data
    gone = weakref.ref(source)
    column = import_interface(source, host, False, "x")
    del source
    gc.collect()
    assert gone() is not None, "the column must keep the array alive"
    assert (column.name, column.address, column.type.dtype) == ("x", address, dtype)
    assert column.to_numpy().tolist() == [0, 1] * 50
    assert copies(host) == 0
    del column
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_are_lists_of_a_fixed_size(host, order):
    source = np.asarray(np.arange(12.0).reshape(4, 3), order=order)
    column = import_interface(Array(source), host, None, "x")
    assert column.type.name == "fixed_size_list<item: double>[3]"
    assert column.to_pylist() == source.tolist()
    assert np.shares_memory(np.from_dlpack(column), source) == (order == "C")
    masked = import_interface(Array(source, mask=Array(np.array([1, 0, 1, 1], np.uint8))), host, None, "x")
    assert masked.to_pylist() == [source[0].tolist(), None, *source[2:].tolist()]


def test_a_copy_does_not_keep_the_array_alive(host):
    source = Array(np.arange(10))
    gone = weakref.ref(source)
    column = import_interface(source, host, True, "")
    del source
    gc.collect()
    assert gone() is None
    assert column.to_numpy().tolist() == list(range(10))


def test_a_mask_becomes_nulls(host):
    mask = Array(np.array([1, 0, 2, 0], np.uint8))
    column = import_interface(Array(np.arange(4.0), mask=mask), host, None, "x")
    assert column.to_pylist() == [0.0, None, 2.0, None]
    assert column.null_count == 2
    assert column.field.nullable
    with pytest.raises(sa.ExchangeError, match="a copy was forbidden"):
        import_interface(Array(np.arange(4.0), mask=mask), host, False, "x")
    with pytest.raises(sa.FormatError, match="the mask has 4 elements and the array 5"):
        import_interface(Array(np.arange(5.0), mask=mask), host, None, "x")
    with pytest.raises(sa.FormatError, match="of list is NoneType, expected dict"):
        import_interface(Array(np.arange(5.0), mask=[1, 1]), host, None, "x")


def test_strides_are_followed(host):
    assert import_interface(Array(np.arange(10)[::-3]), host, None, "").to_pylist() == [9, 6, 3, 0]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"data": None}, "'data' is None"),
        ({"data": (-1, False)}, r"'data' is \(-1, False\): -1 is not in"),
        ({"data": (2**64, False)}, "is not in"),
        ({"data": (1.5, False)}, "'data'"),
        ({"data": (1,)}, "'data'"),
        ({"shape": None}, "'shape' is None"),
        ({"shape": ("a",)}, "'shape'"),
        ({"shape": (2**63,)}, "'shape'"),
        ({"strides": 8}, "'strides' is 8"),
        ({"strides": ()}, "strides has 0 entries"),
        ({"typestr": 3}, "'typestr' is 3: expected str"),
        ({"typestr": "\0"}, "typestr"),
        ({"version": "3"}, "'version'"),
        ({"stream": "legacy"}, "'stream'"),
    ],
    ids=str,
)
def test_errors_name_the_invalid_field(host, changed, text):
    source = Array(np.arange(10), **changed)
    with pytest.raises(sa.FormatError, match=text):
        import_interface(source, host, None, "")


def test_the_stream_0_is_refused(host):
    with pytest.raises(sa.InvalidError, match="stream 0 is ambiguous"):
        import_interface(Array(np.arange(10), stream=0), host, None, "")


def test_the_interface_needs_a_context_on_a_gpu(host):
    with pytest.raises(sa.ExchangeError, match="memory of a GPU, and the context is on the host"):
        sa.from_cuda_array(Array(np.arange(10)), host)
    with pytest.raises(sa.ExchangeError, match="memory of a GPU"):
        sa.table({"x": Array(np.arange(10))}, host)
    with pytest.raises(sa.TypeMismatch, match="no __cuda_array_interface__"):
        sa.from_cuda_array(np.arange(10), host)


@pytest.mark.gpu
def test_arrays_of_cupy_and_numba_are_imported():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    cupy = pytest.importorskip("cupy")
    ctx = sa.context("cuda")
    source = cupy.arange(1000, dtype="f4")
    column = sa.from_cuda_array(source, ctx, copy=False)
    assert column.address == source.data.ptr
    assert column.to_numpy().tolist() == list(range(1000))
    assert sa.from_cuda_array(source[::-2]).to_numpy().tolist() == list(range(999, 0, -2))


def test_a_host_column_has_no_such_interface(host):
    column = sa.from_dlpack(np.arange(3), host)
    assert not hasattr(column, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="the column is on the host"):
        column.__cuda_array_interface__  # noqa: B018 - reading it is what fails


@pytest.mark.gpu
def test_cupy_imports_columns():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    cupy = pytest.importorskip("cupy")
    ctx = sa.context("cuda")
    column = sa.from_dlpack(np.arange(1000, dtype="f4"), ctx)
    shown = cupy.asarray(column)
    assert shown.data.ptr == column.address
    assert float(shown.sum()) == 499500.0
    assert "mask" not in column.__cuda_array_interface__
    with pytest.raises(BufferError, match="null"):
        sa.table({"x": [1, None]}, ctx)["x"].__cuda_array_interface__  # noqa: B018 - as above
    assert not hasattr(sa.table({"x": ["a"]}, ctx)["x"], "__cuda_array_interface__")


@pytest.mark.gpu
def test_matrices_pass_in_both_directions():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    cupy = pytest.importorskip("cupy")
    numba_cuda = pytest.importorskip("numba.cuda")
    ctx = sa.context("cuda")
    source = cupy.arange(12, dtype="f4").reshape(4, 3)
    column = sa.from_cuda_array(source, ctx, copy=False)
    shown = cupy.asarray(column[1:])
    assert (shown.shape, shown.data.ptr) == ((3, 3), source.data.ptr + 12)
    theirs = numba_cuda.as_cuda_array(column)
    assert (theirs.shape, theirs.copy_to_host().tolist()) == ((4, 3), source.get().tolist())
    assert sa.from_cuda_array(source.T, ctx).to_pylist() == source.get().T.tolist()
