"""Parquet files of others, read in this process."""
