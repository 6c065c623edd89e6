"""A Hudi table published as an Iceberg table: Iceberg's metadata over the same data files."""
