"""The round trip of `saeta demo`, with checks at each step.

pyarrow writes a table. Saeta reads it under a budget, passes columns to frameworks and back without a copy,
and writes the table, which is compared with the original. This package prints nothing: `trip.run` yields
steps, and the command line shows them.
"""
