"""What people who know pandas and NumPy try: the errors say what to use."""

from __future__ import annotations

import datetime as dt
import operator

import numpy as np
import pytest

import saeta as sa
from saeta._convert import habits


@pytest.fixture
def table():
    return sa.table({"fare": [12.5, 8.0, 9.5], "city": ["Lyon", "Bern", None]}, "host")


@pytest.mark.parametrize(
    "compare", [operator.gt, operator.ge, operator.lt, operator.le, operator.eq, operator.ne]
)
@pytest.mark.parametrize("other", [1, 2.5, "Lyon", np.float64(1), dt.date(2031, 5, 1), np.zeros(3)])
def test_a_comparison_says_what_makes_a_mask(table, compare, other):
    """The first line of every pandas program: df[df["fare"] > 9]."""
    with pytest.raises(
        TypeError, match=r"column 'fare': .* mask, which filter takes: .*to_numpy\(\).* 'I want to"
    ):
        table.filter(compare(table["fare"], other))


def test_what_the_error_names_works(table):
    assert table.filter(table["fare"].to_numpy() > 9)["fare"].to_pylist() == [12.5, 9.5]
    assert table.filter(np.asarray(table["fare"]) > 9).num_rows == 2
    assert table.filter(np.asarray(table["fare"]) > 9).num_rows == 2


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
BITWISE = [operator.pow, operator.and_, operator.or_, operator.xor, operator.matmul]


@pytest.mark.parametrize("compute", BINARY + BITWISE)
def test_arithmetic_says_who_computes(table, compute):
    fare = table["fare"]
    for action in (lambda: compute(fare, 2), lambda: compute(2, fare), lambda: compute(fare, fare)):
        with pytest.raises(sa.TypeMismatch, match=r"column 'fare': .* is left to other libraries"):
            action()
    with pytest.raises(sa.TypeMismatch, match=r"of a table is left to other libraries.*duckdb\.sql"):
        compute(table, 2)


@pytest.mark.parametrize("compute", [operator.neg, operator.pos, operator.invert, abs, round])
def test_one_operand_says_who_computes(table, compute):
    with pytest.raises(sa.TypeMismatch, match=r"column 'fare': .* is left to other libraries"):
        compute(table["fare"])


def test_other_comparisons_are_as_they_were(table):
    fare = table["fare"]
    assert fare != None  # noqa: E711 - the comparison is what is tested
    assert fare == fare
    assert (fare == object()) is False
    assert table.equals(table)
    assert sum(fare) == 30.0
    assert "Lyon" in table["city"].to_pylist()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("groupby", r"duckdb\.sql"),
        ("merge", r"duckdb\.sql"),
        ("iloc", r"take\(\[\.\.\.\]\)"),
        ("to_csv", r"pyarrow\.csv\.write_csv"),
        ("fare", r"table\['fare'\] is the column"),
        ("elephant", "no attribute 'elephant'$"),
        ("__elephant__", "no attribute '__elephant__'$"),
    ],
)
def test_names_of_other_libraries_say_what_to_use(table, name, said):
    with pytest.raises(AttributeError, match=said) as missing:
        getattr(table, name)
    assert (missing.value.name, missing.value.obj) == (name, table)
    assert not hasattr(table, name)


def test_columns_say_what_to_use(table):
    for name, said in (("mean", "pyarrow.compute"), ("dtype", "type.dtype"), ("tolist", r"to_pylist\(\)")):
        with pytest.raises(AttributeError, match=said):
            getattr(table["fare"], name)


def test_every_name_is_another_librarys(table):
    """A name that a table or column gets later must leave the lists."""
    for kind, ways in ((type(table), habits.OF_TABLES), (sa.Column, habits.OF_COLUMNS)):
        assert not {name for name in ways if name in dir(kind)}
    assert not set(habits.OF_MODULE) & set(dir(sa))


def test_functions_of_other_libraries_say_what_to_use():
    with pytest.raises(AttributeError, match=r"'read_csv': saeta\.table\(pyarrow\.csv\.read_csv\(path\)\)"):
        sa.read_csv  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'elephant'$"):
        sa.elephant  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'DataFrame'"):
        from saeta import DataFrame  # noqa: F401
