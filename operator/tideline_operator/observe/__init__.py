"""Looking at tables: their timelines, landing files and Iceberg metadata, never their rows.

- looking at an Iceberg table: `iceberg_observation`
"""
