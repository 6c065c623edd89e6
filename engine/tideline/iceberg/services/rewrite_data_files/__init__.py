"""Rewriting data files: which, in what groups, to what sizes.

- how a group of an Iceberg table that memory does not hold is sorted: `row_routing`,
  `spilled_sort`, `spark.iceberg.sorted_rewrite`
"""
