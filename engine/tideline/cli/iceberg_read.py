"""The rows of an Iceberg table for `tideline read`, and their changes."""

from __future__ import annotations

from tideline.cli.query_engine import iceberg_dataset
from tideline.hudi.read.shown_rows import ShownRows
from tideline.iceberg.read.changes import IcebergChangeFeed
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg_lake_table import IcebergLakeTable


def first_iceberg_rows(table: IcebergTable, as_of: str | None, limit: int | None) -> ShownRows:
    """The first rows of the newest snapshot or of another, at most `limit`. Raises ConfigError."""
    # One more shows that there are more.
    most = None if limit is None else limit + 1
    return ShownRows.of(iceberg_dataset(table, as_of).scanner(limit=most).to_table(), limit)


def iceberg_changes(table: IcebergTable, after: str, until: str | None) -> IcebergChangeFeed:
    """What snapshots of a range did. Raises as `IcebergLakeTable.changes`."""
    return IcebergLakeTable(table).changes(after, until)
