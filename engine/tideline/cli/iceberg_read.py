"""The rows of an Iceberg table for `tideline read`."""

from __future__ import annotations

from tideline.cli.query_engine import iceberg_dataset
from tideline.hudi.read.shown_rows import ShownRows
from tideline.iceberg.table.open_table import IcebergTable


def first_iceberg_rows(table: IcebergTable, as_of: str | None, limit: int | None) -> ShownRows:
    """The first rows of the newest snapshot or of another, at most `limit`. Raises ConfigError."""
    # One more shows that there are more.
    most = None if limit is None else limit + 1
    return ShownRows.of(iceberg_dataset(table, as_of).scanner(limit=most).to_table(), limit)
