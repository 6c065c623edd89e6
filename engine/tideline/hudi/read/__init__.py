"""Reading Hudi tables: what a snapshot or a range of commits consists of, and its rows in Arrow.

- what a snapshot or a range of commits consists of: `snapshot`, `incremental`, `table_scan`
- what a time means, the table as of one: `asked_range`, `time_travel`,
  `hudi.table.timeline_as_of`
- reading in Arrow, without Spark: `arrow_scan`, `formats.row_filter`,
  `formats.row_group_statistics`
- which files a condition leaves out by the metadata table: `file_pruning`, `hudi.read.known_values`
"""
