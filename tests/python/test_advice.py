"""The arguments and functions that an error message suggests exist, and following the suggestion helps."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from loader_options import grouped

DAY = dt.date(2020, 2, 29)
COLUMNS = {
    "integers": pa.array([1, None]),
    "floats": pa.array([1.5, None]),
    "booleans": pa.array([True, None]),
    "dates": pa.array([DAY, None]),
    "instants": pa.array([dt.datetime(2020, 2, 29), None], pa.timestamp("us", "UTC")),
    "intervals": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "text": pa.array(["a", None]),
    "text without nulls": pa.array(["a", "b"]),
    "views": pa.array(["a", None], pa.string_view()),
    "bytes": pa.array([b"a", None]),
    "lists": pa.array([[1], None]),
    "lists of floats": pa.array([[0.5], None]),
    "nulls inside of lists": pa.array([[1, None], [2]]),
    "nulls inside of null lists": pa.array([[0.5, None], None]),
    "lists of text": pa.array([["a"], ["b"]]),
    "vectors": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
    "vectors of dates": pa.array([[DAY, DAY], [DAY, DAY]], pa.list_(pa.date32(), 2)),
    "vectors of text": pa.array([["a"], ["b"]], pa.list_(pa.string(), 1)),
    "structs": pa.array([{"a": 1, "b": 2}, None]),
    "structs of two types": pa.array([{"a": 1, "b": 2.5}, {"a": 1, "b": 2.5}]),
    "maps": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
    "dictionaries": pa.array(["a", None]).dictionary_encode(),
    "dictionaries of integers": pa.array([5, None]).dictionary_encode(),
    "dictionaries of dates": pa.array([DAY, DAY]).dictionary_encode(),
}
columns = pytest.mark.parametrize("kind", COLUMNS)


def table(kind):
    return sa.from_arrow(pa.table({"v": COLUMNS[kind]}), "host")


def refusal(call):
    try:
        call()
    except sa.Error as failure:
        return str(failure)
    return ""


def load(source, **options):
    return list(sa.loader(source, "host", **grouped({"batch_size": 2, "to": "numpy", **options})))


OFFER = re.compile(r"\b(\w+)=(\{[^}]*\}|'\w+'|True|value)?")


def offers(message):
    """Returns the keyword arguments that a message suggests, each as a dict with one entry."""
    found = []
    for name, text in OFFER.findall(message):
        if text:
            given = text.replace("value}", "0}").replace("[...]", "NAMED")
            found.append({name: 0 if text == "value" else given})
    return found


@columns
@pytest.mark.parametrize("given", [{}, {"nulls": "nan"}, {"nulls": "mask"}, {"codes": True}], ids=str)
@pytest.mark.parametrize("matrix", [None, True], ids=["dict", "matrix"])
def test_a_loader_suggests_its_own_arguments_and_each_helps(kind, given, matrix):
    source = table(kind)
    message = refusal(lambda: load(source, matrix=matrix, **given))
    mine = {
        name
        for call in (sa.loader, sa.TensorOptions, sa.ReadOptions)
        for name in inspect.signature(call).parameters
    }
    assert {name for name, _ in OFFER.findall(message)} <= mine
    assert "to_arrow" not in message
    assert "offsets_and_values" not in message
    values = [each for each in source["v"][:1].to_pylist() if each is not None]
    values += [each for each in source["v"][1:].to_pylist() if each not in (None, *values)]
    for offer in offers(message):
        ((name, text),) = offer.items()
        chosen = eval(text, {"NAMED": values}) if isinstance(text, str) else text
        if name in ("matrix", "columns"):
            continue  # the suggestion names example columns
        options = {"matrix": None if name == "to" else matrix, **given, name: chosen}
        if name == "to":
            options = {"to": "table"}
        after = refusal(lambda options=options: load(source, **options))
        # The next message may differ: columns with nulls need a second argument.
        assert after != message, (message, options)
        if after:
            again = [offer for offer in offers(after) if set(offer) & {"nulls", "fill"}]
            assert again, (message, options, after)
            for each in again:
                second = {key: eval(str(value), {"NAMED": values}) for key, value in each.items()}
                assert refusal(lambda o=options, s=second: load(source, **{**o, **s})) == "", (after, second)


KEYWORDS = re.compile(r"(nulls='nan'|fill=value|nulls='mask'|codes=True|reinterpret=True)")
CALLS = re.compile(r"\b(\w+)\((value)?\)")
TENSORS = ("to_numpy", "to_jax", "from_dlpack", "offsets_and_values")


def convert(source, how, **chosen):
    if how == "from_dlpack":
        return np.from_dlpack(source)
    return getattr(source, how)(**chosen)


@columns
@pytest.mark.parametrize("how", TENSORS)
@pytest.mark.parametrize("whole", [False, True], ids=["column", "table"])
def test_tensor_conversions_suggest_keywords_that_help_and_existing_functions(kind, how, whole):
    if whole and how == "offsets_and_values":
        pytest.skip("a table has no offsets")
    if how == "to_jax":
        pytest.importorskip("jax")
    source = table(kind) if whole else table(kind)["v"]
    message = refusal(lambda: convert(source, how))
    keywords = KEYWORDS.findall(message)
    # `from_dlpack` has no keywords, so the message must name functions that have them.
    assert how in TENSORS[:2] or not keywords or "to_numpy" in message or how in message or "mask" in message
    target = "to_numpy" if how == "from_dlpack" else how
    for keyword in keywords:
        name, text = keyword.split("=")
        chosen = {name: 0 if text == "value" else eval(text)}
        after = refusal(lambda chosen=chosen: convert(source, target, **chosen))
        if after and name in ("codes", "reinterpret"):  # the nulls need a second argument
            assert "null" in after, (message, chosen, after)
            chosen["nulls"] = "mask"
            after = refusal(lambda chosen=chosen: convert(source, target, **chosen))
        assert after == "", (message, chosen, after)
    for name, _ in CALLS.findall(message):
        owner = table(kind)["v"] if name in ("offsets_and_values", "cast") else source
        call = getattr(owner, name)
        if name == "fill_null" and not whole:
            first = next(each for each in source.to_pylist() if each is not None)
            assert call(first).null_count == 0
        elif name == "cast":
            assert refusal(lambda call=call, owner=owner: call(owner.type.value_type)) == ""
        elif name == "offsets_and_values":
            assert refusal(lambda call=call: call(nulls="mask")) == ""
        elif name not in ("fill_null", "select"):
            call()


ROOT = Path(sa.__file__).resolve().parent
# Names that other libraries, objects of the caller, or the shell have.
FOREIGN = {
    "dictionary_decode",
    "read",
    "write",
    "astype",
    "num_workers",
    "__dlpack_device__",
    "copy_to_host",
    "tz",
}


def names_of_the_package():
    """Returns the names of the package's functions and of their arguments."""
    found = set()
    for file in [*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = node.args
                found |= {node.name} | {
                    each.arg for each in every.args + every.kwonlyargs + every.posonlyargs
                }
            elif isinstance(node, ast.ClassDef):
                found.add(node.name)
    return found


def messages_of_the_package():
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise):
                parts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                yield file.name, " ".join(each for each in parts if isinstance(each, str))


def test_the_names_that_messages_suggest_exist():
    known = names_of_the_package() | FOREIGN
    for file, message in messages_of_the_package():
        offered = re.findall(r"\b([a-z_]+)=(?=['{\[A-Z]|value)", message) + re.findall(
            r"\b([a-z_]+)\(\)", message
        )
        assert set(offered) <= known, (file, message)


def test_errors_about_duplicate_column_names_suggest_what_the_function_offers():
    twice = sa.from_arrow(pa.table([[1], [2]], names=["a", "a"]), "host")
    with pytest.raises(sa.ColumnNameError, match="choose one by its index"):
        twice["a"]
    assert twice[1].to_pylist() == [2]
    with pytest.raises(sa.ColumnNameError, match="leave them out with columns=, or rename them before"):
        load(twice)
    assert load(twice.rename_columns(["a", "b"]))[0]["b"].tolist() == [2]
