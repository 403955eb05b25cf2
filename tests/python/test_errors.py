"""Every error is a saeta.Error and the built-in that callers expect; a refusal carries its numbers."""

from __future__ import annotations

import pickle

import pytest

import saeta as sa

BUILT_IN = {
    sa.InvalidError: ValueError,
    sa.TypeMismatch: TypeError,
    sa.UnsupportedError: NotImplementedError,
    sa.OutOfRange: IndexError,
    sa.SizeOverflow: OverflowError,
    sa.BudgetExceeded: MemoryError,
    sa.OutOfMemory: MemoryError,
    sa.DeviceError: RuntimeError,
    sa.DeviceLost: sa.DeviceError,
    sa.FormatError: ValueError,
    sa.ColumnNameError: KeyError,
    sa.FileError: OSError,
    sa.MissingFileError: FileNotFoundError,
    sa.ExchangeError: BufferError,
    sa.ClosedError: ValueError,
    sa.BusyError: RuntimeError,
    sa.DownloadForbidden: RuntimeError,
    sa.MissingDependency: ImportError,
}


@pytest.mark.parametrize(("kind", "built_in"), BUILT_IN.items(), ids=lambda kind: kind.__name__)
def test_classes_derive_from_error_and_from_the_built_in(kind, built_in):
    assert issubclass(kind, sa.Error)
    assert issubclass(kind, built_in)
    assert kind.__module__ == "saeta.errors"
    assert kind.__doc__


def test_a_refusal_carries_its_numbers(host, flights):
    host.budget = 1_000_000
    with pytest.raises(sa.BudgetExceeded) as caught:
        sa.read_ipc(flights, host, copy=True)
    refusal = caught.value
    assert refusal.layer == "host"
    assert refusal.limit == 1_000_000
    assert refusal.requested > refusal.limit
    assert refusal.current == 0
    assert refusal.required == refusal.current + refusal.requested
    assert refusal.remaining == refusal.limit - refusal.current
    assert refusal.owners == {}
    assert str(refusal.requested) in str(refusal)
    assert host.memory.statistics()["refused"] >= 1


def test_a_refusal_tells_the_peak_apart_from_what_is_live(host):
    child = host.memory.child("small", 1000)
    dropped = child.allocate(800)
    del dropped
    held = child.allocate(100)
    with pytest.raises(sa.BudgetExceeded) as caught:
        child.allocate(2000)
    assert (caught.value.peak, caught.value.current, held.nbytes) == (800, 100, 100)


def test_a_refusal_names_the_owners(host, flights):
    held = sa.read_ipc(flights, host, copy=True)
    host.budget = held.nbytes + 1_000_000
    with pytest.raises(MemoryError) as caught:
        sa.read_ipc(flights, host, copy=True)
    assert isinstance(caught.value, sa.BudgetExceeded)
    assert sum(caught.value.owners.values()) == caught.value.current > 0


def test_a_refusal_of_others_has_zeros():
    refusal = sa.BudgetExceeded("full")
    numbers = refusal.numbers()
    assert (numbers.pop("layer"), numbers.pop("owners"), numbers.pop("others")) == ("", {}, {})
    assert set(numbers.values()) == {0}
    given = {name: place + 1 for place, name in enumerate(numbers)}
    assert len(given) == 8
    assert vars(sa.BudgetExceeded("full", **given)).items() >= given.items()


def test_a_refusal_can_be_pickled():
    refusal = sa.BudgetExceeded("no", layer="host", requested=2**64 - 1, required=2**65, owners={"a": 1})
    again = pickle.loads(pickle.dumps(refusal))
    assert str(again) == "no"
    assert again.numbers() == refusal.numbers()


def test_codes_of_the_library_arrive_as_their_class(host):
    with pytest.raises(sa.InvalidError, match="expected"):
        sa.context("gpu")
    with pytest.raises(sa.DeviceError):
        sa.context("cuda:99")
    column = sa.table({"a": [1, 2, 3]}, host)["a"]
    with pytest.raises(sa.OutOfRange, match="4"):
        column.slice(4, 1)
    with pytest.raises(sa.TypeMismatch):
        sa.Column.from_chunks([column, sa.table({"a": ["x"]}, host)["a"]])
    with pytest.raises(sa.InvalidError, match="lots"):
        host.budget = "lots"
