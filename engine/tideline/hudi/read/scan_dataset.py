"""The rows of a planned read as a pyarrow Dataset, for DuckDB, Polars and pyarrow itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tideline.formats.row_dataset import RowDataset
from tideline.hudi.read.arrow_scan import ArrowScan, nullable
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable


def scan_dataset(
    table: HoodieTable, scan: TableScan, columns: Sequence[str] | None = None
) -> RowDataset:
    """The rows of `scan` with these columns, or all; every read of it gives the same rows.

    Raises UnsupportedTableError, when it is read, for rows that are not read.
    """
    full = nullable(scan.schema)
    names = full.names if columns is None else columns

    def open_rows(wanted: Sequence[str], condition: Any, limit: int | None) -> pa.RecordBatchReader:
        return ArrowScan.of(table, scan, wanted, condition).to_reader(limit)

    return RowDataset(pa.schema([full.field(name) for name in names]), open_rows)
