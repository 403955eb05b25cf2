"""A CSV file, read by pyarrow, becomes a table on the device."""

from pathlib import Path

from pyarrow import csv

import saeta as sa

Path("trips.csv").write_text("city,fare,tip\nLyon,12.5,1\nBern,8.0,\nLyon,9.5,2\n", encoding="utf-8")
ctx = sa.context("host", budget="1GiB")
trips = sa.table(csv.read_csv("trips.csv"), ctx)
print(trips.shape, trips["tip"].null_count, trips.context.device)  # (3, 3) 1 host

batches = sa.from_arrow(
    csv.open_csv("trips.csv"), ctx
)  # a file that does not fit is uploaded while it is parsed
print(batches["fare"].to_pylist())  # [12.5, 8.0, 9.5]
