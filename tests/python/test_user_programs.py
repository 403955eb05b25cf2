"""Whole programs of users: training from an S3 folder with resume, ranks as processes, and Parquet files that
are larger than the budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saeta as sa
from store_servers import moto_server, put_object

ROWS, FILES, FEATURES = 6000, 4, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files of numbered rows with features and a label."""
    made = tmp_path_factory.mktemp("files")
    numbers = np.random.default_rng(5)
    for file in range(FILES):
        x = numbers.standard_normal((ROWS // FILES, FEATURES), np.float32)
        columns = {f"x{number}": x[:, number] for number in range(FEATURES)}
        first = file * (ROWS // FILES)
        rows = pa.table(
            {"row": np.arange(first, first + len(x)), **columns, "label": x @ np.arange(FEATURES) > 0}
        )
        pq.write_table(rows, made / f"{file}.parquet", row_group_size=200, compression="zstd")
    return made


def run(program: str, *arguments: object, fails: bool = False) -> Any:
    """Runs a program in a process of its own. Returns what it printed last, as JSON."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert (done.returncode != 0) == fails, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# Trains until a batch of the epochs, where the process is killed, or to the end. It prints the losses and the
# rows of all batches that a complete run would have.
TRAIN = """
import json, os, pickle, sys
from pathlib import Path
import saeta as sa

library, checkpoint, end = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
features = [f"x{number}" for number in range(6)]
loader = sa.loader(
    "s3://training/days", "host", batch_size=64, shuffle="rows", seed=3, window="32KiB",
    matrix={"x": features}, dtype={"x": "float32"}, to=library,
)

if library == "torch":
    import torch
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step(x, label):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], label.float())
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    state, load = model.state_dict, model.load_state_dict
else:
    import numpy as np
    weights = np.zeros(6, np.float32)
    def step(x, label):
        odds = x @ weights
        weights[:] -= 0.1 * x.T @ (1 / (1 + np.exp(-odds)) - label) / len(label)
        return float((np.logaddexp(0, odds) - odds * label).mean())
    state = weights.copy
    def load(kept): weights[:] = kept

seen = []
if checkpoint.exists():
    place, kept, seen = pickle.loads(checkpoint.read_bytes())
    loader.load_state_dict(place)
    load(kept)
while loader.epoch < 2:
    for batch in loader:
        seen.append((loader.epoch, step(batch["x"], batch["label"]), batch["row"].tolist()))
        if len(seen) % 10 == 0:
            checkpoint.write_bytes(pickle.dumps((loader.state_dict(), state(), seen)))
        if len(seen) == end:
            print(json.dumps(len(seen)), flush=True)
            os.kill(os.getpid(), 9)
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def s3(folder: Path) -> Iterator[str]:
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with moto_server() as url:
        put_object(url, "training", b"")
        for file in folder.iterdir():
            put_object(url, f"training/days/{file.name}", file.read_bytes())
        yield url


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_training_from_an_s3_folder_of_parquet_goes_on_after_a_crash(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    pytest.importorskip(library)
    for name, value in (("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", "testing"),
                        ("AWS_REGION", "us-east-1"), ("AWS_ENDPOINT_URL", s3)):  # fmt: skip
        monkeypatch.setenv(name, value)
    whole = run(TRAIN, library, tmp_path / "never", -1)
    for epoch in range(2):
        rows = [row for number, _, rows in whole if number == epoch for row in rows]
        assert sorted(rows) == list(range(ROWS)), "each epoch has all rows once"
        assert rows != sorted(rows)
    assert whole[-1][1] < whole[0][1] * 0.8, "the model has learned"
    for end in (33, 127):  # in both epochs, after checkpoints of other batches
        assert run(TRAIN, library, tmp_path / "checkpoint", end, fails=True) == end
    assert run(TRAIN, library, tmp_path / "checkpoint", -1) == whole


RANK = """
import json, os, sys
import saeta as sa

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with sa.loader(
    sys.argv[1], "host", batch_size=16, shuffle="rows", window="64KiB", columns=["row", "x0"], to="numpy",
    rank=rank, world_size=world_size,
) as loader:
    print(json.dumps([batch["row"].tolist() for batch in loader]))
"""


def test_eight_processes_as_ranks_have_all_rows_once(folder: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "8",
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        for rank in range(8)
    ]
    taken = [json.loads(rank.communicate(timeout=300)[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 8
    batches = -(-ROWS // 16)
    assert [len(batches_of) for batches_of in taken] == [-(-batches // 8)] * 8, "all take as many steps"
    in_turn = [batch for step in zip(*taken, strict=True) for batch in step]
    once, again = in_turn[:batches], in_turn[batches:]
    assert sorted(row for batch in once for row in batch) == list(range(ROWS))
    assert again == once[: len(again)], "the last step begins the epoch again"
    alone = sa.loader(
        folder, "host", batch_size=16, shuffle="rows", window="64KiB", columns=["row", "x0"], to="numpy"
    )
    assert once == [batch["row"].tolist() for batch in alone]


CONVERT = """
import json, sys
import saeta as sa

source, target, budget = sys.argv[1:]
host = sa.context("host", budget=budget)
files = 0
with sa.scan_parquet(source, host, filters=[("fare", "<", 0.75)]) as scan:
    writer = None
    for number, batch in enumerate(scan):
        if number % 8 == 0:
            if writer is not None:
                writer.close()
            writer = sa.ipc_writer(f"{target}/{files:03}.arrow", pending="1MiB", durable=False)
            files += 1
        writer.write(batch)
        del batch
    writer.close()
print(json.dumps({"files": files, "peak": host.memory.statistics()["peak"]}))
"""


def test_parquet_larger_than_the_budget_becomes_arrow_files(tmp_path: Path) -> None:
    rows = 2_000_000
    fares = np.random.default_rng(1).random(rows)
    cities = pa.DictionaryArray.from_arrays(np.arange(rows, dtype=np.int32) % 3, ["Bern", "Lyon", "Rome"])
    trips = pa.table({"trip": np.arange(rows), "fare": fares, "city": cities.cast(pa.string())})
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for file in range(2):
        part = trips.slice(file * rows // 2, rows // 2)
        pq.write_table(
            part, tmp_path / "in" / f"{file}.parquet", row_group_size=rows // 4, compression="zstd"
        )
    budget = 12 << 20
    assert trips.nbytes > 3 * budget
    found = run(CONVERT, tmp_path / "in", tmp_path / "out", budget)
    assert found["peak"] <= budget
    assert found["files"] == len(list((tmp_path / "out").iterdir())) > 2
    read = sa.read_ipc(tmp_path / "out", "host").to_arrow()
    assert read.combine_chunks().equals(trips.filter(pa.array(fares < 0.75)).combine_chunks())
