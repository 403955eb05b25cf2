"""A table is written as Parquet, at once and table by table, and every reader takes the file."""

import pyarrow.parquet as pq

import saeta as sa

ctx = sa.context("host")
trips = sa.table({"city": ["Lyon", "Bern", None], "fare": [12.5, 8.0, 9.5]}, ctx)
trips.write_parquet("trips.parquet", compression="zstd", row_group_size=2)
print(pq.read_metadata("trips.parquet").num_row_groups)  # 2
print(sa.read_parquet("trips.parquet", ctx, filters=[("fare", ">", 9)])["city"].to_pylist())  # ['Lyon', None]

with sa.parquet_writer("days.parquet", trips.schema) as writer:
    for _ in range(3):
        writer.write(trips)
with sa.scan_parquet("days.parquet", ctx, batch_size=5) as scan:
    print([batch.num_rows for batch in scan])  # [5, 4]
