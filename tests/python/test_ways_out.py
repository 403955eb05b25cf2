"""Errors of tables and columns suggest a solution."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa


def table():
    """Made in each test, because other tests check memory statistics."""
    return sa.table({"fare_amount": [1.5, None], "City": ["a", "b"]}, "host")


def column():
    return table()["fare_amount"]


def assign(container, key):
    container[key] = 1


def delete(container, key):
    del container[key]


@pytest.mark.parametrize(
    "look_up",
    [
        lambda name: table()[name],
        lambda name: table().select([name]),
        lambda name: table().drop_columns(name),
        lambda name: table().rename_columns({name: "x"}),
        lambda name: table().cast({name: "int8"}),
        lambda name: table().fill_null({name: 0}),
        lambda name: table().drop_null([name]),
        lambda name: table().schema.field(name),
        lambda name: sa.read_ipc(table().to_ipc_bytes(), "host", columns=[name]),
        lambda name: sa.loader(table(), "host", batch_size=1, columns=name, to="numpy"),
        lambda name: sa.loader(table(), "host", batch_size=1, matrix=[name], to="numpy"),
    ],
)
def test_the_error_for_an_unknown_column_suggests_the_closest_name(look_up):
    for name, meant in (("fare_amonut", "fare_amount"), ("city", "City")):
        expected = f"no column '{name}': did you mean '{meant}'? The columns are 'fare_amount', 'City'"
        with pytest.raises(sa.ColumnNameError, match=re.escape(expected)):
            look_up(name)
    with pytest.raises(sa.ColumnNameError, match=re.escape("no column 'tip': the columns are 'fare_amount'")):
        look_up("tip")


@pytest.mark.parametrize(
    ("call", "error", "way_out"),
    [
        (lambda: table()["fare_amount", "City"], sa.TypeMismatch, "a list of names selects several"),
        (
            lambda: table()[np.array([True, False])],
            sa.TypeMismatch,
            "Table.filter and Table.take select rows",
        ),
        (lambda: assign(table(), "x"), sa.TypeMismatch, "Table.append_column"),
        (lambda: delete(table(), "City"), sa.TypeMismatch, "Table.drop_columns"),
        (lambda: assign(column(), 0), sa.TypeMismatch, "make another one"),
        (lambda: list(table()), sa.TypeMismatch, "use .columns"),
        (lambda: np.asarray(table()), sa.TypeMismatch, "use .to_numpy(), or .to_pandas()"),
        (lambda: table().rename_columns(["x"]), sa.InvalidError, "a mapping from old to new names"),
        (lambda: column().to_numpy(), sa.ExchangeError, "choose nulls='nan'"),
        (lambda: sa.column([1.5], "host", name="a").cast("int8"), sa.OutOfRange, "round=True"),
        (lambda: table()["City"].cast("int8"), sa.TypeMismatch, "by the library that made them"),
        (lambda: sa.from_arrow([1, 2]), sa.TypeMismatch, "saeta.table and saeta.column take"),
        (lambda: sa.from_dlpack([1, 2]), sa.TypeMismatch, "saeta.column takes"),
        (lambda: sa.Table({"a": [1]}), sa.TypeMismatch, "use saeta.table"),
    ],
)
def test_an_error_names_the_solution(call, error, way_out):
    with pytest.raises(error, match=re.escape(way_out)):
        call()


def test_the_error_for_a_refused_kind_of_memory_has_no_empty_tag():
    with pytest.raises(sa.UnsupportedError, match=r"^the context of host allocates memory of the kinds"):
        sa.context("host").allocate(8, kind="managed")


def test_the_error_for_writing_read_only_memory_suggests_a_copy():
    lent = sa.from_arrow(pa.table({"fare_amount": [1.5, None]}), "host")["fare_amount"]
    with pytest.raises(sa.InvalidError, match="is read-only: copy=True"), sa.use(writes=[lent]):
        pass
