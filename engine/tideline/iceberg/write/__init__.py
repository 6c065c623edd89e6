"""Rows written into an Iceberg table: fitted to its columns, placed in files, one commit."""
