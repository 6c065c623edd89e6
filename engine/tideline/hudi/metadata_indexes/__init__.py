"""Indexes of a table, which are partitions of its metadata table: made, listed and dropped.

- indexes of a table on demand: `table_indexes`
"""
