"""Makes signatures of compiled functions for `inspect`, and error messages for arguments of wrong types.

python/src/core/functions.cpp puts both on every compiled function. Signatures are parsed from the text that
nanobind keeps for stubs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from saeta._text import number_text
from saeta.errors import InvalidError, TypeMismatch

# The annotations that are checked, with their classes. Values are not checked against other annotations.
CLASSES: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "bool": (bool,),
    "bytes": (bytes,),
    "float": (float, int),
    "int": (int,),
    "slice": (slice,),
    "str": (str,),
}
UNHELPFUL = "(): incompatible function arguments."
SEQUENCE = re.compile(r"collections\.abc\.(?:Sequence|Iterable)\[(.+)\]")
TUPLE = re.compile(r"tuple\[(\w+(?:, \w+)*)\]")


class Annotation(str):
    """The text of an annotation. A signature shows it without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def signature_of(function: Any) -> Signature:
    """Returns the signature of a compiled function.

    Overloads, which must have the same number of parameters, are merged into one signature that fits all.
    """
    overloads = [_parse(*overload) for overload in function.__nb_signature__]
    first = overloads[0]
    if len(overloads) == 1:
        return first
    rows = [list(overload.parameters.values()) for overload in overloads]
    merged = [
        column[0].replace(annotation=_join_annotations([parameter.annotation for parameter in column]))
        for column in zip(*rows, strict=True)
    ]
    returned = _join_annotations([overload.return_annotation for overload in overloads])
    return Signature(merged, return_annotation=returned)


def bound_signature_of(method: Any) -> Signature:
    """Returns the signature of a bound method, without `self`."""
    whole = signature_of(method)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def refusal(
    function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], text: str
) -> TypeMismatch | InvalidError | None:
    """Returns the error for arguments that a compiled function does not accept.

    None if the TypeError with this text has another cause.
    """
    signature = signature_of(function)
    is_method = next(iter(signature.parameters), "") == "self"
    name = _name_of(function, arguments if is_method else ())
    try:
        given = signature.bind(*arguments, **keywords).arguments
    except TypeError as failure:
        return TypeMismatch(f"{name}(): {failure}")
    if UNHELPFUL not in text:
        return None
    named = list(given.items())[is_method:]
    for parameter, value in named:
        expected = signature.parameters[parameter].annotation
        if not _fits(value, expected):
            return TypeMismatch(
                f"{name}(): {parameter} is {_described(value)}, expected {_to_words(expected)}"
            )
    shown = ", ".join(f"{key}={_described(value)}" for key, value in named)
    return InvalidError(f"{name}(): a value is outside its range: {shown}")


def _name_of(function: Any, of: Sequence[Any]) -> str:
    """Returns the qualified name, such as "Table.head". For a method, `of` begins with the object.

    nanobind keeps no qualified name for setters.
    """
    own: str = function.__nb_signature__[0][0].rpartition("\n")[2].removeprefix("def ").partition("(")[0]
    return f"{type(of[0]).__name__}.{own}".removesuffix(".__init__") if of else own


def _parse(text: str, _doc: str | None, defaults: tuple[Any, ...] | None) -> Signature:
    line = text.rpartition("\n")[2].replace("def (", "def _(").replace("saeta._core.", "")
    known = defaults or ()
    function = ast.parse(re.sub(r"\\(\d+)", r"_default_\1", line) + ": pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    made, of = [], function.args
    positional = [*of.posonlyargs, *of.args]
    values: list[ast.expr | None] = [None] * (len(positional) - len(of.defaults))
    for place, (arg, value) in enumerate(zip(positional, [*values, *of.defaults], strict=True)):
        kind = Parameter.POSITIONAL_ONLY if place < len(of.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        made.append(_parameter(arg, kind, value, known))
    if of.vararg:
        made.append(_parameter(of.vararg, Parameter.VAR_POSITIONAL, None, known))
    for arg, value in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        made.append(_parameter(arg, Parameter.KEYWORD_ONLY, value, known))
    if of.kwarg:
        made.append(_parameter(of.kwarg, Parameter.VAR_KEYWORD, None, known))
    return Signature(made, return_annotation=_annotation(function.returns))


def _parameter(arg: ast.arg, kind: Any, value: ast.expr | None, known: tuple[Any, ...]) -> Parameter:
    default = Parameter.empty
    if isinstance(value, ast.Name) and value.id.startswith("_default_"):
        default = known[int(value.id.removeprefix("_default_"))]
    elif value is not None:
        default = ast.literal_eval(value)
    return Parameter(arg.arg, kind, default=default, annotation=_annotation(arg.annotation))


def _annotation(node: ast.expr | None) -> Any:
    return Parameter.empty if node is None else Annotation(ast.unparse(node))


def _join_annotations(annotations: Sequence[Any]) -> Any:
    known = [annotation for annotation in annotations if annotation is not Parameter.empty]
    return Annotation(" | ".join(dict.fromkeys(known))) if len(known) == len(annotations) else Parameter.empty


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is Parameter.empty:
        return True
    return any(_fits_one(value, alternative) for alternative in _alternatives(annotation))


def _fits_one(value: Any, annotation: str) -> bool:
    if annotation in CLASSES:
        return isinstance(value, CLASSES[annotation])
    if elements := SEQUENCE.fullmatch(annotation):
        return not isinstance(value, str) and (
            all(_fits(item, elements[1]) for item in value)
            if isinstance(value, list | tuple)
            else isinstance(value, Iterable)
        )
    if members := TUPLE.fullmatch(annotation):
        kinds = members[1].split(", ")
        return isinstance(value, tuple | list) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    from saeta import _core

    own = getattr(_core, annotation, None)
    return isinstance(value, own) if isinstance(own, type) else True


def _alternatives(annotation: str) -> list[str]:
    return re.split(r" \| (?![^\[]*\])", annotation)


def _to_words(annotation: str) -> str:
    parts = [SEQUENCE.sub(r"a sequence of \1", part) for part in _alternatives(annotation)]
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _described(value: Any) -> str:
    """Describes a value in a message: its type, and the value itself if it is short."""
    if isinstance(value, str | int | float | bool | bytes | None):
        text = number_text(value)
        shown = text if len(text) <= 40 else text[:39] + "…"
        return shown if value is None else f"{type(value).__name__} {shown}"
    return f"of type {type(value).__name__}"
