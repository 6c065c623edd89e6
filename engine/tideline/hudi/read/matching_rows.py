"""The rows of a table for which a condition in SQL holds, found in Arrow: where they are stored."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.filter import Filter
from tideline.formats.filter_expression import UnsuitedValueError, filter_expression
from tideline.formats.filter_parser import parse_filter
from tideline.hudi.keys.key_generator import KeyGenerator, key_columns
from tideline.hudi.read.arrow_scan import ArrowScan, nullable
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Keys and partition paths as they are stored, or the columns that make them in a table without
    meta columns; the file groups that they are in, and the timeline by which they were read.
    `are_all` unless there may be more."""

    rows: pa.Table
    groups: frozenset[FileGroupId]
    timeline: ActiveTimeline
    are_all: bool = True


def matching_rows(
    table: HoodieTable, where: str, bytes_max: int, rows_max: int | None = None
) -> MatchingRows | None:
    """The rows, at most `rows_max` of them where that is given.

    None where it takes Spark: for conditions that only its SQL has, files that only it reads, and
    more rows than `bytes_max` in memory. Raises ConfigError for columns that are not there.
    """
    parsed = _parsed(where)
    if parsed is None:
        return None
    scan = plan_snapshot(table).without_indexes()
    full = nullable(scan.schema)
    if table.config.populate_meta_fields:
        columns = [RECORD_KEY, PARTITION_PATH]
    else:
        columns = key_columns(full.names, KeyGenerator.from_config(table.config))
    try:
        condition = filter_expression(parsed, full)
        found = ArrowScan.of(table, scan, columns, condition)
        batches, groups, size, count, are_all = [], set(), 0, 0, True
        for group, batch in found.placed_batches():
            batches.append(batch)
            groups.add(group)
            size, count = size + batch.nbytes, count + batch.num_rows
            if size > bytes_max:
                return None
            if rows_max is not None and count >= rows_max:
                batches[-1] = batch.slice(0, batch.num_rows - (count - rows_max))
                are_all = False
                break
    except (UnsuitedValueError, UnsupportedTableError):
        return None
    rows = pa.Table.from_batches(batches, found.schema)
    return MatchingRows(rows, frozenset(groups), scan.timeline, are_all)


def _parsed(where: str) -> Filter | None:
    try:
        return parse_filter(where)
    except ConfigError:
        return None
