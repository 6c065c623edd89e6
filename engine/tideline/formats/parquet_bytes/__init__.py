"""Parquet files at the level of bytes: footers as they are stored, row groups copied."""
