"""The commands look into files and convert them."""

import json
import subprocess
import sys
from pathlib import Path

import saeta as sa


def saeta(*arguments):
    command = [sys.executable, "-m", "saeta", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


Path("trips.csv").write_text("city,fare\nLyon,12.5\nBern,8.0\n", encoding="utf-8")
saeta("convert", "trips.csv", "trips.arrow", "--compression", "zstd")
saeta("convert", "trips.arrow", "trips.parquet", "--batch-size", "1")
print(sa.read_parquet("trips.parquet", "host")["fare"].to_pylist())  # [12.5, 8.0]
print(json.loads(saeta("inspect", "trips.parquet", "--json"))["batch_rows"])  # [1, 1]
print("fare" in saeta("inspect", "trips.arrow"), "host" in saeta("info"))  # True True
