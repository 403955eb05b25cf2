"""The parts of bench/streams.py: one module for each group of jobs, and what they share."""
