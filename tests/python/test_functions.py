"""Every public function has a signature for `inspect`, and errors about its arguments name the argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import saeta as sa


def public_callables() -> Iterator[Any]:
    for name in sa.__all__:
        exported = getattr(sa, name)
        if not callable(exported):
            continue
        yield pytest.param(exported, id=name)
        if inspect.isclass(exported) and not issubclass(exported, BaseException):
            for member in dir(exported):
                found = getattr(exported, member)
                if callable(found) and not member.startswith("_"):
                    yield pytest.param(found, id=f"{name}.{member}")


@pytest.mark.parametrize("function", list(public_callables()))
def test_every_public_callable_has_a_signature(function):
    assert inspect.signature(function).parameters is not None


def documented(member: Any) -> bool:
    """Returns whether a member has a docstring beyond the signature that nanobind adds."""
    function = member.fget if isinstance(member, property) else member
    compiled = getattr(function, "__nb_signature__", None)
    return any(text for _, text, _ in compiled) if compiled else bool(function.__doc__)


@pytest.mark.parametrize("name", sa.__all__)
def test_everything_public_has_a_docstring(name):
    exported = getattr(sa, name)
    if isinstance(exported, str):
        return
    assert exported.__doc__
    if inspect.isclass(exported) and not issubclass(exported, BaseException):
        public = {key: member for key, member in vars(exported).items() if not key.startswith("_")}
        for field in fields(exported) if is_dataclass(exported) else ():  # in the docstring of the class
            assert re.search(rf"\b{field.name}\b.*: ", exported.__doc__)
            del public[field.name]
        assert [key for key, member in public.items() if not documented(member)] == []


def test_a_signature_shows_names_defaults_and_types():
    assert str(inspect.signature(sa.Table.head)) == "(self, rows: int = 5) -> Table"
    assert str(inspect.signature(sa.Table.__getitem__)).startswith("(self, key: str")


def test_a_bound_method_has_no_self_in_its_signature(host):
    table = sa.table({"a": [1]}, host)
    assert str(inspect.signature(table.head)) == "(rows: int = 5) -> Table"


def test_the_error_for_a_wrong_type_names_the_argument(host):
    table = sa.table({"a": [1]}, host)
    with pytest.raises(sa.TypeMismatch, match=r"^Table.head\(\): rows is str 'x', expected int$"):
        table.head("x")
    with pytest.raises(sa.TypeMismatch, match=r"budget is float 1.5, expected int, str or None$"):
        sa.context("host", budget=1.5)
    with pytest.raises(sa.TypeMismatch, match=r"chunks is of type list, expected a sequence of Column$"):
        sa.Column.from_chunks([3])
    with pytest.raises(sa.TypeMismatch, match=r"chunks is str 'ab', expected a sequence of Column$"):
        sa.Column.from_chunks("ab")


def test_the_error_for_a_wrong_attribute_or_constructor_argument_names_it(host):
    with pytest.raises(sa.TypeMismatch, match=r"^Memory.limit\(\): limit is float 1.5"):
        host.memory.limit = 1.5
    with pytest.raises(sa.TypeMismatch, match=r"^UseToken\(\): reads is int 4, expected a sequence"):
        sa.UseToken(None, 4, [])


def test_errors_name_missing_and_unknown_arguments(host):
    with pytest.raises(
        sa.TypeMismatch, match=r"^Context.allocate\(\): missing a required argument: 'nbytes'$"
    ):
        host.allocate(nbyte=3)
    with pytest.raises(sa.TypeMismatch, match=r"^Memory.report\(\): too many positional arguments$"):
        host.memory.report(3)


def test_the_error_for_a_number_out_of_range_names_it(host):
    with pytest.raises(sa.InvalidError, match=r"nbytes=int -1$"):
        host.allocate(-1)


def test_an_error_inside_a_function_is_not_changed(host):
    class Odd:
        def __arrow_c_stream__(self, requested_schema=None):
            raise TypeError("not today")

    with pytest.raises(TypeError, match=r"^not today$"):
        sa.table({"a": [1]}, host).append_column("b", Odd())


CLASSES = (
    "Buffer Column Context Device GraphCapture Memory MemoryHook MemoryLog MemoryRecording MemoryWindow "
    "StrictMode Table"
)


@pytest.mark.parametrize("name", CLASSES.split())
def test_the_error_for_a_class_without_constructor_names_the_factory(name):
    with pytest.raises(sa.TypeMismatch, match=rf"^a {name} can't be made by calling its class: use "):
        getattr(sa, name)()
