"""A program that exchanges data between Saeta and other libraries."""

from __future__ import annotations

from typing import Any, assert_type

import cupy
import numba.cuda
import numpy as np
import numpy.typing as npt
import pandas
import polars
import pyarrow
import rmm
import torch

import saeta as sa
from saeta import allocators, hooks, xlog
from saeta import rmm as saeta_rmm

ctx = sa.context("cuda:0")
table = sa.read_ipc("trips.arrow", ctx)
fare = table["fare"]

assert_type(fare.to_torch(), torch.Tensor)
assert_type(fare.to_torch(nulls="mask"), tuple[torch.Tensor, torch.Tensor])
assert_type(table.to_torch(order="row"), torch.Tensor)
assert_type(fare.to_cupy(), cupy.ndarray)
assert_type(fare.to_numpy(copy=True), npt.NDArray[Any])
assert_type(np.asarray(fare), npt.NDArray[Any])
assert_type(fare.to_arrow(), pyarrow.ChunkedArray)
assert_type(table.to_arrow(), pyarrow.Table)
assert_type(table.to_pandas(), pandas.DataFrame)
assert_type(table.to_polars(), polars.DataFrame)
assert_type(fare.to_polars(), polars.Series)

assert_type(sa.from_dlpack(torch.ones(3)), sa.Column)
assert_type(sa.table(torch.ones(3)), sa.Table)
assert_type(sa.column(np.zeros(3), name="a"), sa.Column)
assert_type(sa.from_cuda_array(cupy.zeros(3), ctx), sa.Column)
assert_type(sa.from_arrow(pyarrow.table({"a": [1]})), sa.Table)
assert_type(sa.from_arrow(table.to_arrow(), ctx), sa.Table)
assert_type(sa.from_arrow(polars.DataFrame({"a": [1]})), sa.Table)
assert_type(sa.from_arrow(polars.Series([1])), sa.Column)
assert_type(table.append_column("doubled", torch.ones(3)), sa.Table)

assert_type(allocators.cupy_allocator(ctx)(1024), cupy.cuda.MemoryPointer)
assert_type(allocators.numba_manager(ctx), type[numba.cuda.HostOnlyCUDAMemoryManager])
assert_type(saeta_rmm.resource(ctx), rmm.mr.CallbackMemoryResource)
assert_type(saeta_rmm.context("cuda:0", rmm.mr.DeviceMemoryResource()), sa.Context)
assert_type(hooks.trim_torch(ctx), sa.MemoryHook)
assert_type(xlog.dlpack_is_cuda(torch.ones(3)), bool)
with allocators.graph_pool(ctx) as pool:
    assert_type(pool.nbytes, int)
