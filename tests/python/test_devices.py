"""Listing devices does not initialize them."""

from __future__ import annotations

import pytest

import saeta as sa


def test_the_host_reports_its_free_memory():
    host = next(device for device in sa.devices() if device.name == "host")
    assert host.free_bytes is not None
    assert 0 < host.free_bytes <= host.total_bytes


@pytest.mark.gpu
@pytest.mark.parametrize("ask", ["sa.devices()", "sa.info()", "command.run(as_json=True)"])
def test_listing_devices_creates_no_cuda_context(run_python, ask):
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    program = f"""
import contextlib, ctypes, io
import saeta as sa
from saeta.cli import info as command

with contextlib.redirect_stdout(io.StringIO()):
    {ask}
devices = [device for device in sa.devices() if device.kind == 2]
assert devices
assert all(device.free_bytes is None and device.total_bytes > 0 and device.model for device in devices)

driver = ctypes.CDLL("libcuda.so.1")
for device in devices:
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert driver.cuDevicePrimaryCtxGetState(device.ordinal, ctypes.byref(flags), ctypes.byref(active)) == 0
    assert active.value == 0, device

ctx = sa.context(devices[0].name)
used = next(device for device in sa.devices() if device.name == ctx.device)
assert 0 < used.free_bytes <= used.total_bytes
"""
    done = run_python(program)
    assert (done.returncode, done.stderr) == (0, "")
