#!/usr/bin/env python3
"""Moves files and tables to the device and back, compared with pyarrow plus torch or CuPy; `saeta bench`.

    movement.py [--quick] [--device D] [--bytes SIZE] [--threads 1,2,4,8,16] [--rounds N] [--only TEXT]
                [--folder F] [--out FILE.json] [--plot FILE.png] [--commit TEXT]

The program is part of the package (python/saeta/bench), so that the command `saeta bench` works wherever
Saeta is installed. This file runs it like the other benchmarks.
"""

from __future__ import annotations

import sys

from saeta.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench"]
    main()
