"""Rewriting the data files of Iceberg tables on Spark."""
