"""What is known of the files that a change adds: ranges of the columns that are indexed.

Tasks measure what they write, where the table had statistics as they began. The rest is read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

from tideline.hudi.metadata_table.altered_columns import why_statistics_are_of_others
from tideline.hudi.metadata_table.indexed_columns import IndexedColumns, indexed_columns
from tideline.hudi.metadata_table.partition import CannotFollow, TableChange, WholeTable
from tideline.hudi.metadata_table.touched_slices import written_files
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.column_range import ColumnRanges, retyped


@dataclass(frozen=True, slots=True)
class MeasuredFiles:
    """The columns that are indexed, and their ranges in the files that a change adds, by path."""

    indexed: IndexedColumns
    ranges: Mapping[str, ColumnRanges]


def measured_files(change: TableChange) -> MeasuredFiles | CannotFollow:
    """What tasks say of the files that a change adds, or why statistics end with it."""
    schema_json = change.written.schema_json if change.written is not None else None
    schema_json = schema_json or change.table.schemas.newest_json(change.timeline)
    indexed = _columns_at(change.table, change.timeline, schema_json)
    if isinstance(indexed, CannotFollow):
        return indexed
    found: dict[str, ColumnRanges] = {}
    written = {stat.path or "": stat.column_ranges for stat in written_files(change)}
    unknown = [path for path, ranges in written.items() if not _is_measured(ranges, indexed)]
    if unknown and change.contents is not None:
        written |= change.contents.ranges(unknown, indexed.types)
    for path, ranges in written.items():
        typed = typed_ranges(path, ranges, indexed)
        if isinstance(typed, CannotFollow):
            return typed
        found[path] = typed
    return MeasuredFiles(indexed, found)


def columns_kept(whole: WholeTable) -> IndexedColumns | CannotFollow:
    """The columns of the statistics that a table has, or why they end at any commit."""
    return _columns_at(whole.table, whole.timeline, whole.schema_json)


def columns_to_measure(table: HoodieTable, schema_json: str) -> tuple[str, ...] | None:
    """The columns whose ranges writers of files find out; None where the table has no statistics.

    Raises CorruptTableError where the definitions of indexes cannot be read.
    """
    if (
        COLUMN_STATS not in table.config.metadata_partitions
        or why_without_bounds(table) is not None
    ):
        return None
    found = indexed_columns(table, schema_json)
    return None if isinstance(found, str) else found.names


def typed_ranges(
    path: str, ranges: ColumnRanges | None, indexed: IndexedColumns
) -> ColumnRanges | CannotFollow:
    """The ranges of the columns that are indexed in a file, by all that is known of it.

    A column that is not listed may be missing: another writer has added it since the file was
    written.
    """
    if ranges is None or not _is_measured(ranges, indexed):
        return CannotFollow(f"the ranges of columns of {path} are not known")
    found = {}
    for name in indexed.names:
        if name not in ranges:
            continue
        typed = retyped(ranges[name], indexed.types[name])
        if typed is None:
            return CannotFollow(f"{name} of {path} has another type than the table's column")
        if isinstance(typed.greatest, float) and isnan(typed.greatest):
            return CannotFollow(f"{name} of {path} holds NaN, which queries of Hudi's lose")
        found[name] = typed
    return found


def why_without_bounds(table: HoodieTable) -> str | None:
    """Why rows that are read may lie outside the bounds of their files."""
    config = table.config
    if config.table_type is not TableType.MERGE_ON_READ:
        return None
    if config.partial_updates is not None:
        return "rows are filled up from several files when they are read"
    if config.known_merge_mode is None:
        return "rows are merged in a way of their own when they are read"
    return None


def _columns_at(
    table: HoodieTable, timeline: ActiveTimeline, schema_json: str | None
) -> IndexedColumns | CannotFollow:
    if COLUMN_STATS not in table.config.metadata_partitions:
        return CannotFollow("the table has no statistics of files")
    reason = why_without_bounds(table)
    if reason is not None:
        return CannotFollow(reason)
    if schema_json is None:
        return CannotFollow("no commit says the table's schema")
    found = indexed_columns(table, schema_json)
    if isinstance(found, str):
        return CannotFollow(found)
    reason = why_statistics_are_of_others(table, timeline, found.names)
    return found if reason is None else CannotFollow(reason)


def _is_measured(ranges: ColumnRanges | None, indexed: IndexedColumns) -> bool:
    return ranges is not None and all(name in ranges for name in indexed.listed)
