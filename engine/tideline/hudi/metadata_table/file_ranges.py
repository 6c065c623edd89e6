"""What the partition `column_stats` says of single files, for reads that leave files out by it.

A row says what one file holds, and no file of a table changes once it is committed. So a row is as
true as on the day it was written, whatever came after it: also for a table as of a time, and beside
writers that have stopped keeping the partition. What no row speaks of is not known.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.column_stats import FileRows, rows_of_files
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.hoodie_table import HoodieTable


def ranges_of_files(
    table: HoodieTable, columns: Collection[str], paths: Collection[str]
) -> FileRows:
    """The rows of these columns of these files, as far as the table's metadata table has any.

    Raises as `MetadataTable` and its `look_up`.
    """
    return rows_of_files(MetadataTable(table.store, table.clock), columns, paths)
