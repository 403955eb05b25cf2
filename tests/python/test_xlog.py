"""saeta.xlog: XLOG's helper functions for tensors and device arrays in capsules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from saeta import xlog


class Capsule:
    """Wraps a raw capsule in an object with the DLPack protocol."""

    def __init__(self, capsule, device=(1, 0)):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def array_of(capsule):
    return np.from_dlpack(Capsule(capsule))


def test_a_round_trip_shares_the_memory():
    source = np.arange(5, dtype=np.float32)
    made = array_of(xlog.dlpack_roundtrip(source, "host"))
    assert made.tolist() == source.tolist()
    assert np.shares_memory(made, source)


def test_a_round_trip_accepts_capsules():
    source = np.arange(5)
    assert array_of(xlog.dlpack_roundtrip(source.__dlpack__(), "host")).tolist() == source.tolist()


def test_dlpack_is_cuda_reads_the_device_of_a_capsule():
    capsule = np.arange(3).__dlpack__()
    assert xlog.dlpack_is_cuda(capsule) is False
    assert xlog.dlpack_is_cuda(np.arange(3)) is False
    assert xlog.dlpack_is_cuda(Capsule(None, (2, 1))) is True
    assert xlog.dlpack_is_cuda(Capsule(None, (13, 0))) is True
    assert xlog.dlpack_is_cuda(Capsule(None, (3, 0))) is False  # page-locked memory is host memory
    assert array_of(xlog.dlpack_roundtrip(capsule, "host")).tolist() == [0, 1, 2]
    with pytest.raises(sa.TypeMismatch, match="int has no __dlpack_device__"):
        xlog.dlpack_is_cuda(7)


@pytest.mark.parametrize("named", [True, False])
def test_device_arrays_make_the_round_trip(named):
    columns = {"a": np.arange(4), "b": np.arange(4) / 2}
    pair = xlog.export_arrow_device(columns if named else list(columns.values()), "host")
    tensors, names, rows = xlog.import_arrow_device(pair, "host")
    assert names == (["a", "b"] if named else ["col_0", "col_1"])
    assert rows == 4
    made = [array_of(tensor) for tensor in tensors]
    assert [each.tolist() for each in made] == [[0, 1, 2, 3], [0.0, 0.5, 1.0, 1.5]]
    assert np.shares_memory(made[0], columns["a"])


def test_tables_of_many_batches_become_one_array(host):
    table = sa.concat_tables([sa.table({"a": [1, 2]}, host), sa.table({"a": [3]}, host)])
    tensors, names, rows = xlog.import_arrow_device(xlog.export_arrow_device(table, "host"), "host")
    assert (names, rows) == (["a"], 3)
    assert array_of(tensors[0]).tolist() == [1, 2, 3]


def test_tables_without_rows_or_batches(host):
    empty = sa.from_arrow(pa.Table.from_batches([], pa.schema([("a", pa.int32())])), host)
    tensors, names, rows = xlog.import_arrow_device(xlog.export_arrow_device(empty, "host"), "host")
    assert (names, rows) == (["a"], 0)
    assert array_of(tensors[0]).shape == (0,)


def test_other_objects_can_be_imported(host):
    batch = pa.record_batch({"x": [1.5, 2.5]})
    tensors, names, rows = xlog.import_arrow_device(batch, "host")
    assert (names, rows, array_of(tensors[0]).tolist()) == (["x"], 2, [1.5, 2.5])
    with pytest.raises(sa.TypeMismatch, match="of type int64"):
        xlog.import_arrow_device(pa.array([1, 2]), "host")
    with pytest.raises(BufferError, match="1 of 2 values"):
        xlog.import_arrow_device(pa.record_batch({"x": [1, None]}), "host")


def test_memory_mb_limits_the_copy():
    strided = np.arange(1 << 20, dtype=np.int64)[::2]  # the contiguous copy has 4 MiB
    with pytest.raises(sa.BudgetExceeded):
        xlog.dlpack_roundtrip(strided, "host", memory_mb=3)
    assert array_of(xlog.dlpack_roundtrip(strided, "host", memory_mb=5))[-1] == (1 << 20) - 2


def test_the_error_names_a_missing_gpu():
    if sa.info()["cuda"]["usable"]:
        pytest.skip("there is a GPU")
    with pytest.raises(sa.DeviceError):
        xlog.dlpack_roundtrip(np.arange(3))
