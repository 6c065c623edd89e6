"""A Hudi table published as an Iceberg table: Iceberg's metadata over the same data files.

- publishing a Hudi table as Iceberg: `publish`, `difference`, `follow`, `docs/publishing.md`
"""
