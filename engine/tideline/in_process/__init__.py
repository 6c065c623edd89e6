"""Rows moved inside this process, in Arrow: batches that fit in memory need no Spark.

- services in this process: `service_engine`, `split_clustering`
- a write in this process, of rows in memory: `run`, `engine`
"""
