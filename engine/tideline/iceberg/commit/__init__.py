"""Changing an Iceberg table: snapshots made, validated and published by optimistic commits.

- giving way to writers that change rows in place: `changed_partitions`,
  `iceberg.services.rewrite_data_files.run`
"""
