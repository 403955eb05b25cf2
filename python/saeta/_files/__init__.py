"""Reading and writing files: sources, data sets, readers, scans, targets, progress, and Parquet."""
