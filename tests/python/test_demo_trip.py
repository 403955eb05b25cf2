"""The exact output of `saeta demo`, with a simulated clock."""

from __future__ import annotations

import importlib
import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import saeta as sa
from contexts import leaving_nothing
from sim_devices import simulator

typer = pytest.importorskip("typer")
pytest.importorskip("rich")

from saeta import _core  # noqa: E402
from saeta._report import human_bytes  # noqa: E402
from saeta.cli import demo  # noqa: E402
from saeta.demo import compare, frameworks, peers, report, trip  # noqa: E402
from saeta.demo.steps import Leg, Step, Traffic, Watch  # noqa: E402

GONE = "not installed (left out by this test)"


class Clock:
    """A clock whose nth reading comes n milliseconds after the previous one."""

    def __init__(self):
        self._steps = itertools.accumulate(itertools.count(1))

    def perf_counter(self):
        return next(self._steps) / 1000


SECONDS = {"memcpy": 0.02, "host_to_device": 0.1, "device_to_host": 0.2}


class Copies:
    """Stands in for measured plain copies, with a known rate."""

    def __init__(self, ctx, size, kind):
        assert size == 256 << 20
        self._kind = kind

    def time(self):
        return SECONDS[self._kind]


def only(*names):
    return lambda name: importlib.import_module(name) if name in names else GONE


@pytest.fixture
def known_surroundings(monkeypatch):
    monkeypatch.setattr(trip, "time", Clock())
    monkeypatch.setattr(trip, "ROOM_BESIDE_DATA", 8000)
    monkeypatch.setattr(_core, "_PlainCopies", Copies)
    monkeypatch.setattr(frameworks, "installed", only())
    monkeypatch.setattr(peers, "installed", only("pyarrow"))


@pytest.fixture
def clean(known_surroundings):
    with leaving_nothing(sa.context("host")) as ctx:
        yield ctx


def write(path, table, batch, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


def plain_table():
    return pa.table(
        {
            "a": pa.array(range(6), pa.int64()),
            "b": pa.array([0.5, 0.25, 0.125, 1.0, 2.0, 4.0], pa.float32()),
            "c": pa.array(["x", None, "y", "z", "x", "x"]).dictionary_encode(),
            "d": pa.array([1, 2, 3, 4, 5, None], pa.int64()),
        }
    )


def shown(capsys, path, **chosen):
    given = {"rows": 10, "seed": 0, "device": "host", "budget": None, "out": None, "timeline": None}
    demo.run(path, **{**given, **chosen}, as_json=False)
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.rstrip() for line in printed.out.split("\n")]
    before = lines.index("memory, before everything was let go")
    after = lines.index("rates (medians)")
    assert lines[before + 1].startswith("memory of ")
    return [*lines[: before + 1], *lines[after - 1 :]]


