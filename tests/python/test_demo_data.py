"""The generated table of the demo: ranges of values, nulls, and reproducibility."""

import datetime
import hashlib
import importlib.util
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import saeta as sa
from saeta.demo import frameworks, lineitem

ROWS = 20_000  # enough to draw both ends of every small range
DAY = datetime.timedelta(days=1)
FIRST = datetime.date(1992, 1, 2)
LAST = FIRST + 2525 * DAY

# Tuples are the exact minimum and maximum of a column. Lists are bounds of a wide range, whose ends are
# rarely drawn.
RANGES = {
    "l_orderkey": (1, ROWS // 4),
    "l_partkey": [1, 199_999],
    "l_suppkey": [1, 9_999],
    "l_linenumber": (1, 4),
    "l_packages": (1, 254),
    "l_warehouse": (-500, 499),
    "l_dock": [0, 65_534],
    "l_checksum": [0, 2**64 - 2],
    "l_quantity": (1.0, 50.0),
    "l_extendedprice": [900.0, 50 * 1_999.99],
    "l_discount": (0.0, 0.1),
    "l_weight": [0.0, 30.0],
    "l_fragile": (False, True),
    "l_price": [Decimal(-(10**6)), Decimal(10**6)],
    "l_turnover": [Decimal(-(10**4)), Decimal(10**4)],
    "l_fee": [Decimal(-(10**6)), Decimal(10**6)],
    "l_cost": [Decimal(-(10**5)), Decimal(10**5)],
    "l_shipdate": (FIRST, LAST),
    "l_commitdate": (FIRST + 30 * DAY, LAST + 30 * DAY),
    "l_shiptime": [datetime.time(0), datetime.time(23, 59, 59)],
    "l_scantime": [datetime.time(0), datetime.time(23, 59, 59, 7)],
    "l_transit": [0 * DAY, datetime.timedelta(milliseconds=10**9)],
    "l_shipmode": ("AIR", "TRUCK"),
    "l_returnflag": ("A", "R"),
    "l_shipinstruct": ("COLLECT COD", "TAKE BACK RETURN"),
    "l_tag": (b"bold", b"sleep"),
    "l_label": (b"bold", b"sleep"),
}
WITH_NULLS = {
    "l_fragile",
    "l_price",
    "l_cost",
    "l_commitdate",
    "l_received",
    "l_warranty",
    "l_comment",
    "l_tag",
    "l_shipmode",
}


@pytest.fixture(scope="module")
def batch():
    vocabulary = lineitem._vocabulary(np.random.default_rng([0, 0]))
    return lineitem.lineitem_batch(0, ROWS, 0, vocabulary, pa.array(lineitem.MODES))


@pytest.mark.parametrize("name", RANGES)
def test_values_are_in_their_range(batch, name):
    if name not in batch.schema.names:
        pytest.skip("this pyarrow has no decimals of 32 and 64 bits")
    values = [each for each in batch.column(name).to_pylist() if each is not None]
    expected = RANGES[name]
    if isinstance(expected, list):
        assert expected[0] <= min(values)
        assert max(values) <= expected[1]
        assert len(set(values)) > 1_000, "a wide range must have many distinct values"
    else:
        assert (min(values), max(values)) == expected


def test_nullable_columns_have_a_twentieth_of_nulls(batch):
    nulls = {name: batch.column(name).null_count / ROWS for name in batch.schema.names}
    assert nulls.pop("l_reserved") == 1
    assert {name for name, share in nulls.items() if share} == WITH_NULLS
    assert all(0.04 < nulls[name] < 0.06 for name in WITH_NULLS)


def test_the_dates_of_a_row_are_consistent(batch):
    rows = pa.Table.from_batches([batch])
    seconds = pc.cast(rows["l_shiptime"], pa.int32())
    assert (
        rows["l_scantime"].cast(pa.int64()).to_pylist()
        == pc.add(pc.multiply(seconds.cast(pa.int64()), 1_000_000), 7).to_pylist()
    )
    logged = rows["l_logged"].cast(pa.int64()).to_pylist()
    days = rows["l_shipdate"].cast(pa.int32()).to_pylist()
    assert logged == [
        (day * 86_400 + second) * 10**9 + 11 for day, second in zip(days, seconds.to_pylist(), strict=True)
    ]
    received = rows["l_received"].cast(pa.int64()).to_pylist()
    assert all(at is None or at * 1000 == moment - 11 for at, moment in zip(received, logged, strict=True))


def test_intervals_and_texts_have_all_their_forms(batch):
    intervals = [each for each in batch.column("l_warranty").to_pylist() if each is not None]
    assert {each.months for each in intervals} == set(range(24))
    assert {each.days for each in intervals} == set(range(30))
    assert (
        0
        <= min(each.nanoseconds for each in intervals)
        < max(each.nanoseconds for each in intervals)
        < 10**12
    )
    lengths = {len(text.split()) for text in batch.column("l_comment").to_pylist() if text is not None}
    assert lengths == {0, 1, 2, 3, 4}
    taxes = {round(float(each), 2) for each in batch.column("l_tax").to_pylist()}
    assert taxes == {each / 100 for each in range(9)}
    shares = pc.mean(batch.column("l_fragile").cast(pa.uint8())).as_py()
    assert 0.08 < shares < 0.12


def test_a_batch_does_not_depend_on_earlier_batches(tmp_path):
    heard = []
    path = tmp_path / "lineitem.arrow"
    lineitem.write_lineitem(path, 2 * lineitem.BATCH_ROWS + 10, 7, heard.append)
    assert heard == [65_536, 131_072, 131_082]
    with pa.ipc.open_file(path) as file:
        assert [file.get_batch(i).num_rows for i in range(3)] == [65_536, 65_536, 10]
        second = file.get_batch(1)
    assert second.column("l_orderkey")[0].as_py() == 65_536 // 4 + 1
    vocabulary = lineitem._vocabulary(np.random.default_rng([7, 0]))
    alone = lineitem.lineitem_batch(65_536, 65_536, 7, vocabulary, pa.array(lineitem.MODES))
    assert second.equals(alone)


def test_every_framework_is_available_or_has_a_reason():
    found, absent = frameworks.available(sa.context("host"))
    told = [each.name for each in found] + [each.split(":")[0] for each in absent]
    assert sorted(told) == ["cupy", "numpy", "torch"]
    assert "numpy" in [each.name for each in found]
    if importlib.util.find_spec("torch") is None:
        assert any(each.startswith("torch: ") and len(each) > len("torch: ") for each in absent)


# Hashes of 1000 rows of each column. Renew them if NumPy changes its random generators.
DIGESTS = {
    "l_orderkey": "c423215b",
    "l_partkey": "aacf02e5",
    "l_suppkey": "f6f47bc2",
    "l_linenumber": "fff7ebd6",
    "l_packages": "11f073f5",
    "l_warehouse": "28dd84f2",
    "l_dock": "f3048196",
    "l_checksum": "466431af",
    "l_quantity": "53362bf8",
    "l_extendedprice": "efe0b1d3",
    "l_discount": "73ddd561",
    "l_tax": "a86c9aed",
    "l_weight": "b82639df",
    "l_fragile": "ec13afe8",
    "l_price": "ff9d92ed",
    "l_turnover": "5c42bfb4",
    "l_fee": "6c56533b",
    "l_cost": "aae4ab7a",
    "l_shipdate": "6530a3a3",
    "l_commitdate": "ecaba336",
    "l_shiptime": "1bede0a3",
    "l_scantime": "01139aac",
    "l_received": "c18d0ca9",
    "l_logged": "3997cd20",
    "l_transit": "e28397aa",
    "l_warranty": "bdd5c77f",
    "l_comment": "f74a0d8a",
    "l_shipinstruct": "35135587",
    "l_tag": "ca0dc929",
    "l_label": "df9e893b",
    "l_digest": "a87c4dad",
    "l_shipmode": "70e323d0",
    "l_returnflag": "dd384da7",
    "l_reserved": "1a753aff",
}


def test_a_seed_always_gives_the_same_values():
    vocabulary = lineitem._vocabulary(np.random.default_rng([3, 0]))
    rows = lineitem.lineitem_batch(5, 1000, 3, vocabulary, pa.array(lineitem.MODES))
    found = {name: digest(rows.column(name)) for name in rows.schema.names}
    assert found == {name: DIGESTS[name] for name in found}
    assert DIGESTS.keys() - found.keys() <= {"l_fee", "l_cost"}, "absent in an older pyarrow"


def digest(column):
    values = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return hashlib.sha256(f"{column.type} {values.to_pylist()}".encode()).hexdigest()[:8]
