"""Parquet: what is decoded together, on a device or under a budget, and the row groups that are written."""