def test_the_output_of_a_demo_on_the_host(tmp_path, capsys, clean):
    path = write(tmp_path / "in.arrow", plain_table(), 4)
    size = path.stat().st_size
    result = tmp_path / "in-with-result.arrow"
    data = compare.read(path, "file").get_total_buffer_size()
    lines = shown(capsys, path, out=tmp_path)
    written = result.stat().st_size
    with Watch(clean) as watch:
        sa.read_ipc(path, clean, copy=True)
    data_read = watch.traffic.bytes["host_to_host"]
    table = next(i for i, line in enumerate(lines) if line.startswith("   <saeta.Table"))
    refusal = next(i for i, line in enumerate(lines) if line.startswith("   budget of host refused"))
    required = int(lines[refusal].split("refused ")[1].split()[0])
    assert lines[:table] == [
        "1. the file",
        f"   {path}: {human_bytes(size)} ({human_bytes(data)} of values), compression none",
        "   6 rows x 4 columns in 2 batches",
        "   device host; frameworks: numpy",
        f"   left out: torch: {GONE}",
        "   left out: cupy: views CUDA memory only",
        "",
        "2. refused: a budget that is too small",
        lines[refusal],
        f"   ✓ the refusal carries its numbers: 0 + {required:,} > {data // 3:,} B",
        "   ✓ nothing of it stays allocated: in use: 0 B",
        "",
        "3. read under a budget",
        f"   budget {human_bytes(data + data // 8 + 8000)}",
    ]
    assert lines[table + 1 : table + 5] == [
        "     a  int64                                                0, 1, 2, 3, 4, …",
        "     b  float                                                0.5, 0.25, 0.125, 1, 2, …",
        "     c  dictionary<values=string, indices=int32, ordered=0>  x, null, y, z, x, …",
        "     d  int64                                                1, 2, 3, 4, 5, …",
    ]
    assert lines[table + 5 :] == [
        "   2 ms the first time, 6 ms once what it made is there",
        "   ✓ one transfer for the table: 2 batches; transfers: 1 host to host; allocations 2, "
        "imports 0, exports 0, waits of the host 0",
        "",
        "4. columns to the frameworks",
        "   numpy: 4 chunks, 2500.0 us each",
        "   ✓ numpy: the same memory: 4 of 4 pointers are equal",
        "   ✓ numpy: no copy at the hand-over: transfers: none; allocations 0, imports 0, exports 4, "
        "waits of the host 0",
        "",
        "5. sums there and here",
        "   ✓ numpy: sum of a: 15 there, 15 on the host",
        "   ✓ numpy: sum of b: 7.875 there, 7.875 on the host",
        "",
        "6. a result column back",
        "   saeta_result = a * (1 - b), computed by numpy; 6000.0 us a chunk",
        "   ✓ the same memory: 2 of 2 pointers are equal",
        "   ✓ no copy on the way back: transfers: none; allocations 0, imports 2, exports 0, waits of the "
        "host 0",
        "",
        "7. columns to other libraries",
        f"   polars: {GONE}",
        f"   pandas: {GONE}",
        f"   duckdb: {GONE}",
        f"   jax: {GONE}",
        "   ✓ pyarrow has every row: 6 of 6",
        "",
        "8. written, and read again by pyarrow",
        f"   {result}: {human_bytes(written)}",
        "   ✓ every value is the same: 30 values in 5 columns",
        "   ✓ the schema is the same: 5 fields with their metadata",
        "",
        "9. everything let go",
        "   ✓ no byte stays: in use 0 B, external 0 B",
        "",
        "memory, before everything was let go",
        "",
        "rates (medians)",
        "leg                    bytes  seconds   GB/s  of a plain copy",
        f"file -> host {human_bytes(data_read):>15}   0.0240   0.00               0%",
        f"host -> file {human_bytes(written):>15}   0.0140   0.00               0%",
        "memcpy, one thread   256 MiB   0.0200  13.42",
        f"the files are in {tmp_path}",
        "",
        "all 13 checks passed",
        "",
    ]


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.usefixtures("known_surroundings")
def test_a_demo_on_a_device_without_a_framework(tmp_path, capsys, monkeypatch, compression):
    simulated = simulator().Device(0)
    ctx = simulated.context
    monkeypatch.setattr(_core, "context", lambda *_, **__: ctx)
    path = write(tmp_path / "in.arrow", plain_table(), 4, compression)
    page = tmp_path / "page.html"
    lines = shown(capsys, path, timeline=page, budget="1MiB")
    assert f"   device {ctx.device}; frameworks: none" in lines
    assert "   left out: numpy: views host memory only" in lines
    assert f"   left out: cupy: {GONE}" in lines
    step = lines.index("4. columns to the frameworks")
    assert lines[step + 1] == "   left out: no framework that reaches the device"
    assert lines[step + 3] == "5. columns to other libraries"
    (transfers,) = [line for line in lines if "one transfer" in line]
    if compression is None:
        assert transfers.startswith(
            "   ✓ one transfer for the table: 2 batches; transfers: 1 host to device;"
        )
    else:
        assert transfers.startswith(
            "   ✓ at most one transfer a batch and one for the dictionaries: 2 batches; transfers: 1 host to "
            "device;"
        )
    rates = lines[lines.index("rates (medians)") :]
    assert any(line.startswith("pinned host -> device   256 MiB   0.1000   2.68") for line in rates)
    assert any(line.startswith("device -> pinned host   256 MiB   0.2000   1.34") for line in rates)
    assert any(line.startswith("memcpy, one thread      256 MiB   0.0200  13.42") for line in rates)
    assert f"the memory in use meanwhile is drawn in {page}" in lines
    assert f"Memory on {ctx.device} during the demo" in page.read_text(encoding="utf-8")
    assert not any(line.startswith("the files are in") for line in lines)
    assert simulated.races == []


