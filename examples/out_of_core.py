"""Joins the results of many partitions that need three times the memory that the program may use: tables
that nobody uses leave the device, and come back when they are used.

out_of_core.py [BUDGET]    for instance 512MiB
"""

import os
import sys
import tempfile

import numpy as np

BUDGET = sys.argv[1] if len(sys.argv) > 1 else "8MiB"
PARTS = 24
os.environ.setdefault("SAETA_SPILL_DIR", tempfile.gettempdir())  # read when the context is opened

import saeta as sa  # noqa: E402


def main() -> None:
    device = sa.devices()[0].name
    ctx = sa.context(device, budget=BUDGET)
    rows = 3 * ctx.budget // PARTS // 16
    values = np.random.default_rng(7).integers(0, 1000, (PARTS, 2, rows))

    # The tables themselves are not kept: only handles, which may leave the device, need room for all of them.
    parts = [ctx.spillable(sa.table({"fare": fare, "tip": tip}, ctx)) for fare, tip in values]
    print(f"{sum(part.nbytes for part in parts) / ctx.budget:.1f} times the budget of {BUDGET} on {device}")

    for sweep in range(3):
        total = 0
        for part in parts if sweep % 2 == 0 else reversed(parts):  # what was used last is still there
            total += total_of(part)
        assert total == int(values.sum()), "a table came back changed"

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
