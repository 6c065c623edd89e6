"""The services of Hudi tables that move rows, on Spark.

- services on Spark: `compaction`, `clustering`
"""