@pytest.mark.parametrize(
    ("dictionary", "beside"), [(False, ""), (True, " and one for the dictionaries")], ids=["plain", "coded"]
)
def test_the_limit_of_transfers_of_a_compressed_file_includes_dictionaries(
    tmp_path, capsys, clean, dictionary, beside
):
    column = pa.array(["x", "y", "x"])
    table = pa.table({"c": column.dictionary_encode() if dictionary else column})
    lines = shown(capsys, write(tmp_path / "in.arrow", table, 2, "lz4"))
    assert any(line.startswith(f"   ✓ at most one transfer a batch{beside}: 2 batches; ") for line in lines)


def test_a_failed_check_ends_the_demo_with_its_name_and_code_1(tmp_path, capsys, monkeypatch, clean):
    path = write(tmp_path / "in.arrow", plain_table(), 4)
    monkeypatch.setattr(compare, "same_values", lambda left, right: left.type != pa.float32())
    with pytest.raises(typer.Exit) as ended:
        shown(capsys, path)
    assert ended.value.exit_code == 1
    lines = capsys.readouterr().out.split("\n")
    assert "   ✗ every value is the same: differ: ['b']" in lines
    assert "1 checks failed: every value is the same" in lines
    assert "all 13 checks passed" not in lines


def test_the_json_of_a_demo_has_the_steps_and_the_rates(tmp_path, capsys, clean):
    path = write(tmp_path / "in.arrow", plain_table(), 6)
    demo.run(path, rows=1, seed=0, device="host", budget=None, out=tmp_path, timeline=None, as_json=True)
    text = capsys.readouterr().out
    assert text.startswith('{\n  "file"'), "JSON is indented for human readers"
    result = json.loads(text)
    assert (result["file"], result["device"], result["passed"]) == (str(path), "host", True)
    assert result["frameworks"] == ["numpy"]
    steps = {step["title"]: step for step in result["steps"]}
    assert steps["the file"]["data"] == {"rows": 6, "batches": 1, "bytes": path.stat().st_size}
    read = steps["read under a budget"]["data"]
    assert read == {
        "first": pytest.approx(0.002),
        "seconds": pytest.approx([0.004, 0.006, 0.008]),
        "transfers": 1,
        "bytes": result["rates"][0]["bytes"],
    }
    assert steps["columns to the frameworks"]["data"] == {
        "numpy": {"chunks": 2, "seconds": pytest.approx(0.010)}
    }
    refusal = steps["refused: a budget that is too small"]["data"]
    assert refusal["required"] == refusal["requested"] > refusal["limit"]
    legs = {row["name"]: row for row in result["rates"]}
    assert list(legs) == ["file -> host", "host -> file", "memcpy, one thread"]
    assert legs["memcpy, one thread"] == {
        "name": "memcpy, one thread",
        "bytes": 256 << 20,
        "seconds": 0.02,
        "rounds": 9,
        "gb_per_s": pytest.approx((256 << 20) / 0.02 / 1e9),
        "share": None,
    }
    assert legs["file -> host"]["rounds"] == 9
    assert legs["file -> host"]["share"] == pytest.approx(
        legs["file -> host"]["gb_per_s"] / legs["memcpy, one thread"]["gb_per_s"]
    )
    assert result["memory"].startswith("memory of host\n")


