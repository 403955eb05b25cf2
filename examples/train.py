"""Trains a classifier from files four times as large as its memory budget. The run is killed in the second
epoch and resumes from its last checkpoint. Its losses must equal those of an uninterrupted run.

train.py [FOLDER]    a folder of *.arrow files with columns x0, x1 ... and label; by default, generated files
"""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import saeta as sa

FEATURES, BATCH, EPOCHS, SAVE_EACH = 16, 512, 2, 50


class NumpyModel:
    """Logistic regression with NumPy."""

    library, device = "numpy", "host"

    def __init__(self) -> None:
        self.weights = np.zeros(FEATURES + 1, np.float32)

    def step(self, x, label) -> float:
        odds = x @ self.weights[:-1] + self.weights[-1]
        chance = 1 / (1 + np.exp(-odds))
        error = (chance - label) / len(label)
        self.weights -= np.append(error @ x, error.sum())
        return float(np.logaddexp(0, odds).mean() - (odds * label).mean())

    def state(self):
        return self.weights.copy()

    def load(self, state) -> None:
        self.weights = state


class TorchModel:
    """Logistic regression with torch, on a GPU if there is one."""

    library, device = "torch", sa.devices()[0].name

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        self.model = torch.nn.Linear(FEATURES, 1, device=self.device.replace("host", "cpu"))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.loss = torch.nn.functional.binary_cross_entropy_with_logits

    def step(self, x, label) -> float:
        loss = self.loss(self.model(x)[:, 0], label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def state(self):
        return {name: value.cpu() for name, value in self.model.state_dict().items()}

    def load(self, state) -> None:
        self.model.load_state_dict(state)


def make_files(folder: Path) -> None:
    random = np.random.default_rng(1)
    for number in range(4):
        x = random.standard_normal((25_000, FEATURES), np.float32)
        label = (x.sum(axis=1) + random.standard_normal(len(x)) > 0).astype(np.int8)
        table = pa.table({**{f"x{each}": x[:, each] for each in range(FEATURES)}, "label": label})
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(folder / f"part-{number}.arrow", table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=2_000)


def train(model, folder: Path, checkpoint: Path, kill_after: int | None = None) -> list[float]:
    """Trains from the checkpoint, if there is one, or from the start. Returns the losses of all steps."""
    size = sum(path.stat().st_size for path in folder.glob("*.arrow"))
    ctx = sa.context(model.device).memory.child("training", limit=size // 4)
    names = [f"x{each}" for each in range(FEATURES)]
    loader = sa.loader(
        folder, ctx, batch_size=BATCH, shuffle="rows", window="128KiB", seed=7, matrix={"x": names},
        dtype={"label": "float32"}, to=model.library,
    )  # fmt: skip
    losses: list[float] = []
    if checkpoint.exists():
        saved = pickle.loads(checkpoint.read_bytes())
        model.load(saved["model"])
        loader.load_state_dict(saved["loader"])
        losses = saved["losses"]
    while loader.epoch < EPOCHS:
        for batch in loader:
            losses.append(model.step(batch["x"], batch["label"]))
            if len(losses) % SAVE_EACH == 0:
                state = {"model": model.state(), "loader": loader.state_dict(), "losses": losses}
                written = checkpoint.with_suffix(".tmp")
                written.write_bytes(pickle.dumps(state))
                written.replace(checkpoint)  # atomic: a killed run leaves a complete checkpoint
            if len(losses) == kill_after:
                os._exit(1)  # like a kill: closes and saves nothing
    print(f"{len(losses)} steps of {len(loader)} an epoch, loss {losses[0]:.3f} to {losses[-1]:.3f}, at most "
          f"{ctx.memory.statistics()['peak']:,} of {size // 4:,} bytes")  # fmt: skip
    return losses


def new_model():
    try:
        return TorchModel()
    except ImportError:
        return NumpyModel()


def compare(folder: Path, work: Path) -> None:
    whole = train(new_model(), folder, work / "whole")
    kill_after = len(whole) * 3 // 4
    command = [sys.executable, __file__, str(folder), str(work / "killed"), str(kill_after)]
    if subprocess.run(command, check=False).returncode != 1:
        sys.exit("the run was not killed")
    resumed = train(new_model(), folder, work / "killed")
    if resumed != whole or whole[-1] > whole[0] / 2:
        sys.exit("the losses differ after the resume")
    print(f"killed after step {kill_after} and resumed: all {len(whole)} losses are the same")


def main() -> None:
    if len(sys.argv) == 4:  # the child process that is killed
        train(new_model(), Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as made:
        if len(sys.argv) == 2:
            compare(Path(sys.argv[1]), Path(made))
        else:
            (Path(made) / "data").mkdir()
            make_files(Path(made) / "data")
            compare(Path(made) / "data", Path(made))


if __name__ == "__main__":
    main()
