"""The table of an operation as ingests see it, in the format that the operation says."""

from __future__ import annotations

from tideline.ingest.execute.hudi_table import HudiIngestTable
from tideline.ingest.execute.ingest_table import IngestTable
from tideline.ingest.operation.operation import ICEBERG, Operation


def open_ingest_table(operation: Operation) -> IngestTable:
    """The table, which may not be there yet. Raises as `open_table` and `open_iceberg`."""
    if operation.table.format == ICEBERG:
        # Hudi tables are taken in without Iceberg's writers.
        from tideline.ingest.execute.iceberg_table import IcebergIngestTable

        return IcebergIngestTable.open(operation)
    return HudiIngestTable.open(operation.table, operation.writer)
