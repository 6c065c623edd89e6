"""Carrying out an operation: an ingest, a service, the maintenance of an Iceberg table."""
