"""Sums columns of many tables that together need three times the program's memory budget. Tables that are not
in use are spilled from the device, and return when they are used.

out_of_core.py [BUDGET]    for instance 512MiB
"""

import sys
import tempfile

import numpy as np

import saeta as sa

BUDGET = sys.argv[1] if len(sys.argv) > 1 else "8MiB"
PARTS = 24


def main() -> None:
    device = sa.devices()[0].name
    ctx = sa.context(device, budget=BUDGET)
    ctx.spill_dir = ctx.spill_dir or tempfile.gettempdir()  # SAETA_SPILL_DIR names another one
    rows = 3 * ctx.memory.limit // PARTS // 16
    values = np.random.default_rng(7).integers(0, 1000, (PARTS, 2, rows))

    # Only the handles are kept. A table that the program refers to directly could not be spilled.
    parts = [ctx.spillable(sa.table({"fare": fare, "tip": tip}, ctx)) for fare, tip in values]
    print(
        f"{sum(part.nbytes for part in parts) / ctx.memory.limit:.1f} times the budget of "
        f"{BUDGET} on {device}"
    )

    for sweep in range(3):
        total = 0
        for part in parts if sweep % 2 == 0 else reversed(parts):  # the tables used last are still there
            total += total_of(part)
        assert total == int(values.sum()), "a table changed while it was spilled"

    seen = sa.spill_statistics(ctx)
    for name, tier in seen["tiers"].items():
        print(f"{name:>9}: {tier['handles']} tables, {tier['spills']} came, {tier['returns']} went back")
    refused = ctx.memory.statistics()["refused"]
    print(f"{seen['refusals_avoided']} requests found room because tables moved; {refused} were refused")
    assert refused == 0


def total_of(part: sa.SpillHandle) -> int:
    with part.use() as table:
        here = table if table.device == "host" else table.to("host")
        return sum(int(np.from_dlpack(here[name]).sum()) for name in ("fare", "tip"))


if __name__ == "__main__":
    main()
