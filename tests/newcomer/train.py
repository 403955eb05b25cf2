"""torch fits a line on shuffled batches from a file; where torch is not installed, NumPy does."""

from importlib.util import find_spec

import numpy as np

import saeta as sa


def with_torch(batches, device):
    import torch

    model = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for batch in batches:
        loss = torch.nn.functional.mse_loss(model(batch["x"][:, None]), batch["y"][:, None])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.weight.item(), model.bias.item()


def with_numpy(batches, _device):
    weight = bias = 0.0
    for batch in batches:
        error = weight * batch["x"] + bias - batch["y"]
        weight -= 0.5 * 2 * np.mean(error * batch["x"])
        bias -= 0.5 * 2 * np.mean(error)
    return weight, bias


to, fit = ("torch", with_torch) if find_spec("torch") else ("numpy", with_numpy)
x = np.linspace(0, 1, 10_000, dtype="float32")
sa.table({"x": x, "y": 3 * x + 1}, "host").write_ipc("line.arrow")
ctx = sa.context(None if to == "torch" else "host")  # None: the best device
with sa.loader("line.arrow", ctx, batch_size=100, shuffle="rows", seed=1, to=to) as loader:
    epochs = (batch for _ in range(5) for batch in loader)
    weight, bias = fit(epochs, "cuda" if ctx.device.startswith("cuda") else "cpu")
print(len(loader), round(float(weight), 1), round(float(bias), 1))  # 100 3.0 1.0
