"""Tensors that have no plain values: every way into a table or a column refuses them with a typed error."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import saeta as sa
from dlpack_table import producer

WAYS: dict[str, Callable[[Any, sa.Context], Any]] = {
    "from_dlpack": lambda tensor, ctx: sa.from_dlpack(tensor, ctx),
    "from_dlpack, copied": lambda tensor, ctx: sa.from_dlpack(tensor, ctx, copy=True),
    "column": lambda tensor, ctx: sa.column(tensor, ctx, name="x"),
    "column of a type": lambda tensor, ctx: sa.column(tensor, ctx, name="x", type="float32"),
    "table": lambda tensor, ctx: sa.table({"x": tensor}, ctx),
    "table of tensors": lambda tensor, ctx: sa.table([tensor, tensor], ctx),
    "matrix": lambda tensor, ctx: sa.from_dlpack(tensor, ctx, columns=True),
    "append_column": lambda tensor, ctx: sa.table({"a": [1, 2]}, ctx).append_column("x", tensor),
    "set_column": lambda tensor, ctx: sa.table({"a": [1, 2]}, ctx).set_column(0, "x", tensor),
    "take": lambda tensor, ctx: sa.table({"a": [1, 2]}, ctx).take(tensor),
    "filter": lambda tensor, ctx: sa.table({"a": [1, 2]}, ctx).filter(tensor),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.fixture
def torch_tensor(monkeypatch):
    """The class of a module `torch` whose C functions export everything, as those of torch do."""
    made = producer([])
    made.requires_grad = False
    made.is_neg = lambda _: False
    module = types.ModuleType("torch")
    module.Tensor = made
    monkeypatch.setitem(sys.modules, "torch", module)
    return made


@ways
def test_a_tensor_that_requires_a_gradient_is_refused(host, torch_tensor, way):
    tensor = torch_tensor(np.arange(2.0, dtype=np.float32))
    tensor.requires_grad = True
    with pytest.raises(sa.ExchangeError, match=r"requires a gradient, .* pass tensor\.detach\(\)"):
        way(tensor, host)
    assert host.memory.statistics()["external"] == 0


def test_a_view_that_negates_its_values_is_refused(host, torch_tensor):
    """torch's C functions export the values without their sign."""
    tensor = torch_tensor(np.arange(4.0)[1::2])  # an imaginary part: the second number of each pair
    assert sa.from_dlpack(tensor, host).to_pylist() == [1, 3]
    tensor.is_neg = lambda: True
    with pytest.raises(sa.ExchangeError, match=r"pass tensor\.resolve_neg\(\)"):
        sa.from_dlpack(tensor, host)


@pytest.mark.parametrize("raised", [RuntimeError, BufferError, NotImplementedError])
@ways
def test_the_refusal_of_a_producer_is_an_exchange_error(host, way, raised):
    class Producer:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            raise raised("no storage\nfrom line 7")

    with pytest.raises(sa.ExchangeError, match=r"Producer can't be exported: no storage$") as refused:
        way(Producer(), host)
    assert type(refused.value.__cause__) is raised


def test_an_interface_of_cuda_that_raises_is_an_exchange_error():
    class Producer:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("it requires a gradient")

    with pytest.raises(sa.ExchangeError, match="Producer can't be exported: it requires a gradient"):
        sa.from_cuda_array(Producer(), "cuda:0")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@ways
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda torch: torch.ones(2, requires_grad=True), "detach"),
        (lambda torch: torch.nn.Parameter(torch.ones(2)), "detach"),
        (lambda torch: torch.ones(2, requires_grad=True) * 2, "detach"),
        (lambda torch: torch.ones(2, device="meta"), "on the meta device has a shape and no values"),
        (lambda torch: torch.eye(2).to_sparse(), r"torch\.sparse_coo: pass tensor\.to_dense\(\)"),
        (lambda torch: torch.eye(2).to_sparse_csr(), r"torch\.sparse_csr: pass tensor\.to_dense\(\)"),
        (lambda torch: torch.tensor([1 + 2j, 3j]).conj().imag, "resolve_neg"),
        (lambda torch: torch.tensor([1 + 2j, 3j]).conj().imag[1:], "resolve_neg"),
        (lambda torch: torch.tensor([1 + 2j, 3j]).to(torch.complex64).conj().imag, "resolve_neg"),
        (lambda torch: torch.tensor([1 + 2j] * 3).conj().imag.as_strided((3,), (1,)), "resolve_neg"),
        (lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "can't be exported"),
    ],
)
def test_tensors_of_torch_without_plain_values_are_refused(host, way, make, said):
    import torch

    tensor = make(torch)
    with pytest.raises(sa.ExchangeError, match=said):
        way(tensor, host)
    assert host.memory.statistics()["external"] == 0
