"""Reading Hudi tables on Spark: snapshots, changes, the data source."""
