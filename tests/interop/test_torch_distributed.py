"""Columns in torch.distributed collectives: gloo on the host, NCCL on GPUs. docs/guides/torch-distributed.md
explains the stream ordering."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from code_blocks import program, promised
from gpu_frameworks import torch_with_a_device

PAGE = "docs/guides/torch-distributed.md"

# The program of each rank on a GPU. Each round exports a column while its write is pending.
LATE_WRITERS = """
import os
import torch
import torch.distributed as dist
import saeta as sa

ROUNDS, ROWS, CYCLES = 50, 1 << 20, 20_000_000  # some 10 ms
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
ranks = dist.get_world_size()
ctx = sa.context(f"cuda:{rank}")
side, writer = torch.cuda.Stream(), torch.cuda.Stream()
wrong = 0
for value in range(1, ROUNDS + 1):
    with torch.cuda.stream(writer):
        late = torch.zeros(ROWS, dtype=torch.int32, device="cuda")
        torch.cuda._sleep(CYCLES)
        late.fill_(value)
        column = sa.from_dlpack(late, ctx)
    del late
    with torch.cuda.stream(side):
        parts = torch.empty(ranks * ROWS, dtype=torch.int32, device="cuda")
        work = dist.all_gather_into_tensor(parts, column.to_torch(), async_op=True)
        del column  # while the collective still reads it
        noise = sa.from_dlpack(torch.full((ROWS,), -1, dtype=torch.int32, device="cuda"), ctx, copy=True)
        work.wait()
        gathered = sa.from_dlpack(parts, ctx)
    with torch.cuda.stream(writer):
        wrong += int(gathered.to_torch().sum(dtype=torch.int64)) != value * ROWS * ranks
    del noise, gathered, parts
print(wrong, ranks)
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def run_ranks(text: str, count: int, folder: Path) -> list[list[str]]:
    """Runs `count` processes of one process group. Returns the lines that each printed."""
    file = folder / "rank.py"
    file.write_text(text, encoding="utf-8")
    shared = {
        **os.environ,
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(file)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        done = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, done
    return [out.splitlines() for out, _ in done]


@pytest.mark.parametrize("count", [1, 2])
def test_each_rank_prints_the_output_on_the_page(tmp_path, count):
    pytest.importorskip("torch")
    text = program(PAGE)
    assert run_ranks(text, count, tmp_path) == [promised(text)] * count


@pytest.mark.gpu
def test_collectives_wait_for_pending_writes_and_keep_memory_until_read(tmp_path):
    torch: Any = torch_with_a_device()
    if not torch.distributed.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    count = min(torch.cuda.device_count(), 2)
    assert run_ranks(LATE_WRITERS, count, tmp_path) == [[f"0 {count}"]] * count


@pytest.mark.gpu
def test_each_gpu_prints_the_output_on_the_page(tmp_path):
    torch: Any = torch_with_a_device()
    if not torch.distributed.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    count = min(torch.cuda.device_count(), 2)
    text = program(PAGE, on_gpu=True)
    assert run_ranks(text, count, tmp_path) == [promised(text)] * count
