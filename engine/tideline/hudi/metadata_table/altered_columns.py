"""Whether statistics and indexes mean the columns that they name, beside Hudi's schema on read.

Rows of statistics are of the names that columns had when their file was written. Hudi looks for
them by the names of now, so that a file hides rows that was written before a column was renamed,
dropped and added again, or got a type whose values have another order:

1. A column that a file's version does not have, by id or by name, is null in all of its rows.
2. Of a column that it has in another way the statistics of that file are wrong, as long as the file
   is live: all statistics end with the next commit.
3. A secondary index has the values of a name. Where two columns had the name, and both were there
   at one time, its entries are those of either.

Tables without such a version cost nothing. Others cost a listing for as long as they have
statistics. Source: Hudi's ColumnStatsIndexSupport, SecondaryIndexSupport (1.2), which know names
alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.internal_schema import InternalSchema, InternalType
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline

_WIDENED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
}
"""Types whose bounds are bounds in the other type, too."""
_DECIMAL = re.compile(r"decimal(?:_bytes|_fixed)?\((\d+),\s*(\d+)\)(?:\[\d+\])?")


def why_statistics_are_of_others(
    table: HoodieTable, timeline: ActiveTimeline, columns: Collection[str]
) -> str | None:
    """Why rows of statistics of live files are not those of these columns; None where they are.

    Raises CorruptTableError where the history of the schema cannot be read.
    """
    history = _history(table, timeline)
    if history is None or isinstance(history, str):
        return history
    found = {
        version.version: name
        for version in history.versions
        for name in columns
        if _has_otherwise(version, history.read_as, name)
    }
    if not found:
        return None
    for file_slice in table.files.view(timeline).all_latest_slices():
        for file in file_slice.row_files:
            first = history.at(file.instant).version
            # A log that is named by its slice may have blocks of later versions.
            is_log = isinstance(file, LogFile)
            wrong = (name for at, name in found.items() if at == first or (is_log and at > first))
            name = next(wrong, None)
            if name is not None:
                return (
                    f"{name} was renamed, added again or retyped by Hudi's schema on read since "
                    f"{file.path} was written"
                )
    return None


def why_values_are_of_others(
    table: HoodieTable, timeline: ActiveTimeline, column: str
) -> str | None:
    """Why the entries of an index of this name may be of another column. Raises likewise."""
    history = _history(table, timeline)
    if history is None or isinstance(history, str):
        return history
    now = history.read_as.root.field(column)
    for version in history.versions:
        named = version.root.field(column)
        ids = {item.id for item in version.root.fields}
        if now is not None and named is not None and named.id != now.id and now.id in ids:
            return f"another column than now was called {column}, by Hudi's schema on read"
    return None


def _history(table: HoodieTable, timeline: ActiveTimeline) -> SchemaHistory | str | None:
    try:
        return schema_history(table, timeline)
    except UnsupportedTableError as error:
        return f"the history of its schema is not understood: {error.message}"


def _has_otherwise(then: InternalSchema, read_as: InternalSchema, name: str) -> bool:
    """Whether files of a version have a column in another way than it is read by name."""
    now = read_as.root.field(name)
    if now is None:
        return False
    there = next((item for item in then.root.fields if item.id == now.id), None)
    if there is None:
        return then.root.field(name) is not None
    return there.name != now.name or not _keeps_order(there.type, now.type)


def _keeps_order(then: InternalType, now: InternalType) -> bool:
    if not isinstance(then, str) or not isinstance(now, str):
        # These have no statistics, where both are of this kind.
        return type(then) is type(now)
    if then == now or (then, now) in _WIDENED:
        return True
    before, after = _DECIMAL.fullmatch(then), _DECIMAL.fullmatch(now)
    return (
        before is not None
        and after is not None
        and int(after[2]) >= int(before[2])
        and int(after[1]) - int(after[2]) >= int(before[1]) - int(before[2])
    )
