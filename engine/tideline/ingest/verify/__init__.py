"""Comparing a table with the source that it is made of.

- comparing a source with its table: `verify_ingest`, `compare`, `final_rows`
"""
