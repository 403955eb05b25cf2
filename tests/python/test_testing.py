"""saeta.testing: each assertion passes or fails as it should, and failures have numbers and tags."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa
from saeta.testing import assert_no_copies, assert_no_host_sync, assert_no_leaks, assert_peak_at_most

WAYS = ("host_to_device", "device_to_host", "device_to_device", "peer_to_device", "host_to_host")


@pytest.mark.parametrize("direction", WAYS)
def test_a_copy_in_any_direction_is_reported(direction):
    class Counting:
        """A context whose counters grow by 24 bytes in two calls after the first reading."""

        device = "cuda:0"
        asked = 0

        def counters(self):
            self.asked += 1
            none = {"transfers": 0, "calls": 0, "bytes": 0}
            counted = dict.fromkeys(WAYS, none)
            if self.asked > 1:
                counted[direction] = {"transfers": 1, "calls": 2, "bytes": 24}
            return counted

    message = f"expected no copies on cuda:0: {direction} 24 B in 2 calls"
    with pytest.raises(AssertionError, match=message), assert_no_copies(Counting()):
        pass


def test_views_are_not_copies(host):
    column = sa.from_dlpack(np.arange(100), host)
    with assert_no_copies(host), assert_no_leaks(host), assert_no_host_sync(host):
        view = np.from_dlpack(column)
        assert view.sum() == 4950
        del view


def test_a_copy_is_reported_with_its_bytes(anywhere):
    values = np.arange(100, dtype="i8")
    message = r"expected no copies on .*_to_.* 8\d\d B in 1 calls"  # device copies may be rounded up to words
    with pytest.raises(AssertionError, match=message), assert_no_copies(anywhere):
        sa.from_dlpack(values, anywhere, copy=True)


def test_counters_are_read_and_not_reset(host):
    sa.from_dlpack(np.arange(100), host, copy=True)
    before = host.counters()
    with assert_no_copies(host), assert_no_host_sync(host):
        pass
    assert host.counters() == before


@pytest.mark.gpu
def test_a_host_synchronization_is_reported():
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    ctx = sa.context("cuda")
    with pytest.raises(AssertionError, match="it waited 1 times"), assert_no_host_sync(ctx):
        ctx.synchronize()


def test_host_synchronizations_are_reported_with_their_count():
    class Fake:
        device = "cuda:0"
        waits = 3

        def counters(self):
            return {"synchronizations": self.waits}

    fake = Fake()
    with pytest.raises(AssertionError, match="cuda:0: it waited 2 times"), assert_no_host_sync(fake):
        fake.waits += 2


def test_a_leak_is_reported_with_its_tag(anywhere):
    kept = []
    message = r"current \+1,000.*buffers \+1; by tag: 'orders' 1,000 B"
    with pytest.raises(AssertionError, match=message), assert_no_leaks(anywhere):
        kept.append(anywhere.allocate(1000, tag="orders"))


def test_a_kept_view_is_a_leak(host):
    kept = []
    with pytest.raises(AssertionError, match=r"external \+800.*external:"), assert_no_leaks(host):
        kept.append(sa.from_dlpack(np.arange(100), host))


def test_garbage_in_a_cycle_is_not_a_leak(anywhere):
    with assert_no_leaks(anywhere):
        cycle = [anywhere.allocate(1000)]
        cycle.append(cycle)
        del cycle


def test_less_memory_than_before_is_not_a_leak(anywhere):
    kept = [anywhere.allocate(1000)]
    with assert_no_leaks(anywhere):
        kept.clear()


def test_a_peak_includes_earlier_allocations(anywhere):
    before = anywhere.allocate(1000, tag="before")
    with assert_peak_at_most(anywhere, 1500):
        anywhere.allocate(500)
    anywhere.synchronize()
    message = r"at most 1,024 B .*it was 1,500 B, 1,000 B .*'before' 1,000 B"
    with pytest.raises(AssertionError, match=message), assert_peak_at_most(anywhere, "1KiB"):
        anywhere.allocate(500)
    assert before.nbytes == 1000


def test_a_peak_at_the_limit_is_allowed_and_one_byte_more_is_not(anywhere):
    with assert_peak_at_most(anywhere, 1000):
        anywhere.allocate(1000)
    anywhere.synchronize()
    with pytest.raises(AssertionError, match=r"at most 999 B"), assert_peak_at_most(anywhere, 999):
        anywhere.allocate(1000)
    with assert_peak_at_most(anywhere, 0):
        pass


def test_an_error_of_the_block_is_not_hidden(host):
    for helper in (assert_no_copies, assert_no_host_sync, assert_no_leaks):
        with pytest.raises(LookupError, match="mine"), helper(host):
            raise LookupError("mine")
    with pytest.raises(LookupError, match="mine"), assert_peak_at_most(host, 0):
        raise LookupError("mine")
