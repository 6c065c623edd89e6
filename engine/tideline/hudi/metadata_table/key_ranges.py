"""The least and the greatest record key of base files, as `column_stats` has them.

Statistics of meta columns are always kept where any are. What holds only in another order than that
of bytes, by which keys are compared here, is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tideline.hudi.metadata_table.certain_rows import is_certain, text_bounds
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.file_ranges import ranges_of_files
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY


def key_ranges(table: HoodieTable, paths: Collection[str]) -> Mapping[str, tuple[str, str]]:
    """The least and the greatest key of each of these base files, by path, where they are certain.

    Raises as `MetadataTable` and its `look_up`.
    """
    known = {}
    for path, rows in ranges_of_files(table, [RECORD_KEY], paths).items():
        row = rows.get(RECORD_KEY)
        bounds = None if row is None else _bounds(row)
        if bounds is not None:
            known[path] = bounds
    return known


def _bounds(row: ColumnRow) -> tuple[str, str] | None:
    stored = row.range
    if not isinstance(stored.least, str) or not isinstance(stored.greatest, str):
        return None
    if not is_certain(row, is_log=False):
        return None
    least, greatest = text_bounds(stored.least, stored.greatest, is_exact=row.is_tight)
    return None if least is None or greatest is None else (least, greatest)