def test_the_result_is_computed_from_lineitem_columns(tmp_path, capsys, clean):
    prices = pa.table(
        {
            "n": pa.array([1, 2], pa.int32()),
            "l_discount": [0.5, 0.25],
            "l_extendedprice": [100.0, 200.0],
        }
    )
    path = write(tmp_path / "in.arrow", prices, 2)
    lines = shown(capsys, path, out=tmp_path)
    assert any(
        line.startswith("   saeta_result = l_extendedprice * (1 - l_discount), computed by numpy;")
        for line in lines
    )
    written = pa.ipc.open_file(tmp_path / "in-with-result.arrow").read_all()
    assert written["saeta_result"].to_pylist() == [50.0, 150.0]


def test_a_single_numeric_column_is_used_for_both_inputs(tmp_path, capsys, clean):
    path = write(tmp_path / "in.arrow", pa.table({"n": pa.array([1, 3], pa.int32())}), 2)
    lines = shown(capsys, path, out=tmp_path)
    assert any(line.startswith("   saeta_result = n * (1 - n), computed by numpy;") for line in lines)
    written = pa.ipc.open_file(tmp_path / "in-with-result.arrow").read_all()
    assert written["saeta_result"].to_pylist() == [0.0, -6.0]


def test_tables_without_common_types_are_not_passed_to_libraries(tmp_path, capsys, clean):
    path = write(tmp_path / "in.arrow", pa.table({"n": pa.array([1, 3], pa.int8())}), 2)
    lines = shown(capsys, path)
    assert "   left out: no column without nulls of a type that all of them have" in lines


def test_columns_that_can_not_be_tensors_are_left_out(tmp_path, capsys, clean):
    table = pa.table(
        {"n": [1, None], "s": ["a", "b"], "l": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))}
    )
    lines = shown(capsys, write(tmp_path / "in.arrow", table, 2))
    step = lines.index("4. columns to the frameworks")
    assert lines[step + 1] == "   left out: no numeric column without nulls"


def test_a_read_that_should_exceed_the_budget_but_fits_is_a_failed_check(tmp_path, clean):
    path = write(tmp_path / "in.arrow", plain_table(), 6)
    demo = trip.Trip(clean, path, tmp_path / "out.arrow")
    steps = demo.run()
    next(steps)
    demo.data_bytes = 30_000
    step = next(steps)
    steps.close()
    assert step.checks[0].name == "the read is refused"
    assert (step.checks[0].passed, step.checks[0].detail) == (False, "it fitted into 10,000 B")
    assert not step.passed


def test_rates_are_of_the_median_round():
    leg = Leg("file -> host", 6_000_000_000, [1.0, 9.0, 2.0])
    assert leg.rate == 3.0
    memcpy = Leg("memcpy", 1_000_000_000, [0.25, 0.5, 0.125])
    pinned = Leg("pinned host -> device", 1_000_000_000, [0.2])
    both = SimpleNamespace(legs=[leg], yardsticks=[memcpy, pinned])
    assert report.yardstick(both) is pinned
    assert report.rows(both)[0] == {
        "name": "file -> host",
        "bytes": 6_000_000_000,
        "seconds": 2.0,
        "rounds": 3,
        "gb_per_s": 3.0,
        "share": 0.6,
    }
    assert [row["share"] for row in report.rows(both)] == [0.6, None, None]
    assert report.yardstick(SimpleNamespace(yardsticks=[memcpy])) is memcpy
    alone = SimpleNamespace(legs=[leg], yardsticks=[])
    assert report.yardstick(alone) is None
    assert report.rows(alone)[0]["share"] is None


