"""polars takes tables, and its results become tables."""

import polars as pl

import saeta as sa

ctx = sa.context("host")
trips = sa.table({"city": ["Lyon", "Bern", "Lyon"], "fare": [12.5, 8.0, 9.5]}, ctx)
frame = pl.LazyFrame(trips)  # without a copy
means = frame.group_by("city").agg(pl.col("fare").mean()).sort("city").collect()
print(sa.table(means, ctx).to_pydict())  # {'city': ['Bern', 'Lyon'], 'fare': [8.0, 11.0]}

sa.table(frame.filter(pl.col("fare") > 9).collect(), ctx).write_ipc("dear.arrow")
print(pl.scan_ipc("dear.arrow").select(pl.col("fare").sum()).collect().item())  # 22.0
