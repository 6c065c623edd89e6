"""Indexing: partitions of the metadata table that are wanted and missing are made.

- the indexes that a table is to have: this package, `spec.indexes` of a LakeTable
"""
