"""Dictionaries of statistics and counters that the compiled module returns: each key and its value."""

from __future__ import annotations

import pyarrow as pa
import pytest

import saeta as sa
from saeta import _core
from saeta._convert import from_tensors
from saeta._report import info
from sim_devices import simulator

NONE_MOVED = {"transfers": 0, "calls": 0, "bytes": 0}
WAYS = ("host_to_device", "device_to_host", "device_to_device", "peer_to_device", "host_to_host", "scalars")


def test_a_new_context_has_zero_counters(host):
    host.reset_counters()
    assert host.counters() == {
        **dict.fromkeys(WAYS, NONE_MOVED),
        "allocations": 0,
        "imports": 0,
        "exports": 0,
        "synchronizations": 0,
        "events": 0,
        "staged": 0,
    }


def test_each_action_has_a_counter():
    ctx = simulator().Device(0).context
    ctx.reset_counters()
    column = sa.column([1, 2, 3], ctx, name="n", type="int32")
    counted = ctx.counters()
    assert counted["host_to_device"]["transfers"] == 1
    assert counted["host_to_device"]["calls"] >= 1
    assert counted["host_to_device"]["bytes"] >= 12
    assert counted["allocations"] == 1
    assert (counted["device_to_host"], counted["exports"]) == (NONE_MOVED, 0)
    assert column.to_pylist() == [1, 2, 3]
    counted = ctx.counters()
    assert counted["device_to_host"]["bytes"] >= 12
    assert counted["synchronizations"] >= 1
    assert counted["device_to_device"] == NONE_MOVED
    column.__dlpack__(stream=2)
    assert ctx.counters()["exports"] == 1
    sa.Column.from_chunks([column, column]).combine_chunks()
    assert ctx.counters()["allocations"] > 1
    ctx.reset_counters()
    assert ctx.counters()["allocations"] == 0


def test_views_are_counted_as_imports(host):
    host.reset_counters()
    taken = sa.from_arrow(pa.array([1, 2, 3]), host)
    assert host.counters()["imports"] == 1
    assert host.counters()["host_to_host"] == NONE_MOVED
    del taken


def test_a_context_reports_its_options(run_python):
    program = """
import saeta as sa
plain = sa.context("host", wait=1.5, stack="statistics, budget, caching").options
print(plain)
"""
    environment = {
        "SAETA_STAGING_THREADS": "3",
        "SAETA_STAGING_PINNED": "8MiB",
        "SAETA_HOST_CACHE": "2MiB",
        "SAETA_RECORD": "50",
        "SAETA_POOL_THRESHOLD": "4MiB",
        "SAETA_SPILL_DIR": "/tmp",
        "SAETA_SPILL_PINNED": "1MiB",
        "SAETA_SPILL_PAGEABLE": "3MiB",
        "SAETA_SPILL_FILES": "5MiB",
        "SAETA_SPILL_COMPRESS": "1",
    }
    done = run_python(program, **environment)
    assert done.stderr == ""
    assert done.stdout.strip() == str(
        {
            "stack": "statistics, budget, caching",
            "wait": 1.5,
            "guard_quarantine": 64 << 20,
            "exportable_pool": False,
            "pool_threshold": 4 << 20,
            "record": 50,
            "staging_threads": 3,
            "staging_pinned": 8 << 20,
            "host_cache": 2 << 20,
            "spill_pinned": 1 << 20,
            "spill_pageable": 3 << 20,
            "spill_files": 5 << 20,
            "spill_compress": True,
        }
    )


@pytest.mark.parametrize(("wait", "seconds"), [(0, 0.0), (0.0004, 0.0), (0.0006, 0.001), (2.25, 2.25)])
def test_a_wait_is_rounded_to_milliseconds(run_python, wait, seconds):
    done = run_python(f"import saeta as sa; print(sa.context('host', wait={wait}).options['wait'])")
    assert (done.stderr, done.stdout) == ("", f"{seconds}\n")


def test_statistics_separate_bytes_by_owner(host):
    before = host.memory.statistics()
    child = host.memory.child("query", "1MiB")
    block = child.allocate("64KiB")
    view = sa.from_arrow(pa.array(range(1000), pa.int64()), child, as_column=True)
    with host.memory.reserve("1MiB"):
        after = host.memory.statistics()
    with pytest.raises(sa.BudgetExceeded) as refused:
        child.allocate("2MiB")
    assert after["limit"] is None
    assert after["remaining"] is None
    assert after["current"] - before["current"] == 64 << 10
    assert after["own"] - before["own"] == 64 << 10
    assert after["reserved"] - before["reserved"] == 1 << 20
    assert after["external"] - before["external"] == 8000
    assert after["buffers"] - before["buffers"] >= 2
    assert after["requests"] > before["requests"]
    assert after["held"] >= after["current"]
    assert (after["pinned"], after["foreign"]) == (before["pinned"], before["foreign"])
    assert after.keys() == {
        *("limit", "current", "reserved", "remaining", "peak", "requests", "refused", "own", "external"),
        *("buffers", "pinned", "held", "foreign", "host_held", "pending_releases"),
    }
    inside = child.memory.statistics()
    assert (inside["limit"], inside["current"], inside["remaining"]) == (1 << 20, 64 << 10, 960 << 10)
    assert (inside["refused"], inside["peak"]) == (1, 64 << 10)
    assert refused.value.numbers() == {
        "layer": "query",
        "requested": 2 << 20,
        "current": 64 << 10,
        "reserved": 0,
        "kept": 0,
        "required": (2 << 20) + (64 << 10),
        "limit": 1 << 20,
        "remaining": 960 << 10,
        "peak": 64 << 10,
        "owners": refused.value.owners,
        "others": {},
    }
    del block, view


