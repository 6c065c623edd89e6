"""Parquet files of both table formats: footers and pages as bytes, encoding, copied row groups.

- parquet footers and row groups as bytes: this package
- the calendar of a parquet file's days: `calendar`
- row groups of a new parquet file, how they are encoded: `sink`, `encoding`
"""
