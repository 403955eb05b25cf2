"""Words that are almost right: the error names the word that was probably meant."""

from __future__ import annotations

import numpy as np
import pytest

import saeta as sa
from loader_options import grouped


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("meant") / "a.arrow"
    sa.table({"fare": np.arange(8.0), "tip": np.arange(8.0)}, "host").write_ipc(path)
    return path


def refusal_of(action):
    with pytest.raises(sa.InvalidError) as refused:
        action()
    return str(refused.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(("hosst", "host"), ("Host", "host"), ("gpu", "cuda"), ("GPU:0", "cuda"), ("CUDA", "cuda")),
        *(("cude:1", "cuda"), ("nvidia", "cuda"), ("cpuu", "cpu")),
    ],
)
def test_devices(given, meant):
    for use in (sa.context, lambda name: sa.table({"a": [1]}, name)):
        assert refusal_of(lambda use=use: use(given)).endswith(
            f"expected host, cuda or cuda:N; did you mean '{meant}'?"
        )
    assert refusal_of(lambda: sa.context("elephant")).endswith("expected host, cuda or cuda:N")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(
            ("flaot32", "float32"),
            ("string_", "string"),
            ("Int64", "int64"),
            ("int", "int64"),
            ("uint", "uint64"),
        ),
        *(
            ("timestampp[us]", "timestamp[us]"),
            ("datetime64[ns]", "timestamp[ns]"),
            ("lst<int8>", "list<int8>"),
        ),
        *(
            ("decimal(12, 2)", "decimal128(12, 2)"),
            ("date", "date32"),
            ("text", "string"),
            ("symbols", "symbol"),
        ),
    ],
)
def test_types(given, meant):
    assert refusal_of(lambda: sa.DataType(given)).endswith(f"; did you mean '{meant}'?")
    assert refusal_of(lambda: sa.column([1], "host", name="x", type=given)).endswith(
        f"; did you mean '{meant}'?"
    )
    assert "did you mean" not in refusal_of(lambda: sa.DataType("elephant"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shuffle": "row"}, "shuffle='row': expected 'rows', 'batches' or False; did you mean 'rows'?"),
        ({"shuffle": "batch"}, "did you mean 'batches'?"),
        ({"to": "nunpy"}, "did you mean 'numpy'?"),
        ({"to": "pytorch"}, "did you mean 'torch'?"),
        ({"to": "np"}, "did you mean 'numpy'?"),
        ({"nulls": "msak"}, "did you mean 'mask'?"),
        ({"lists": "paded"}, "did you mean 'padded'?"),
        ({"matrix": {"x": ["fare"]}, "nulls": {"tipp": "nan"}}, "did you mean 'tip'?"),
        ({"matrix": {"x": ["fair"]}}, "matrix 'x': no column 'fair': did you mean 'fare'?"),
        ({"dtype": {"fair": "float32"}}, "did you mean 'fare'?"),
    ],
)
def test_options_of_the_loader(path, options, said):
    def read():
        with sa.loader(path, "host", **grouped({"batch_size": 2, "to": "numpy"} | options)) as loader:
            next(iter(loader))

    assert said in refusal_of(read)


def test_shuffle_true_permutes_rows(path):
    def ids(shuffle):
        options = {"batch_size": 4, "to": "numpy", "seed": 3}
        with sa.loader(path, "host", shuffle=shuffle, **grouped(options)) as loader:
            return [batch["fare"].tolist() for batch in loader]

    assert ids(True) == ids("rows") != ids(False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compression": "zst"}, "compression 'zst': expected lz4, zstd or none; did you mean 'zstd'?"),
        ({"compression": "lz44"}, "did you mean 'lz4'?"),
        ({"format": "steam"}, "format 'steam': expected file or stream; did you mean 'stream'?"),
    ],
)
def test_options_of_writers(path, options, said):
    table = sa.table({"a": [1]}, "host")
    assert said in refusal_of(lambda: table.write_ipc(path.with_name("b.arrow"), **options))
    assert said in refusal_of(lambda: sa.ipc_writer(path.with_name("b.arrow"), **options))
    assert said in refusal_of(lambda: table.to_ipc_bytes(**options))
    assert not path.with_name("b.arrow").exists()


def test_options_of_parquet(path):
    pytest.importorskip("pyarrow")
    table = sa.table({"a": [1.5]}, "host")
    target = path.with_name("b.parquet")
    assert "did you mean 'zstd'?" in refusal_of(lambda: table.write_parquet(target, compression="zst"))
    assert "did you mean 'host'?" in refusal_of(lambda: sa.read_parquet(path, "host", engine="hots"))