def test_a_record_has_every_key(host):
    with host.memory.record() as recording:
        block = host.memory.child("query", "1MiB").allocate(1000, tag="scratch")
        address = block.address
        del block
    made, freed = (each for each in recording.records() if each["event"] in ("allocate", "free"))
    assert made == {
        "order": made["order"],
        "time_ns": made["time_ns"],
        "event": "allocate",
        "device": "host",
        "thread": made["thread"],
        "stream": made["stream"],
        "bytes": 1000,
        "address": address,
        "generation": made["generation"],
        "tag": "scratch",
        "account": "query",
        "limit": 1 << 20,
        "outcome": "ok",
        "reserved": made["reserved"],
        "held": made["held"],
    }
    assert freed["order"] > made["order"]
    assert freed["time_ns"] >= made["time_ns"]
    assert (freed["address"], freed["generation"]) == (address, made["generation"])
    assert made["stream"] > 0
    assert made["held"] >= 1000


def test_a_recording_counts_dropped_records(host):
    with host.memory.record(capacity=2) as recording:
        for _ in range(3):
            host.allocate(8)
        assert repr(recording) == f"<saeta.MemoryRecording: 2 records, {recording.forgotten} forgotten>"
    assert recording.forgotten >= 4
    assert len(recording.records()) == 2
    assert repr(recording).endswith(" forgotten, ended>")


def test_inspect_reports_every_property_of_a_file(tmp_path, host):
    table = pa.table(
        {"n": pa.array([1, None, 3], pa.int16()), "c": pa.array(["x", "y", "x"]).dictionary_encode()}
    ).replace_schema_metadata({"a": "b"})
    path = tmp_path / "a.arrows"
    with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table, max_chunksize=2)
    assert sa.ipc.inspect(path) == {
        "format": "stream",
        "bytes": path.stat().st_size,
        "compression": "lz4",
        "metadata_version": "V5",
        "batch_rows": [2, 1],
        "metadata": {b"a": b"b"},
        "columns": [
            {
                "name": "n",
                "type": "int16",
                "nullable": True,
                "supported": True,
                "nulls": 1,
                "dictionary_values": None,
            },
            {
                "name": "c",
                "type": "dictionary<values=string, indices=int32, ordered=0>",
                "nullable": True,
                "supported": True,
                "nulls": 0,
                "dictionary_values": 2,
            },
        ],
    }


def test_missing_parts_of_the_runtime_are_none(monkeypatch):
    known = _core._runtime()
    assert known.keys() == {"built_with_cuda", "cuda_usable", "cuda_missing", "cuda_runtime", "cuda_driver"}
    monkeypatch.setattr(
        _core,
        "_runtime",
        lambda: {
            **known,
            "cuda_usable": False,
            "cuda_runtime": "13.1",
            "cuda_driver": "",
            "cuda_missing": "x",
        },
    )
    found = info.info()
    assert found["cuda"]["runtime"] == "13.1"
    assert found["cuda"]["driver"] is None
    assert found["cuda"]["usable"] is False
    assert {"part": "cuda", "why": "x"} in found["missing"]
    monkeypatch.setattr(_core, "_runtime", lambda: {**known, "cuda_runtime": "", "cuda_driver": "13.2"})
    assert info.info()["cuda"]["runtime"] is None
    assert info.info()["cuda"]["driver"] == "13.2"


def test_info_names_a_missing_bridge(monkeypatch):
    state = {"usable": True, "built_for": "1", "loaded": "1", "missing": ""}
    monkeypatch.setattr(info, "_bridge_state", lambda: state)
    assert "saeta.cuda" not in {each["part"] for each in info.info()["missing"]}
    state["missing"] = "no bridge"
    assert {"part": "saeta.cuda", "why": "no bridge"} in info.info()["missing"]


def test_a_device_reports_its_properties():
    (device,) = [each for each in _core.devices() if each.name == "host"]
    assert (device.kind, device.ordinal) == (1, 0)
    assert repr(device).startswith("<saeta.Device host: ")
    assert repr(device).endswith(">")
    assert device.total_bytes > 1 << 28


@pytest.mark.parametrize(
    ("read", "least", "most"),
    [
        (from_tensors._unsigned, 0, 2**64 - 1),
        (from_tensors._signed, -(2**63), 2**63 - 1),
        (from_tensors._small, 0, 2**31 - 1),
    ],
)
def test_integers_out_of_range_for_their_field_are_refused(read, least, most):
    assert (read(least), read(most)) == (least, most)
    for wrong in (least - 1, most + 1):
        with pytest.raises(ValueError, match=rf"{wrong} is not in \[{least}, {most + 1}\)"):
            read(wrong)
    with pytest.raises(TypeError):
        read(1.5)
