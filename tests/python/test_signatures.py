"""saeta._signatures: parsing the signatures that nanobind writes, and error messages about arguments that
match none."""

from __future__ import annotations

from inspect import Parameter
from types import SimpleNamespace

import pytest

import saeta as sa
from saeta import _signatures

UNHELPFUL = "take(): incompatible function arguments. The following argument types are supported:"


def function(*texts, defaults=None):
    return SimpleNamespace(__nb_signature__=[(text, None, defaults) for text in texts])


def shown(*texts, defaults=None):
    return str(_signatures.signature_of(function(*texts, defaults=defaults)))


def refused(text, *arguments, because=UNHELPFUL, **keywords):
    return _signatures.refusal(function(text), arguments, keywords, because)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f() -> None", "() -> None"),
        ("def f(a: int, b: str = 'x') -> int", "(a: int, b: str = 'x') -> int"),
        ("def f(a, /, b: saeta._core.Table)", "(a, /, b: Table)"),
        (
            "def f(a: int, /, b: int = 1, *rest: int, c, d: int = -2, **more: str)",
            "(a: int, /, b: int = 1, *rest: int, c, d: int = -2, **more: str)",
        ),
        ("def f(*, only: bool = True)", "(*, only: bool = True)"),
        ("@overload\ndef f(a: int)", "(a: int)"),
        ("def (self, arg: float, /) -> None", "(self, arg: float, /) -> None"),
    ],
)
def test_a_signature_of_nanobind_is_parsed(text, expected):
    assert shown(text) == expected


def test_defaults_that_are_not_literals_are_looked_up():
    signature = _signatures.signature_of(function(r"def f(a: object = \1, b = \0)", defaults=(7, {})))
    assert signature.parameters["a"].default == {}
    assert signature.parameters["b"].default == 7
    assert signature.parameters["b"].annotation is Parameter.empty
    assert signature.return_annotation is Parameter.empty


def test_overloads_are_combined_into_one_signature():
    assert shown(
        "def f(a: int, b) -> int", "def f(a: str, b: int) -> int", "def f(a: int, b: int) -> str"
    ) == ("(a: int | str, b) -> int | str")


def test_a_bound_method_has_no_self():
    method = function("def f(self, a: int, b: int = 2) -> int")
    assert str(_signatures.bound_signature_of(method)) == "(a: int, b: int = 2) -> int"


@pytest.mark.parametrize(
    ("annotation", "good", "wrong"),
    [
        ("int", [1, True], [1.5, "1", None]),
        ("float", [1, 1.5], ["1", None]),
        ("bool", [False], [0, None]),
        ("str", ["a"], [b"a", 1]),
        ("bytes", [b"a"], ["a"]),
        ("slice", [slice(1)], [1]),
        ("int | None", [1, None], ["x", 1.5]),
        ("collections.abc.Sequence[int]", [[1, 2], (), range(2)], ["12", 5, [1, "x"], ("x",)]),
        ("collections.abc.Iterable[str]", [["a"], iter("a")], ["ab", [1]]),
        ("collections.abc.Sequence[int | str]", [[1, "a"]], [[1, 2.5]]),
        ("tuple[int, str]", [(1, "a"), [1, "a"]], [(1,), (1, 2), ("a", 1), (1, "a", 2), 1]),
        ("tuple[int]", [(1,)], [("a",), 1]),
        ("Table", [], [1, "a"]),
        ("typing.Any", [1, None, "a"], []),
        ("no_class_of_ours", [1], []),
        ("context", [1], []),
    ],
)
def test_values_are_matched_against_annotations(annotation, good, wrong):
    text = f"def take(a: {annotation})"
    for value in good:
        assert isinstance(refused(text, value), sa.InvalidError), value
    for value in wrong:
        failure = refused(text, value)
        assert isinstance(failure, sa.TypeMismatch), value
        assert str(failure).startswith("take(): a is ")


def test_a_parameter_without_an_annotation_accepts_every_value():
    assert str(refused("def take(a, b: int)", object(), "x")) == "take(): b is str 'x', expected int"
    assert isinstance(refused("def take(a)", object()), sa.InvalidError)


def test_the_error_names_the_first_mismatched_argument_and_the_expected_type():
    text = "def take(self, a: int, b: int | str | None = None, *, c: collections.abc.Sequence[int] = ())"
    own = SimpleNamespace()
    assert str(refused(text, own, 1, 2.5)) == (
        "SimpleNamespace.take(): b is float 2.5, expected int, str or None"
    )
    assert str(refused(text, own, "x", 2.5)) == "SimpleNamespace.take(): a is str 'x', expected int"
    assert str(refused(text, own, 1, c=["x"])) == (
        "SimpleNamespace.take(): c is of type list, expected a sequence of int"
    )
    assert str(refused("def take(a: str | None)", 1)) == "take(): a is int 1, expected str or None"


def test_matching_values_are_reported_as_out_of_range():
    assert str(refused("def take(self, a: int, b: str)", SimpleNamespace(), -1, b="x")) == (
        "SimpleNamespace.take(): a value is outside its range: a=int -1, b=str 'x'"
    )
    assert str(refused("def take(a: int | None)", None)) == ("take(): a value is outside its range: a=None")


def test_the_error_names_a_wrong_number_of_arguments():
    assert str(refused("def take(a: int)", because="something else")) == (
        "take(): missing a required argument: 'a'"
    )
    assert str(refused("def take(self)", SimpleNamespace(), 1)) == (
        "SimpleNamespace.take(): too many positional arguments"
    )


def test_other_type_errors_are_not_changed():
    assert refused("def take(a: int)", "x", because="raised inside") is None


def test_a_constructor_has_the_name_of_its_class():
    assert str(refused("def __init__(self, a: int) -> None", SimpleNamespace(), "x")) == (
        "SimpleNamespace(): a is str 'x', expected int"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a" * 38, "str '" + "a" * 38 + "'"),
        ("a" * 39, "str '" + "a" * 38 + "…"),
        (b"ab", "bytes b'ab'"),
        (2.5, "float 2.5"),
        (True, "bool True"),
        (None, "None"),
        ([1], "of type list"),
    ],
)
def test_short_values_are_shown_and_long_ones_truncated(value, expected):
    assert _signatures._described(value) == expected
