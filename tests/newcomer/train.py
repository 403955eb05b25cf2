"""torch fits a line on shuffled batches from a file."""

import numpy as np
import torch

import saeta as sa

x = np.linspace(0, 1, 10_000, dtype="float32")
sa.table({"x": x, "y": 3 * x + 1}, "host").write_ipc("line.arrow")
ctx = sa.context()  # the best device
model = torch.nn.Linear(1, 1).to("cuda" if ctx.device.startswith("cuda") else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
with sa.loader("line.arrow", ctx, batch_size=100, shuffle="rows", seed=1) as loader:
    for _ in range(5):  # epochs
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"][:, None]), batch["y"][:, None])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
print(len(loader), round(model.weight.item(), 1), round(model.bias.item(), 1))  # 100 3.0 1.0
