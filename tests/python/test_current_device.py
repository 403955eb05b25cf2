"""Saeta never changes the current CUDA device of a thread, and the test fixture restores it after each
test."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import saeta as sa
from current_device import cuda_driver, put_back


class Pretended:
    def __init__(self) -> None:
        self.current = 0

    def current_device(self) -> int:
        return self.current

    def make_current(self, ordinal: int) -> None:
        self.current = ordinal


def test_a_changed_current_device_fails_the_test_and_is_restored():
    driver = Pretended()
    with pytest.raises(AssertionError, match="cuda:0 was current, and now cuda:1 is"), put_back(driver):
        driver.make_current(1)
    assert driver.current == 0
    with put_back(driver):
        driver.make_current(1)
        driver.make_current(0)


def use(device: str) -> None:
    """Allocates, copies and reads on a device, as a program does."""
    ctx = sa.context(device)
    column = sa.from_dlpack(np.arange(1000), ctx, copy=True)
    assert column.to_numpy(copy=True).sum() == 499_500
    with sa.use(reads=[column]) as token:
        assert token.pointer(column) == column.address
    del column, token
    ctx.synchronize()
    ctx.memory.statistics()
    ctx.memory.trim()
    assert {each.name for each in sa.devices()} >= {device, "host"}
    sa.info()


@pytest.mark.gpu
@pytest.mark.parametrize("current", [None, "cuda:0"], ids=["none", "the-first"])
def test_using_a_device_does_not_change_the_current_device(current):
    devices = [device for device in sa.devices() if device.name.startswith("cuda")]
    driver = cuda_driver()
    if driver is None or not devices:
        pytest.skip("no usable CUDA device")
    seen = []

    def work() -> None:
        if current is not None:
            driver.make_current(0)
        before = driver.current_context()
        for device in devices:
            use(device.name)
            seen.append(driver.current_context() == before)

    thread = threading.Thread(target=work)  # a new thread has no current CUDA context
    thread.start()
    thread.join()
    assert seen == [True] * len(devices)
