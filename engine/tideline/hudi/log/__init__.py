"""Log files of merge-on-read tables: their blocks as Arrow, scanned and merged per file slice.

- which log blocks count, and merging them: `block_scan`, `merged_log`
- rows that fill each other up: which values, in a log, in a batch, across partitions:
  `missing_values`, `column_sources`, `hudi.file_group.row_fold`, `in_process.filled_rows`,
  `spark.write.folded_rows`
"""
