"""Rows of Iceberg tables: reading data and delete files, writing data files with their metrics."""
