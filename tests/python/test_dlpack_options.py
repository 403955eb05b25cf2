"""Arguments of `__dlpack__` that DLPack does not allow are errors. They are never ignored."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa
from saeta._core import _ChosenTensor as Exported
from saeta._core import _TensorChoices as Choices


@pytest.mark.parametrize(
    "keywords",
    [
        {"copy": "never"},
        {"copy": 1},
        {"max_version": "1.3"},
        {"max_version": (1,)},
        {"dl_device": "cpu"},
        {"dl_device": (1, 0, 0)},
        {"stream": "default"},
        {"version": (1, 0)},
    ],
    ids=str,
)
def test_arguments_that_dlpack_does_not_allow_are_refused(host, keywords):
    column = sa.from_dlpack(np.arange(3.0), host)
    for source in (column, sa.table({"x": column}), Exported(column, Choices(fill=0))):
        with pytest.raises(sa.TypeMismatch):
            source.__dlpack__(**keywords)


def test_a_bare_capsule_is_imported_into_the_context_of_its_device(host):
    column = sa.column(np.arange(3, dtype=np.int32), host, name="x")
    taken = sa.from_dlpack(column.__dlpack__())
    assert taken.to_pylist() == [0, 1, 2]
    assert (taken.device, taken.address) == (column.device, column.address)
