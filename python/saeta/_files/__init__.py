"""What reads and writes files: sources, data sets, readers, scans, targets, progress, and Parquet."""
