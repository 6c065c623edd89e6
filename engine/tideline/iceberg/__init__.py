"""Apache Iceberg tables: their metadata, and the maintenance that keeps them fast."""
