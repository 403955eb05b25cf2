"""The modules of bench/streams.py: one for each group of jobs, and their common parts."""
