"""Strict mode (`ctx.forbid_downloads()`): a copy from the device to the host raises before it starts."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa


def test_a_download_is_refused_before_it_starts(anywhere):
    column = sa.from_dlpack(np.arange(1000), anywhere, copy=True)
    before = anywhere.counters()
    with anywhere.forbid_downloads() as strict:
        assert isinstance(strict, sa.StrictMode)
        if anywhere.device == "host":
            assert column.to_arrow().to_pylist() == list(range(1000))
        else:
            with pytest.raises(
                sa.DownloadForbidden, match=r"strict mode: .* bytes would be copied from cuda:0"
            ):
                column.to_arrow()
            assert "strict mode forbids downloads" in repr(column)
            assert "strict mode forbids downloads" in repr(sa.table({"numbers": column}))
        assert anywhere.counters()["device_to_host"] == before["device_to_host"]
        assert column.null_count == 0
    assert column.to_arrow().to_pylist() == list(range(1000))


def test_strict_blocks_can_be_nested_and_end_with_an_error(anywhere):
    outer = anywhere.forbid_downloads()
    with outer, anywhere.forbid_downloads(), pytest.raises(sa.BusyError, match="is already open"):
        outer.__enter__()
    with pytest.raises(LookupError), outer:
        raise LookupError
    column = sa.from_dlpack(np.arange(3), anywhere, copy=True)
    assert column.to_arrow().to_pylist() == [0, 1, 2]
