"""Rows moved inside this process, in Arrow: batches that fit in memory need no Spark."""
