"""The main job from end to end, with its proofs: what `saeta demo` runs.

A table is written by pyarrow, read under a budget, handed to frameworks and back without a copy, written again and compared.
Nothing here prints: `trip.run` yields steps, and the command line shows them.
"""
