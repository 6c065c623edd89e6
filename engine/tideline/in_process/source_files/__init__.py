"""Parquet files of others, read in this process.

- parquet files taken in by this process, or by Spark: `schema`, `rows`,
  `ingest.sources.files.reader`, `ingest.execute.in_process`
"""
