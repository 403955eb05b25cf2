"""How a training loader converts columns: types, nulls, matrices, lists, strings and codes."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from loader_files import write_ipc, write_parquet
from loader_options import grouped
from sim_devices import DEVICES, contexts_of

ROWS = 10
MIXED = pa.table(
    {
        "small": pa.array(range(ROWS), pa.int16()),
        "large": pa.array([each / 4 for each in range(ROWS)], pa.float64()),
        "gaps": pa.array([None if each % 3 == 0 else each for each in range(ROWS)], pa.float32()),
        "whole": pa.array([None if each == 4 else each for each in range(ROWS)], pa.int32()),
        "on": pa.array([each % 2 == 0 for each in range(ROWS)]),
        "day": pa.array([dt.date(1970, 1, 1 + each) for each in range(ROWS)]),
        "word": pa.array(["", "b", "cc", "ddd", "", "f", "gg", "b", "i", "jj"]),
        "list": pa.array([list(range(each % 4)) for each in range(ROWS)], pa.list_(pa.int64())),
        "point": pa.array([[each, -each] for each in range(ROWS)], pa.list_(pa.float32(), 2)),
        "city": pa.array(["rom", "oslo", "rom", None, "bern"] * 2).dictionary_encode(),
    }
)


@pytest.fixture(params=DEVICES)
def ctx(request):
    yield from contexts_of(request.param)


@pytest.fixture(params=[3, 4, 10])
def file(tmp_path, request):
    return write_ipc(MIXED, tmp_path / "mixed.arrow", request.param)


def batches(file, ctx, columns, **options):
    with sa.loader(
        file, ctx, **grouped({"columns": columns, "batch_size": 4, "to": "numpy", **options})
    ) as loader:
        return list(loader)


def joined(made, key):
    return np.concatenate([np.asarray(batch[key]) for batch in made])


def test_numbers_keep_their_types(file, ctx):
    yielded = batches(file, ctx, ["large", "small", "on", "day", "point"])
    assert [len(batch["small"]) for batch in yielded] == [4, 4, 2]
    assert list(yielded[0]) == ["large", "small", "on", "day", "point"]
    assert [yielded[0][key].dtype for key in yielded[0]] == [np.float64, np.int16, bool, np.int32, np.float32]
    assert joined(yielded, "small").tolist() == list(range(ROWS))
    assert joined(yielded, "on").tolist() == [True, False] * 5
    assert joined(yielded, "day").tolist() == list(range(ROWS))
    assert joined(yielded, "point").tolist() == [[each, -each] for each in range(ROWS)]


def test_a_dtype_applies_to_all_numbers_or_by_name(file, ctx):
    yielded = batches(file, ctx, ["small", "large", "day"], dtype="float32")
    assert [yielded[0][key].dtype for key in yielded[0]] == [np.float32, np.float32, np.int32]
    yielded = batches(file, ctx, ["small", "large"], dtype={"small": "int64"})
    assert [yielded[0][key].dtype for key in yielded[0]] == [np.int64, np.float64]
    with pytest.raises(sa.ColumnNameError, match="dtype names 'sma'; the loader yields 'small'"):
        batches(file, ctx, ["small"], dtype={"sma": "int64"})
    with pytest.raises(sa.TypeMismatch, match=r"file '.*mixed.arrow', .*batch.*: column 'large': .*int64"):
        batches(file, ctx, ["small", "large"], dtype={"large": "int64"})


def test_nested_numbers_of_fixed_size_are_converted(ctx):
    vectors = pa.array([[1.5, 2], None, [3, 4]], pa.list_(pa.float64(), 2))
    lists = pa.array([[[1, 2]], [], [[3, 4]]], pa.list_(pa.list_(pa.int8(), 2)))
    table = sa.table(pa.table({"v": vectors, "l": lists}), ctx)
    (made,) = batches(table, ctx, None, dtype="float32", nulls="nan")
    assert [made["v"].dtype, made["l"][0].dtype] == [np.float32, np.float32]
    assert np.array_equal(made["v"], [[1.5, 2], [np.nan, np.nan], [3, 4]], equal_nan=True)
    assert made["l"][0].tolist() == [[1, 2], [3, 4]]
    (made,) = batches(table, ctx, None, dtype={"v": "float16"}, fill={"v": 7})
    assert [made["v"].dtype, made["l"][0].dtype] == [np.float16, np.int8]
    points = pa.array([{"x": 1, "y": 2}], pa.struct([("x", pa.int8()), ("y", pa.int8())]))
    (made,) = batches(sa.table(pa.table({"p": points}), ctx), ctx, None, dtype="float32")
    assert made["p"].dtype == np.float32


def test_the_error_for_nulls_names_file_batches_and_column(file, ctx):
    with pytest.raises(sa.ExchangeError, match=r"file '.*mixed.arrow', .*batch.* column 'gaps'.*null"):
        batches(file, ctx, ["small", "gaps"])


def test_nulls_can_be_nan_a_value_or_a_mask(file, ctx):
    expected = np.array([np.nan if each % 3 == 0 else each for each in range(ROWS)], np.float32)
    yielded = batches(file, ctx, ["gaps", "small"], nulls="nan")
    assert np.array_equal(joined(yielded, "gaps"), expected, equal_nan=True)
    assert joined(yielded, "small").dtype == np.int16
    yielded = batches(file, ctx, ["gaps", "whole"], fill=-1)
    assert joined(yielded, "gaps").tolist() == np.nan_to_num(expected, nan=-1).tolist()
    assert joined(yielded, "whole").tolist() == [0, 1, 2, 3, -1, 5, 6, 7, 8, 9]
    yielded = batches(file, ctx, ["gaps", "whole"], nulls={"gaps": "nan", "whole": "mask"})
    values = np.concatenate([batch["whole"][0] for batch in yielded])
    mask = np.concatenate([batch["whole"][1] for batch in yielded])
    assert mask.dtype == bool
    assert mask.tolist() == [each != 4 for each in range(ROWS)]
    assert values[mask].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    yielded = batches(file, ctx, ["gaps", "whole"], nulls="fill")
    assert joined(yielded, "whole")[4] == 0


def test_chosen_columns_become_a_matrix_beside_a_label(file, ctx):
    yielded = batches(file, ctx, None, matrix=["large", "small"], dtype={"matrix": "float32"}, nulls="mask",
                   codes=True)  # fmt: skip
    values, mask = yielded[1]["matrix"]
    assert values.tolist() == [[each / 4, each] for each in range(4, 8)]
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    assert mask.all()
    assert "large" not in yielded[1]
    assert "day" in yielded[1]
    yielded = batches(file, ctx, ["large", "gaps", "small", "on"], nulls="nan", dtype="float32",
                   matrix={"x": ["large", "gaps"], "y": "small"})  # fmt: skip
    assert list(yielded[0]) == ["on", "x", "y"]
    assert np.array_equal(yielded[0]["x"][:, 1], np.array([np.nan, 1, 2, np.nan], np.float32), equal_nan=True)
    assert yielded[0]["y"].tolist() == [[0], [1], [2], [3]]


def test_all_columns_become_one_matrix(file, ctx):
    yielded = batches(file, ctx, ["small", "large"], matrix=True, dtype="float64", shuffle="rows", seed=3)
    assert [each.shape for each in yielded] == [(4, 2), (4, 2), (2, 2)]
    rows = np.concatenate(yielded)
    assert sorted(rows[:, 0]) == list(range(ROWS))
    assert (rows[:, 0] == 4 * rows[:, 1]).all()
    with pytest.raises(sa.TypeMismatch, match="matrix 'matrix'"):
        batches(file, ctx, ["small", "large"], matrix=True)
    with pytest.raises(sa.ColumnNameError, match="no column 'larg': did you mean"):
        batches(file, ctx, ["small", "large"], matrix=["larg"])
    with pytest.raises(sa.InvalidError, match="a matrix and a column are both named 'small'"):
        batches(file, ctx, ["small", "large"], matrix={"small": ["large"]})


def test_dates_are_integers_in_a_matrix(file, ctx):
    yielded = batches(file, ctx, ["small", "day"], matrix=True, dtype="float32")
    assert np.concatenate(yielded).tolist() == [[each, each] for each in range(ROWS)]


def test_strings_and_lists_are_yielded_as_values_and_offsets(file, ctx):
    yielded = batches(file, ctx, ["word", "list"])
    words = MIXED["word"].to_pylist()
    lists = MIXED["list"].to_pylist()
    first = 0
    for batch in yielded:
        letters, offsets = batch["word"]
        assert (letters.dtype, offsets[0], offsets[-1]) == (np.uint8, 0, len(letters))
        found = [bytes(letters[a:b]).decode() for a, b in pairwise(offsets)]
        assert found == words[first : first + len(found)]
        values, bounds = batch["list"]
        assert values.dtype == np.int64
        inside = [values[a:b].tolist() for a, b in pairwise(bounds)]
        assert inside == lists[first : first + len(found)]
        first += len(found)
    assert first == ROWS


def test_string_views_are_yielded_as_values_and_offsets(tmp_path, ctx):
    """polars writes strings as string views."""
    words = ["", None, "a word that is not inline", "é"] * 3
    lists = [[1, 2], [], None, [3]] * 3
    views = pa.table(
        {
            "text": pa.array(words, pa.string_view()),
            "raw": pa.array([each and each.encode() for each in words], pa.binary_view()),
            "list": pa.array(lists, pa.list_view(pa.int16())),
            "wide": pa.array(lists, pa.large_list_view(pa.int16())),
        }
    )
    file = write_ipc(views, tmp_path / "views.arrow", 5)
    found = {name: [] for name in views.column_names}
    for batch in batches(file, ctx, None, nulls="mask"):
        for name, (values, offsets, mask) in batch.items():
            assert (offsets[0], offsets[-1]) == (0, len(values))
            parts = [values[a:b] for a, b in pairwise(offsets)]
            found[name] += [part if valid else None for part, valid in zip(parts, mask, strict=True)]
    text = [None if each is None else bytes(each).decode() for each in found["text"]]
    assert text == words
    assert [None if each is None else bytes(each).decode() for each in found["raw"]] == words
    assert [None if each is None else each.tolist() for each in found["list"]] == lists
    assert [None if each is None else each.tolist() for each in found["wide"]] == lists
    [padded, *_] = batches(file, ctx, ["list"], lists="padded", nulls="mask")
    assert padded["list"][1].tolist() == [2, 0, 0, 1]


def test_lists_are_padded_to_the_longest_of_a_batch(file, ctx):
    yielded = batches(
        file, ctx, ["list", "word"], lists={"list": "padded"}, dtype="float32", fill={"list": -1}
    )
    values, lengths = yielded[0]["list"]
    assert values.dtype == np.float32
    assert values.tolist() == [[-1, -1, -1], [0, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert lengths.tolist() == [0, 1, 2, 3]
    assert yielded[2]["list"][0].tolist() == [[-1], [0]]
    assert yielded[0]["word"][0].dtype == np.uint8


def test_lists_of_a_batch_may_all_be_empty(tmp_path, ctx):
    empty = pa.table({"list": pa.array([[], [], []], pa.list_(pa.int32())), "word": ["", None, ""]})
    file = write_ipc(empty, tmp_path / "empty.arrow", 2)
    yielded = batches(file, ctx, None, lists="padded", nulls={"word": "mask"})
    assert yielded[0]["list"][0].shape == (3, 0)
    assert yielded[0]["list"][1].tolist() == [0, 0, 0]
    assert yielded[0]["word"][2].tolist() == [True, False, True]
    with pytest.raises(sa.ExchangeError, match=r"column 'word'.*1 null"):
        batches(file, ctx, ["word"])


@pytest.mark.parametrize("write", [write_ipc, write_parquet])
def test_codes_do_not_depend_on_files_or_order(tmp_path, write, ctx):
    one = write(MIXED.select(["city", "small"]), tmp_path / "1", 3)
    other = pa.table(
        {"city": pa.array(["oslo", "ulm"]).dictionary_encode(), "small": pa.array([1, 2], pa.int16())}
    )
    two = write(other, tmp_path / "2", 3)
    values = ["ulm", "rom", "oslo", "bern"]
    yielded = batches([one, two], ctx, ["city"], codes={"city": values}, fill=-1)
    assert joined(yielded, "city").tolist() == [1, 2, 1, -1, 3] * 2 + [2, 0]
    assert joined(yielded, "city").dtype == np.int64
    loader = sa.loader(
        [two, one], ctx, batch_size=5, to="numpy", tensor_options=sa.TensorOptions(codes=True, fill=-1)
    )
    assert loader.codes["city"][:2] == ["oslo", "ulm"]
    assert sorted(loader.codes["city"]) == sorted(values)
    with pytest.raises(sa.OutOfRange, match=r"column 'city': the value 'ulm' has no code"):
        batches([one, two], ctx, ["city"], codes={"city": ["rom", "oslo", "bern"]}, fill=-1)
    with pytest.raises(sa.TypeMismatch, match="column 'city' is a dictionary: name its values"):
        batches([one, two], ctx, ["city"])


@pytest.mark.parametrize("write", [write_ipc, None])
def test_a_null_of_a_dictionary_has_no_code(tmp_path, write, ctx):
    words = pa.array(["rom", None, "oslo"])
    city = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0, None, 2], pa.int32()), words)
    source = pa.table({"city": city})
    given = write(source, tmp_path / "a.arrow", 5) if write else sa.from_arrow(source, ctx)
    with sa.loader(
        given, ctx, batch_size=5, to="numpy", tensor_options=sa.TensorOptions(codes=True, nulls="mask")
    ) as loader:
        assert loader.codes == {"city": ["rom", "oslo"]}
        ((codes, valid),) = (batch["city"] for batch in loader)
    assert valid.tolist() == [True, False, True, False, True]
    assert codes[valid].tolist() == [1, 0, 1]


def test_strings_become_codes_of_given_values(file, ctx):
    values = sorted(set(MIXED["word"].to_pylist()))
    yielded = batches(file, ctx, ["word"], codes={"word": values}, dtype="float32")
    assert [values[code] for code in joined(yielded, "word")] == MIXED["word"].to_pylist()
    assert joined(yielded, "word").dtype == np.int64
    with pytest.raises(sa.TypeMismatch, match="column 'word' is of type string: name its values"):
        batches(file, ctx, ["word"], codes="word")
    with pytest.raises(sa.InvalidError, match="codes of column 'word': a value is named twice"):
        batches(file, ctx, ["word"], codes={"word": ["b", "b"]})


def test_batches_can_be_jax_arrays(file, ctx):
    jax = pytest.importorskip("jax")
    if ctx.device != "host":
        pytest.skip("the tests use JAX on the CPU")
    yielded = batches(file, ctx, ["small", "gaps", "large", "list"], to="jax", nulls={"gaps": "mask"},
                   matrix={"x": ["small", "large"]}, dtype={"x": "float32"}, lists="padded")  # fmt: skip
    assert isinstance(yielded[0]["x"], jax.Array)
    assert np.concatenate([batch["x"] for batch in yielded]).tolist() == [
        [each, each / 4] for each in range(ROWS)
    ]
    assert np.asarray(yielded[0]["gaps"][1]).tolist() == [False, True, True, False]
    assert np.asarray(yielded[0]["list"][0]).tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]]


def test_bfloat16_is_yielded(ctx):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    weights = sa.from_dlpack(np.arange(ROWS).astype(ml_dtypes.bfloat16), "host").to(ctx)
    yielded = batches(sa.table({"w": weights}, ctx), ctx, None, shuffle="rows")
    assert yielded[0]["w"].dtype == ml_dtypes.bfloat16
    assert sorted(joined(yielded, "w").tolist()) == list(range(ROWS))


@pytest.mark.parametrize("library", ["torch", "numpy"])
@pytest.mark.parametrize("size", [1, 3, 150, 299, 300, 400])  # from 300 batches to less than one
def test_tensors_are_cut_into_batches(size, library):
    pytest.importorskip(library)
    rows = 300
    point = pa.array([[each, -each] for each in range(rows)], pa.list_(pa.float32(), 2))
    table = sa.table({"n": list(range(rows)), "gap": [None, *range(1, rows)], "point": point}, "host")
    options = {"to": library, "nulls": {"gap": "mask"}, "matrix": {"x": ["n"]}}
    yielded = batches(table, "host", None, batch_size=size, **options)
    assert [len(batch["x"]) for batch in yielded] == [min(size, rows - at) for at in range(0, rows, size)]
    assert all(batch["gap"][0].shape == batch["gap"][1].shape == (len(batch["x"]),) for batch in yielded)
    assert [row for batch in yielded for row in batch["x"].tolist()] == [[each] for each in range(rows)]
    assert [valid for batch in yielded for valid in batch["gap"][1].tolist()] == [False] + [True] * (rows - 1)
    pairs = [row for batch in yielded for row in batch["point"].tolist()]
    assert pairs == [[each, -each] for each in range(rows)]


def test_torch_differentiates_with_respect_to_a_batch():
    torch = pytest.importorskip("torch")
    first, second = batches(sa.table({"x": [1.0, 2.0, 3.0]}, "host"), "host", None, batch_size=2, to="torch")
    weight = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    values = first["x"].requires_grad_()
    (weight * values**2).sum().backward()
    assert weight.grad.item() == 5
    assert values.grad.tolist() == [6, 12]
    assert not second["x"].requires_grad


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_tensors_of_a_gpu_stay_there(file, library):
    pytest.importorskip(library)
    if not sa.info()["cuda"]["usable"]:
        pytest.skip("no usable CUDA device")
    ctx = sa.context("cuda")
    with ctx.forbid_downloads():
        yielded = batches(file, ctx, ["small", "large", "gaps"], to=library, matrix={"x": ["large", "small"]},
                       dtype={"x": "float32"}, fill=0, shuffle="rows")  # fmt: skip
    rows = np.concatenate([np.asarray(batch["x"].tolist()) for batch in yielded])
    assert sorted(rows[:, 1]) == list(range(ROWS))
    assert (rows[:, 1] == 4 * rows[:, 0]).all()
    assert sorted(each for batch in yielded for each in batch["gaps"].tolist()) == [
        0,
        0,
        0,
        0,
        1,
        2,
        4,
        5,
        7,
        8,
    ]


def test_unknown_option_values_are_refused(file):
    for options, text in [
        ({"to": "tf"}, "to='tf': expected one of torch, cupy, jax, numpy, table"),
        ({"nulls": "drop"}, "nulls='drop': expected one of error, nan, fill, mask"),
        ({"lists": {"list": "x"}}, "lists='x': expected one of jagged, padded"),
        ({"to": "table", "dtype": "int8"}, "dtype is for tensors"),
        ({"shuffle": "all"}, "shuffle='all': expected"),
        ({"batch_size": 0}, "batch_size is 0, expected an integer from 1 on"),
        ({"rank": 2, "world_size": 2}, "rank is 2, expected less than world_size, 2"),
        ({"seed": 1.5}, "seed is 1.5, expected an integer"),
        ({"window": "0B"}, "window is"),
        ({"drop_last": 1}, "drop_last is 1"),
    ]:
        with pytest.raises(sa.InvalidError, match=text):
            batches(file, "host", ["small"], **options)
    with pytest.raises(sa.ColumnNameError, match=r"columns: .*no column 'no'"):
        batches(file, "host", ["no"])
    with pytest.raises(sa.ColumnNameError, match="columns: 'on' is named twice"):
        batches(file, "host", ["on", "on"])
    with pytest.raises(sa.ColumnNameError, match="codes: no column 'no'"):
        batches(file, "host", ["on"], codes="no")
