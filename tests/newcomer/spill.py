"""More tables than the budget has room for: those that nobody uses go to files, and come back."""

import numpy as np

import saeta as sa

ctx = sa.context("host", budget="8MiB", spill_dir=".")
months = [ctx.spillable(sa.table({"fare": np.full(200_000, month, "f8")}, ctx)) for month in range(12)]
spilled = sa.spill_statistics(ctx)["tiers"]["file"]["bytes"]
total = 0.0
for month in months:
    with month.use() as table:
        total += float(table["fare"].to_numpy()[0])
print(spilled > 0, total)  # True 66.0
