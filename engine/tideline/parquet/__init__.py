"""Parquet files of both table formats: footers and pages as bytes, encoding, copied row groups."""