def test_the_traffic_of_a_block_is_the_difference_of_counters():
    ways = ("host_to_device", "device_to_host", "device_to_device", "host_to_host")

    def counters(first):
        moved = {way: {"transfers": first + i, "bytes": 10 * (first + i)} for i, way in enumerate(ways)}
        plain = ("allocations", "imports", "exports", "synchronizations")
        return {**moved, **{name: 3 * first + i for i, name in enumerate(plain)}}

    seen = [counters(1), {**counters(1), "imports": 9, "host_to_host": {"transfers": 6, "bytes": 100}}]
    with Watch(SimpleNamespace(counters=lambda: seen.pop(0))) as watch:
        pass
    assert (watch.traffic.copies, watch.traffic.imports, watch.traffic.quiet) == (2, 5, False)
    assert watch.traffic.bytes["host_to_host"] == 60
    assert str(watch.traffic) == (
        "transfers: 2 host to host; allocations 0, imports 5, exports 0, waits of the host 0"
    )
    quiet = Traffic(counters(4), counters(4))
    assert quiet.quiet
    assert str(quiet).startswith("transfers: none; ")
    for name in ("allocations", "synchronizations"):
        assert not Traffic(counters(4), {**counters(4), name: 99}).quiet
    assert Traffic(counters(4), {**counters(4), "imports": 99, "exports": 99}).quiet


def test_a_step_passes_if_all_its_checks_pass():
    step = Step("a title")
    assert step.passed
    step.check("first", True, "1")
    assert step.passed
    step.check("second", np.False_, "2")
    assert not step.passed
    assert [check.passed for check in step.checks] == [True, False]


def test_values_are_compared_bit_by_bit():
    def chunked(values, type):  # noqa: A002 - the word of the lexicon
        return pa.chunked_array([pa.array(values, type)])

    for type in (pa.float16(), pa.float32(), pa.float64()):  # noqa: A001
        nan, zero = chunked([np.nan], type), chunked([0.0], type)
        assert compare.same_values(nan, nan)
        assert not compare.same_values(zero, chunked([-0.0], type))
    whole = chunked([1, 2, None], pa.int32())
    assert compare.same_values(
        whole, pa.chunked_array([pa.array([1], pa.int32()), whole[1:].combine_chunks()])
    )
    assert not compare.same_values(whole, whole[:2])
    assert not compare.same_values(whole, whole.cast(pa.int64()))
    assert not compare.same_values(whole, chunked([1, 2, 3], pa.int32()))


class Tensor:
    """The methods of a torch or CuPy tensor that the demo uses."""

    def __init__(self, floating):
        self.dtype = SimpleNamespace(kind="f" if floating else "i")
        self.data = SimpleNamespace(ptr=4096)
        self.is_floating_point = lambda: floating

    def data_ptr(self):
        return 8192

    def sum(self, dtype):
        return SimpleNamespace(item=lambda: dtype)

    def to(self, dtype):
        return "to", dtype

    def astype(self, dtype):
        return "astype", dtype


def framework_of(monkeypatch, name, module, device):
    monkeypatch.setattr(frameworks, "installed", lambda asked: module if asked == name else GONE)
    found, absent = frameworks.available(SimpleNamespace(device=device))
    return {each.name: each for each in found}.get(name), absent


def test_the_torch_adapter_uses_torchs_names(monkeypatch):
    waits = []
    cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: waits.append(1))
    torch = SimpleNamespace(from_dlpack="view", float64="f64", int64="i64", cuda=cuda)
    made, _ = framework_of(monkeypatch, "torch", torch, "cuda:0")
    assert (made.take, made.pointer(Tensor(True))) == ("view", 8192)
    assert (made.total(Tensor(True)), made.total(Tensor(False))) == ("f64", "i64")
    assert made.widen(Tensor(True)) == ("to", "f64")
    made.settle()
    assert waits == [1]
    on_host, _ = framework_of(monkeypatch, "torch", torch, "host")
    on_host.settle()
    assert waits == [1]
    cuda.is_available = lambda: False
    assert framework_of(monkeypatch, "torch", torch, "host")[0] is not None
    assert framework_of(monkeypatch, "torch", torch, "cuda:0") == (
        None,
        ["torch: its build reaches no CUDA device", f"cupy: {GONE}", "numpy: views host memory only"],
    )


