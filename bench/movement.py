#!/usr/bin/env python3
"""Files and tables moved to the device and back, beside pyarrow with torch and CuPy: what `saeta bench` runs.

    movement.py [--quick] [--device D] [--bytes SIZE] [--threads 1,2,4,8,16] [--rounds N] [--only TEXT]
                [--folder F] [--out FILE.json] [--plot FILE.png] [--commit TEXT]

The program is in the package (python/saeta/bench), so that an installed `saeta` has it. This file gives it a
name among the other benchmarks.
"""

from __future__ import annotations

import sys

from saeta.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench"]
    main()
