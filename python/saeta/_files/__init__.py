"""What readers and writers of files are made of: sources, targets, scans, progress, and Parquet."""