def test_the_cupy_adapter_uses_cupys_names(monkeypatch):
    waits = []
    runtime = SimpleNamespace(deviceSynchronize=lambda: waits.append(1))
    cupy = SimpleNamespace(
        from_dlpack="view", float64="f64", int64="i64", cuda=SimpleNamespace(runtime=runtime)
    )
    made, _ = framework_of(monkeypatch, "cupy", cupy, "cuda:0")
    assert (made.take, made.pointer(Tensor(True))) == ("view", 4096)
    assert (made.total(Tensor(True)), made.total(Tensor(False))) == ("f64", "i64")
    assert made.widen(Tensor(True)) == ("astype", "f64")
    made.settle()
    assert waits == [1]
    assert framework_of(monkeypatch, "cupy", cupy, "host")[1] == [
        f"torch: {GONE}",
        "cupy: views CUDA memory only",
    ]


def test_numpy_sums_in_64_bits(monkeypatch):
    made, _ = framework_of(monkeypatch, "numpy", None, "host")
    assert made.total(np.full(3, 127, np.int8)) == 381
    assert made.total(np.full(4, 60000, np.float16)) == 240000.0
    assert made.widen(np.ones(1, np.float32)).dtype == np.float64
    made.settle()


def test_the_check_names_a_library_too_old_for_streams(monkeypatch):
    def too_old(library, table):
        raise AttributeError("no attribute 'from_arrow'")

    monkeypatch.setattr(peers, "installed", lambda name: SimpleNamespace(__name__=name))
    monkeypatch.setattr(peers, "TABLES", {"new": lambda library, table: 7, "old": too_old})
    assert list(peers.take_table(None)) == [
        ("new", 7),
        ("old", "this release takes no Arrow stream (no attribute 'from_arrow')"),
    ]


def test_jax_takes_the_first_chunk_and_only_on_the_host(monkeypatch):
    jax = SimpleNamespace(numpy=SimpleNamespace(from_dlpack=lambda chunk: SimpleNamespace(shape=(chunk,))))
    monkeypatch.setattr(peers, "installed", lambda name: jax)
    assert peers.take_column(SimpleNamespace(device="host", chunks=[5, 6])) == ("jax", 5)
    assert peers.take_column(SimpleNamespace(device="cuda:0", chunks=[5])) == (
        "jax",
        "left alone: it would take most of the memory of the GPU",
    )
    monkeypatch.setattr(peers, "installed", lambda name: GONE)
    assert peers.take_column(SimpleNamespace(device="host", chunks=[5])) == ("jax", GONE)


def test_a_missing_package_has_a_reason():
    assert frameworks.installed("json") is json
    assert frameworks.installed("no_such_package") == ("not installed (No module named 'no_such_package')")


def test_only_sums_of_floats_may_differ_by_rounding(tmp_path, clean, monkeypatch):
    table = pa.table({"f": [1.0, 2.0], "n": [1, 2]})
    path = write(tmp_path / "in.arrow", table, 2)
    numpy_alone = frameworks._numpy(clean)

    def passed(factor, more):
        demo = trip.Trip(clean, path, tmp_path / "out.arrow")
        total = lambda values: (  # noqa: E731 - a field of the framework
            numpy_alone.total(values) * factor
            if values.dtype.kind == "f"
            else numpy_alone.total(values) + more
        )
        framework = replace(numpy_alone, total=total)
        monkeypatch.setattr(trip, "available", lambda ctx: ([framework], []))
        (step,) = [step for step in demo.run() if step.title == "sums there and here"]
        return [check.passed for check in step.checks]

    assert passed(1.0, 0) == [True, True]
    assert passed(1.0 + 1e-12, 0) == [True, True]
    assert passed(1.0 + 1e-6, 0) == [False, True]
    assert passed(1.0, 1) == [True, False]
