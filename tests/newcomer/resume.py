"""A training that was stopped goes on after its last batch, in another process if need be."""

import json
from pathlib import Path

import numpy as np

import saeta as sa

sa.table({"row": np.arange(1000)}, "host").write_ipc("rows.arrow")


def loader():
    return sa.loader("rows.arrow", "host", batch_size=64, shuffle="rows", seed=3, to="numpy")


whole = [batch["row"].tolist() for batch in loader()]
begun, seen = loader(), []
for number, batch in enumerate(begun, 1):
    seen.append(batch["row"].tolist())
    if number == 5:
        Path("state.json").write_text(json.dumps(begun.state_dict()), encoding="utf-8")
        break
begun.close()

resumed = loader()
resumed.load_state_dict(json.loads(Path("state.json").read_text(encoding="utf-8")))
seen += [batch["row"].tolist() for batch in resumed]
print(len(seen), seen == whole)  # 16 True
