"""Reading and writing the files of a file group: base files, logs, both merged, both rewritten.

- which keys logs deleted, which are in logs alone: `deleted_keys`, `hudi.placement.rows_in_logs`
- writing and merging base files, markers before and after: `create_handle`, `merge_handle`,
  `marked_file`
- ranges of the columns of a file that is written: `column_ranges`
- what a merge copies as bytes and why not: `copy_plan`
- appending to log files: `append_handle`, `hudi.write.partial_append`
- a base file with its log: `file_slice_merge`
- what they do to rows: `slice_rewrite`, `row_order`
- a large group sorted in parts, on either engine: `cluster_work`, `split_sort`
"""
