"""What the partition `column_stats` says of single files, for reads that leave files out by it.

A row says what one file holds, and no file of a table changes once it is committed. So a row is as
true as on the day it was written, whatever came after it: also for a table as of a time, and beside
writers that have stopped keeping the partition. What no row speaks of is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tideline.hudi.metadata_table.column_row import ColumnRow, rows_of
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION, key_of
from tideline.hudi.metadata_table.partition import StoredRecords
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.hoodie_table import HoodieTable

FileRows = Mapping[str, Mapping[str, ColumnRow]]
"""Rows by the path of their file and the name of their column."""


def ranges_of_files(
    table: HoodieTable, columns: Collection[str], paths: Collection[str]
) -> FileRows:
    """The rows of these columns of these files, as far as the table's metadata table has any.

    Raises as `MetadataTable` and its `look_up`.
    """
    return rows_of_files(MetadataTable(table.store, table.clock), columns, paths)


def rows_of_files(
    stored: StoredRecords, columns: Collection[str], paths: Collection[str]
) -> FileRows:
    """The same of a metadata table that is open. Raises as its `look_up`."""
    wanted = {
        key_of(column, *split_path(path)): (path, column) for path in paths for column in columns
    }
    if not wanted:
        return {}
    found: dict[str, dict[str, ColumnRow]] = {}
    for key, row in rows_of(stored.look_up(COLUMN_STATS_PARTITION, wanted)).items():
        path, column = wanted[key]
        # Keys are hashes.
        if (row.file, row.column) == (split_path(path)[1], column):
            found.setdefault(path, {})[column] = row
    return found
