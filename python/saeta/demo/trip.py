"""The round trip: file -> device -> frameworks -> result column -> file, with checks at each step."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import pyarrow

from saeta import _core, ipc
from saeta._core import Column, Context, Table
from saeta._report import count_text, human_bytes
from saeta.demo import compare
from saeta.demo.frameworks import Framework, available
from saeta.demo.peers import take_column, take_table
from saeta.demo.steps import Leg, Step, Watch
from saeta.errors import BudgetExceeded
from saeta.exchange import from_dlpack

RESULT = "saeta_result"
SUMMABLE = frozenset({"int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"})
KNOWN_EVERYWHERE = frozenset({"int32", "int64", "float32", "float64"})
# After a first round, which allocates the page-locked chunks and device memory that these rounds reuse.
READ_ROUNDS = 3
RATE_ROUNDS = 9  # alternating reads and plain copies
YARDSTICK_BYTES = 256 << 20  # larger than the caches
ROOM_BESIDE_DATA = 64 << 20


@dataclass
class Trip:
    """The state that the steps share. `run` yields them in order and fills `legs`, `memory` and `yardsticks`.

    On the host, too, the table is in memory of the context, so that the budget applies there.
    """

    ctx: Context
    source: Path
    target: Path
    budget: int | None = None
    progress: Any = None  # as for read_ipc
    legs: list[Leg] = field(default_factory=list)
    yardsticks: list[Leg] = field(default_factory=list)
    memory: str = ""
    _held: list[Table] = field(default_factory=list)  # empty or one table, so that it can be dropped

    @property
    def table(self) -> Table:
        return self._held[0]

    def run(self) -> Iterator[Step]:
        self.summary = ipc.inspect(self.source)
        self.reference = compare.read(self.source, self.summary["format"])
        # The size of the table in memory, decompressed.
        self.data_bytes = self.reference.get_total_buffer_size()
        self.frameworks, self.absent = available(self.ctx)
        yield self._look()
        yield self._check_refusal()
        yield self._read()
        self.tensors = [column for column in self.table.columns if self._is_tensor(column)]
        self.numbers = [column for column in self.tensors if column.type.dtype in SUMMABLE]
        if self.numbers and self.frameworks:
            yield self._hand_over()
            yield self._sum()
            yield self._take_back()
        else:
            yield self._explain_no_tensors()
        yield self._show_to_libraries()
        yield self._write()
        self.memory = self.ctx.memory.report()
        yield self._release_all()
        self._measure_rates()

    def _look(self) -> Step:
        batches = self.summary["batch_rows"]
        size = f"{human_bytes(self.summary['bytes'])} ({human_bytes(self.data_bytes)} of values)"
        step = Step("the file")
        step.facts += [
            f"{self.source}: {size}, compression {self.summary['compression']}",
            f"{count_text(sum(batches), 'row', 'rows')} x "
            f"{count_text(len(self.summary['columns']), 'column', 'columns')} "
            f"in {count_text(len(batches), 'batch', 'batches')}",
            f"device {self.ctx.device}; frameworks: {', '.join(f.name for f in self.frameworks) or 'none'}",
            *(f"left out: {reason}" for reason in self.absent),
        ]
        step.data = {"rows": sum(batches), "batches": len(batches), "bytes": self.summary["bytes"]}
        return step

    def _check_refusal(self) -> Step:
        step = Step("refused: a budget that is too small")
        if not self.reference.num_rows:
            step.facts.append("left out: the file holds no values that a budget could refuse")
            return step
        before = self.ctx.memory.statistics()["current"] or 0
        self.ctx.memory.limit = before + max(1, self.data_bytes // 3)
        try:
            ipc.read_ipc(self.source, self.ctx, copy=True)
            step.check("the read is refused", False, f"it fitted into {self.ctx.memory.limit:,} B")
        except BudgetExceeded as refusal:
            step.facts.append(str(refusal))
            step.data = refusal.numbers()
            step.check(
                "the refusal carries its numbers",
                refusal.required == refusal.current + refusal.requested and refusal.required > refusal.limit,
                f"{refusal.current:,} + {refusal.requested:,} > {refusal.limit:,} B",
            )
        self.ctx.synchronize()
        after = self.ctx.memory.statistics()["current"]
        step.check("nothing of it stays allocated", after == before, f"in use: {after:,} B")
        return step

    def _read(self) -> Step:
        step = Step("read under a budget")
        self.ctx.memory.limit = self.budget or self.data_bytes + self.data_bytes // 8 + ROOM_BESIDE_DATA
        seconds = []
        for _ in range(1 + READ_ROUNDS):
            self._held.clear()  # releases the table of the previous round
            gc.collect()
            self.ctx.synchronize()
            with Watch(self.ctx) as watch:
                table, taken = self._time_read(self.progress)
            self._held.append(table)
            del table  # leaves one reference, which the next round drops
            seconds.append(taken)
        first = seconds.pop(0)
        batches = len(self.summary["batch_rows"])
        dictionaries = int(any(column["dictionary_values"] is not None for column in self.summary["columns"]))
        at_once = self.summary["compression"] == "none"
        expected = (
            int(self.table.nbytes > 0)
            if at_once
            else sum(rows > 0 for rows in self.summary["batch_rows"]) + dictionaries
        )
        self.legs.append(Leg(f"file -> {self.ctx.device}", sum(watch.traffic.bytes.values()), seconds))
        step.facts += [f"budget {human_bytes(self.ctx.memory.limit)}", *str(self.table).splitlines()]
        step.facts.append(
            f"{first * 1e3:.0f} ms the first time, {median(seconds) * 1e3:.0f} ms once what it made is there"
        )
        beside = " and one for the dictionaries" if dictionaries else ""
        step.check(
            "one transfer for the table" if at_once else f"at most one transfer a batch{beside}",
            watch.traffic.copies == expected if at_once else 0 < watch.traffic.copies <= expected,
            f"{count_text(batches, 'batch', 'batches')}; {watch.traffic}",
        )
        step.data = {
            "first": first,
            "seconds": seconds,
            "transfers": watch.traffic.copies,
            "bytes": self.legs[-1].bytes,
        }
        return step

    def _time_read(self, progress: Any = None) -> tuple[Table, float]:
        start = time.perf_counter()
        table = ipc.read_ipc(self.source, self.ctx, copy=True, progress=progress)
        self.ctx.synchronize()
        return table, time.perf_counter() - start

    def _hand_over(self) -> Step:
        step = Step("columns to the frameworks")
        for framework in self.frameworks:
            chunks = [chunk for column in self.tensors for chunk in column.chunks]
            framework.take(chunks[0])  # the first call includes the framework's set-up
            with Watch(self.ctx) as watch:
                start = time.perf_counter()
                views = [framework.take(chunk) for chunk in chunks]
                seconds = time.perf_counter() - start
            self._check_memory(step, f"{framework.name}: the same memory", framework, views, chunks)
            step.check(f"{framework.name}: no copy at the hand-over", watch.traffic.quiet, str(watch.traffic))
            step.facts.append(
                f"{framework.name}: {len(chunks)} chunks, {seconds / len(chunks) * 1e6:.1f} us each"
            )
            step.data[framework.name] = {"chunks": len(chunks), "seconds": seconds}
        return step

    def _sum(self) -> Step:
        step = Step("sums there and here")
        for framework in self.frameworks:
            for column in self.numbers:
                there = sum(framework.total(framework.take(chunk)) for chunk in column.chunks if len(chunk))
                here = self._sum_on_host(column)
                equal = there == here if isinstance(here, int) else math.isclose(there, here, rel_tol=1e-9)
                step.check(
                    f"{framework.name}: sum of {column.name}", equal, f"{there} there, {here} on the host"
                )
        return step

    def _take_back(self) -> Step:
        framework = self.frameworks[0]
        step = Step("a result column back")
        inputs, formula = self._inputs()
        pairs = zip(inputs[0].chunks, inputs[1].chunks, strict=True)
        results = [self._formula(framework.take(a), framework.take(b), framework) for a, b in pairs]
        framework.settle()
        with Watch(self.ctx) as watch:
            start = time.perf_counter()
            chunks = [from_dlpack(result, self.ctx) for result in results]
            seconds = time.perf_counter() - start
        step.facts.append(
            f"{RESULT} = {formula}, computed by {framework.name}; {seconds / len(chunks) * 1e6:.1f} us a "
            "chunk"
        )
        self._check_memory(step, "the same memory", framework, results, chunks)
        step.check("no copy on the way back", watch.traffic.quiet, str(watch.traffic))
        self._held[0] = self.table.append_column(RESULT, Column.from_chunks(chunks))
        self.reference = self.reference.append_column(
            pyarrow.field(RESULT, pyarrow.float64(), nullable=False), self._expected(inputs)
        )
        return step

    def _show_to_libraries(self) -> Step:
        """Passes the table to libraries that take tables, and a column to JAX.

        A library may not support all Arrow types: DuckDB refuses half floats, polars large decimals.
        """
        step = Step("columns to other libraries")
        known = [column for column in self.numbers if column.type.dtype in KNOWN_EVERYWHERE]
        if not known:
            step.facts.append("left out: no column without nulls of a type that all of them have")
            return step
        numeric = self.table.select([column.name for column in known])
        for name, rows in take_table(numeric):
            self._note_rows(step, name, rows, numeric.num_rows)
        self._note_rows(step, *take_column(known[0]), len(known[0].chunks[0]))
        return step

    def _note_rows(self, step: Step, name: str, got: int | str, expected: int) -> None:
        if isinstance(got, str):
            step.facts.append(f"{name}: {got}")
        else:
            step.check(f"{name} has every row", got == expected, f"{got:,} of {expected:,}")

    def _explain_no_tensors(self) -> Step:
        step = Step("columns to the frameworks")
        reason = (
            "no numeric column without nulls" if self.frameworks else "no framework that reaches the device"
        )
        step.facts.append(f"left out: {reason}")
        return step

    def _write(self) -> Step:
        step = Step("written, and read again by pyarrow")
        start = time.perf_counter()
        size = ipc.write_ipc(self.table, self.target, progress=self.progress)
        self.legs.append(Leg(f"{self.ctx.device} -> file", size, [time.perf_counter() - start]))
        again = compare.read(self.target, "file")
        step.facts.append(f"{self.target}: {human_bytes(size)}")
        different = [
            name
            for name, left, right in zip(
                self.reference.column_names, self.reference.columns, again.columns, strict=True
            )
            if not compare.same_values(left, right)
        ]
        values = self.reference.num_rows * self.reference.num_columns
        detail = f"{values:,} values in {self.reference.num_columns} columns"
        step.check("every value is the same", not different, f"differ: {different}" if different else detail)
        same_schema = self.reference.schema.equals(again.schema, check_metadata=True)
        step.check("the schema is the same", same_schema, f"{again.num_columns} fields with their metadata")
        return step

    def _release_all(self) -> Step:
        step = Step("everything let go")
        self._held.clear()
        self.tensors = self.numbers = []
        gc.collect()
        self.ctx.synchronize()
        left = self.ctx.memory.statistics()
        step.check(
            "no byte stays",
            left["current"] == 0 and left["external"] == 0,
            f"in use {left['current']:,} B, external {left['external']:,} B",
        )
        return step

    def _measure_rates(self) -> None:
        """Alternates reads and plain copies, so that other load on the machine affects both equally."""
        self.ctx.memory.limit = None
        kinds = {"memcpy": "memcpy, one thread"}
        if self.ctx.device != "host":
            kinds |= {"host_to_device": "pinned host -> device", "device_to_host": "device -> pinned host"}
        copies = {kind: _core._PlainCopies(self.ctx, YARDSTICK_BYTES, kind) for kind in kinds}
        copied: dict[str, list[float]] = {kind: [] for kind in kinds}
        read = []
        for _ in range(RATE_ROUNDS):
            for kind, copy in copies.items():
                copied[kind].append(copy.time())
            read.append(self._time_read()[1])
        self.legs[0] = replace(self.legs[0], seconds=read)
        self.yardsticks += [Leg(name, YARDSTICK_BYTES, copied[kind]) for kind, name in kinds.items()]

    def _check_memory(
        self, step: Step, name: str, framework: Framework, views: list[Any], chunks: list[Column]
    ) -> None:
        pairs = [(view, chunk) for view, chunk in zip(views, chunks, strict=True) if len(chunk)]
        same = sum(framework.pointer(view) == chunk.address for view, chunk in pairs)
        step.check(name, same == len(pairs), f"{same} of {len(pairs)} pointers are equal")

    def _is_tensor(self, column: Column) -> bool:
        alone = self.table.column_names.count(column.name) == 1
        # A struct or a list would become a multi-dimensional tensor.
        flat = column.type.dtype is not None and not column.type.fields
        return alone and flat and len(column) > 0 and column.null_count == 0

    def _sum_on_host(self, column: Column) -> int | float:
        floating = column.type.dtype is not None and column.type.dtype.startswith("float")
        wide = numpy.float64 if floating else numpy.int64
        chunks = self.reference.column(column.name).chunks
        total: int | float = sum(
            chunk.to_numpy(zero_copy_only=False).sum(dtype=wide).item() for chunk in chunks
        )
        return total

    def _inputs(self) -> tuple[tuple[Column, Column], str]:
        names = {column.name: column for column in self.numbers}
        if {"l_extendedprice", "l_discount"} <= names.keys():
            inputs = names["l_extendedprice"], names["l_discount"]
            return inputs, "l_extendedprice * (1 - l_discount)"
        a, b = (self.numbers * 2)[:2]
        return (a, b), f"{a.name} * (1 - {b.name})"

    def _formula(self, a: Any, b: Any, framework: Framework) -> Any:
        return framework.widen(a) * (1.0 - framework.widen(b))

    def _expected(self, inputs: tuple[Column, Column]) -> Any:
        a, b = (self.reference.column(column.name).to_numpy().astype(numpy.float64) for column in inputs)
        return pyarrow.array(a * (1.0 - b))
