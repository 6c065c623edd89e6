"""Table layouts: all that differs between table versions, one module for each form on disk.

- what differs between table versions: `table_layout`, `version_6`, `version_8`,
  `metadata_partitions`
"""
