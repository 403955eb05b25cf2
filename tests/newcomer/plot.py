"""matplotlib draws columns."""

from pathlib import Path

import matplotlib
import numpy as np

import saeta as sa

matplotlib.use("svg")
from matplotlib import pyplot

angle = np.linspace(0, 7, 200)
waves = sa.table({"angle": angle, "sine": np.sin(angle)}, "host")
figure, (line, bars) = pyplot.subplots(2)
line.plot(waves["angle"], waves["sine"])
bars.hist(waves["sine"])
waves.to_pandas().plot(x="angle", y="sine", ax=line)
figure.savefig("waves.svg")
print(Path("waves.svg").read_text(encoding="utf-8").count("<path") > 20)  # True
