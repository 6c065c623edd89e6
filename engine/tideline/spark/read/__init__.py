"""Reading Hudi tables on Spark: snapshots, changes, the data source.

- reading on Spark: `frames`, `execute_scan`
- merged slices on Spark: `file_slice_scan`
- `spark.read.format("tideline")`: `data_source`, `change_source`
- `spark.readStream.format("tideline")`: `stream_source`
"""
