"""The main job from end to end, with its proofs, as `saeta demo` runs it.

pyarrow writes a table. It is read under a budget, handed to frameworks and back without a copy, written again
and compared. This package prints nothing: `trip.run` yields steps, and the command line shows them.
"""
