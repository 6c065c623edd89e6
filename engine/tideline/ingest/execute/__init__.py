"""Carrying out an operation: an ingest, a service, the maintenance of an Iceberg table.

- carrying out an operation: `execute_operation`, `run_service`
"""
