"""A Hudi table registered in metastores, where engines find it by name.

- what a metastore is, as values: `metastore`
- what a Hudi table registers as: `definition`, `column_types`, `partition_values`
- bringing a metastore up to the newest commit: `sync`, `plan`, `follow`, `docs/syncing.md`
- which metastore: `target`, `kinds`; Hive's: `hive`, Amazon's: `glue`
"""
