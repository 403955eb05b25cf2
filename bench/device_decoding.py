#!/usr/bin/env python3
"""Measures nvCOMP's decoders on the device: ZSTD frames, as in Arrow files, and raw LZ4 blocks.

    device_decoding.py [--rounds N] [--out FILE.json] [--commit TEXT]

Arrow files hold LZ4 frames, which nvCOMP does not decode: raw blocks show an upper limit. Needs a GPU, torch
and the wheel nvidia-libnvcomp-cu13. All data is in device memory. The program prints GB/s of decoded values,
the size of the frames relative to the values, and the temporary memory that nvCOMP requires.
docs/decisions/device-decoding.md draws the conclusions.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rates import add_result_arguments, write_result

TOTALS = (128 << 20, 1 << 30)  # decoded bytes of one call
FRAMES = (64 << 10, 512 << 10, 2 << 20)  # decoded bytes of a frame
DIFFERENT = 8  # distinct frames; the others repeat them
CODECS = {"Zstd": "zstd", "LZ4": "lz4_raw"}  # nvCOMP's name and pyarrow's
BLOCKS_ALONE = 1 << 5  # the flag "block independence" of an LZ4 frame
VALUES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "integers": lambda rng, size: rng.integers(0, 1000, size // 8).astype("<i8"),
    "prices": lambda rng, size: np.round(rng.random(size // 8) * 100, 2),
    "dates": lambda rng, size: np.sort(rng.integers(0, 1 << 20, size // 4)).astype("<i4"),
}


class Options(ctypes.Structure):
    """nvCOMP's options for decoding: 64 bytes for every codec; zeros are the defaults."""

    _fields_ = [("bytes", ctypes.c_uint8 * 64)]


def nvcomp() -> ctypes.CDLL:
    found = importlib.util.find_spec("nvidia.libnvcomp")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("no nvidia.libnvcomp: pip install nvidia-libnvcomp-cu13")
    return ctypes.CDLL(str(next(Path(found.submodule_search_locations[0]).glob("lib64/libnvcomp.so.*"))))


class Decoder:
    """Decodes frames of one size with one codec of nvCOMP."""

    def __init__(self, library: ctypes.CDLL, codec: str, frames: list[bytes], size: int) -> None:
        import torch

        def there(values: Any) -> Any:
            return torch.from_numpy(np.asarray(values)).cuda()

        self._synchronize = torch.cuda.synchronize
        self._count = len(frames)
        padded = [frame + bytes(-len(frame) % 16) for frame in frames]
        begins = np.cumsum([0, *(len(frame) for frame in padded)], dtype=np.int64)
        self.compressed = int(begins[-1])
        self._source = there(np.frombuffer(b"".join(padded), np.uint8).copy())
        self._target = torch.empty(self._count * size, dtype=torch.uint8, device="cuda")
        self._sources = there(begins[:-1] + self._source.data_ptr())
        self._targets = there(np.arange(self._count, dtype=np.int64) * size + self._target.data_ptr())
        self._source_sizes = there(np.array([len(frame) for frame in frames], np.int64))
        self._target_sizes = there(np.full(self._count, size, np.int64))
        self._made = there(np.zeros(self._count, np.int64))
        self._status = there(np.full(self._count, -1, np.int32))
        wanted = ctypes.c_size_t()
        ask = getattr(library, f"nvcompBatched{codec}DecompressGetTempSize")
        number, pointer = ctypes.c_size_t, ctypes.c_void_p
        ask.argtypes = [number, number, Options, ctypes.POINTER(number), number, pointer]
        self._check(ask(self._count, size, Options(), ctypes.byref(wanted), self._count * size, None))
        self.temporary = wanted.value
        self._scratch = torch.empty(max(1, wanted.value), dtype=torch.uint8, device="cuda")
        self._decode = getattr(library, f"nvcompBatched{codec}DecompressAsync")
        self._decode.argtypes = [pointer] * 4 + [number, pointer, number, pointer, Options, pointer, pointer]

    def seconds(self) -> float:
        self._synchronize()
        start = time.perf_counter()
        self._check(
            self._decode(
                self._sources.data_ptr(),
                self._source_sizes.data_ptr(),
                self._target_sizes.data_ptr(),
                self._made.data_ptr(),
                self._count,
                self._scratch.data_ptr(),
                self.temporary,
                self._targets.data_ptr(),
                Options(),
                self._status.data_ptr(),
                None,
            )
        )
        self._synchronize()
        return time.perf_counter() - start

    def expect(self, values: list[bytes]) -> None:
        if int(self._status.abs().max()) != 0 or not bool((self._made == self._target_sizes).all()):
            raise SystemExit("nvCOMP refused a frame that libarrow made")
        size = len(values[0])
        for number, each in enumerate(values):
            if self._target[number * size : (number + 1) * size].cpu().numpy().tobytes() != each:
                raise SystemExit("nvCOMP decoded other values")

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise SystemExit(f"nvCOMP's status is {status}")


def measure(library: ctypes.CDLL, rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    results: list[dict[str, Any]] = []
    for kind, make in VALUES.items():
        for size in FRAMES:
            values = [make(rng, size).tobytes() for _ in range(DIFFERENT)]
            for codec, name in CODECS.items():
                encoded = [pa.Codec(name).compress(each, asbytes=True) for each in values]
                for total in TOTALS:
                    count = total // size
                    decoder = Decoder(library, codec, [encoded[i % DIFFERENT] for i in range(count)], size)
                    decoder.seconds()
                    decoder.expect(values)
                    seconds = statistics.median(decoder.seconds() for _ in range(rounds))
                    result = {
                        "codec": codec,
                        "values": kind,
                        "frame_bytes": size,
                        "frames": count,
                        "gb_per_s": total / seconds / 1e9,
                        "ratio": decoder.compressed / total,
                        "temporary_bytes": decoder.temporary,
                    }
                    print(
                        f"{kind:9}{codec:5}{size >> 10:6} KiB x{count:6}{result['gb_per_s']:8.1f} GB/s"
                        f"{result['ratio']:7.2f}{decoder.temporary >> 20:7} MiB",
                        flush=True,
                    )
                    results.append(result)
    return results


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=3)
    add_result_arguments(arguments)
    given = arguments.parse_args()
    library = nvcomp()
    frame = pa.Codec("lz4").compress(bytes(range(256)) * 1024, asbytes=True)
    alone = bool(frame[4] & BLOCKS_ALONE)
    print(f"blocks of an LZ4 frame by pyarrow {pa.__version__} stand alone: {alone}")
    results = measure(library, given.rounds)
    write_result(
        given.out,
        "device_decoding",
        given.commit,
        lz4_blocks_stand_alone=alone,
        results=results,
    )


if __name__ == "__main__":
    main()
