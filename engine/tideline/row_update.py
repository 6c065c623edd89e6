"""Columns of matching rows set to new values: read, changed and written back as one upsert.

Before the commit completes it is asked, under the table lock, whether another write completed since
the rows were read. Then they are read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, ConflictError, InvalidDataError, UnsupportedTableError
from tideline.formats.column_changes import with_changes
from tideline.formats.column_choice import no_such_column
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.virtual_key import column_at, virtual_keys
from tideline.hudi.read.arrow_scan import ArrowScan, nullable
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY, is_meta_column, shown_names
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.write_operation import WriteOperation
from tideline.retry import RetryPolicy
from tideline.write_and_serve import write_rows

_RETRIES = RetryPolicy.at_once(2)
_PLACE = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string())])


def update_rows(
    writer: TableWriter, where: Any, changes: Mapping[str, Any], options: Mapping[str, str] | None
) -> CommitReport:
    """See `TableWords.update`."""
    table = writer.table
    update = partial(_update, writer, table, where, changes, options)
    return _RETRIES.call(update, ConflictError)


def _update(
    writer: TableWriter,
    table: HoodieTable,
    where: Any,
    changes: Mapping[str, Any],
    options: Mapping[str, str] | None,
) -> CommitReport:
    scan = plan_snapshot(table).without_indexes()
    _check(table, nullable(scan.schema), changes)
    rows, groups = _matching(table, scan, where)
    changed = _as_declared(table, with_changes(rows, changes), scan.schema, changes)
    _require_taken(table, rows, changed, changes)
    start = TransactionStart.of(scan.timeline)

    def nothing_came(now: ActiveTimeline) -> None:
        if TransactionStart.of(now).completed - start.completed:
            raise ConflictError("another write came between", table=table.uri)

    return write_rows(
        writer,
        changed,
        WriteOperation.UPSERT,
        options,
        None,
        nothing_came,
        None,
        strict=True,
        matched=MatchedRows(rows.num_rows, start, groups, "updated"),
    )


def _check(table: HoodieTable, schema: pa.Schema, changes: Mapping[str, Any]) -> None:
    config = table.config
    fixed = {*config.record_key_fields, *config.partition_fields}
    for name in changes:
        if name not in schema.names or is_meta_column(name):
            raise no_such_column([name], shown_names(schema.names, meta=False), table.uri)
        if name in fixed:
            message = "a column of the key or the partition path is not updated: delete and insert"
            raise ConfigError(message, table=table.uri, value=name)
    if not changes:
        raise ConfigError("say which columns to set", table=table.uri)


def _as_declared(
    table: HoodieTable, rows: pa.Table, schema: pa.Schema, changes: Mapping[str, Any]
) -> pa.Table:
    """The rows, without nulls where the table has none: its schema stays. Raises InvalidDataError
    for a change that makes some."""
    fields = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        is_nullable = schema.field(field.name).nullable
        if not is_nullable and column.null_count and field.name in changes:
            message = "a required column has nulls"
            raise InvalidDataError(message, table=table.uri, value=field.name)
        fields.append(field.with_nullable(is_nullable or column.null_count > 0))
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def _require_taken(
    table: HoodieTable, rows: pa.Table, changed: pa.Table, changes: Mapping[str, Any]
) -> None:
    """Raise ConfigError where a merge with the stored rows would keep a stored value."""
    config, filled = table.config, table.config.partial_updates
    ordering = config.ordering_fields
    by_ordering = config.merge_mode is MergeMode.EVENT_TIME_ORDERING and ordering
    if by_ordering and pc.any(_is_earlier(changed, rows, ordering)).as_py():
        message = f"of two versions of a row the one with the higher {', '.join(ordering)} counts"
        raise ConfigError(f"{message}: a lower value would not be stored", table=table.uri)
    if filled is None:
        return
    for name in changes:
        if _stands_for_stored(changed.column(name), filled):
            said = f"in this table {_marker(filled)} stands for the stored value"
            message = f"{said}: it cannot be set"
            raise ConfigError(message, table=table.uri, value=name)


def _stands_for_stored(column: pa.ChunkedArray, filled: PartialUpdates) -> bool:
    """Whether a row with any of these values is filled up from the stored one."""
    if filled.mode is PartialUpdateMode.IGNORE_DEFAULTS:
        return bool(column.null_count)
    if filled.unavailable is None or not pa.types.is_string(column.type):
        return False
    return bool(pc.any(pc.equal(column, filled.unavailable)).as_py())


def _marker(filled: PartialUpdates) -> str:
    is_null = filled.mode is PartialUpdateMode.IGNORE_DEFAULTS
    return "a null" if is_null else repr(filled.unavailable)


def _is_earlier(rows: pa.Table, than: pa.Table, ordering: Sequence[str]) -> pa.ChunkedArray:
    """For each row whether it is before the other in order; null is before everything."""
    earlier: Any = pa.chunked_array([pa.repeat(False, rows.num_rows)])
    equal: Any = pa.chunked_array([pa.repeat(True, rows.num_rows)])
    for name in ordering:
        left, right = rows.column(name), than.column(name)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        less = pc.or_(
            pc.fill_null(pc.less(left, right), False),
            pc.and_(pc.is_null(left), pc.is_valid(right)),
        )
        earlier = pc.or_(earlier, pc.and_(equal, less))
        same = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null)
        equal = pc.and_(equal, same)
    return earlier


def _matching(
    table: HoodieTable, scan: TableScan, where: Any
) -> tuple[pa.Table, frozenset[FileGroupId]]:
    """The rows, and the file groups that they are in."""
    has_keys = table.config.populate_meta_fields
    names = shown_names(scan.schema.names, meta=False)
    found = ArrowScan.of(table, scan, [*names, *([RECORD_KEY] if has_keys else [])], where)
    placed = list(found.placed_batches())
    rows = pa.Table.from_batches([batch for _, batch in placed], found.schema)
    place = pa.Table.from_batches((_places(table, *some) for some in placed), _PLACE)
    if place.group_by(_PLACE.names).aggregate([]).num_rows < rows.num_rows:
        message = "a key is stored twice among the rows that match: an upsert would merge them"
        raise UnsupportedTableError(message, table=table.uri)
    return rows.select(names), frozenset(group for group, _ in placed)


def _places(table: HoodieTable, group: FileGroupId, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The key and the partition path of each row of a file group."""
    config = table.config
    if config.populate_meta_fields:
        keys = column_at(rows, RECORD_KEY)
    else:
        qualified = KeyGenerator.from_config(config).qualified
        keys = virtual_keys(rows, config.record_key_fields, qualified=qualified)
    return pa.record_batch([keys, pa.repeat(group.partition, len(keys))], schema=_PLACE)
