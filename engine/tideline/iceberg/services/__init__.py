"""The services of Iceberg tables, a folder each, and what they share."""
