"""How the Iceberg table that a Hudi table is published as is told from others."""

OWNER = "tideline.hudi.table"
"""Its property, with the name of the Hudi table."""
