"""Rows of Iceberg tables: reading data and delete files, writing data files with their metrics.

- which files of an Iceberg table a condition in Arrow rules out: `condition_pruning`,
  `iceberg.scan.source_range`
- an Iceberg rewrite: what is copied as bytes or compressed again and why not, in this process or
  on Spark: `copy_rules`, `parquet.page_transcoder`,
  `iceberg.services.rewrite_data_files.stored_file_splits`,
  `iceberg.services.rewrite_data_files.copy_survey`,
  `iceberg.services.rewrite_data_files.in_process`, `spark.iceberg.rewrite`
"""
