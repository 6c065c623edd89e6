"""Conditions of erasures by key, without Spark: so that a process which erases costs no session.

Within `conditions_in_arrow` only conditions like `id IN ('k1', 'k2')` are understood. Which rows
match is said by Arrow where the product has Spark say it; everything else is the product's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from tideline.commit_report import CommitReport, report_write
from tideline.erasure import execute, prove
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.table_writer import TableWriter
from tideline.in_process.run import open_matched_engine
from tideline.settings.setting import SettingPlace

KEY = "id"


def condition_of(keys: Iterable[str]) -> str:
    """The condition that these keys match."""
    return f"{KEY} IN ({', '.join(repr(key) for key in sorted(keys))})"


@contextmanager
def conditions_in_arrow() -> Iterator[None]:
    """Within, erasures understand `condition_of` and nothing else, and start no Spark."""
    with (
        mock.patch.object(execute, "count_in_table", _count_in_table),
        mock.patch.object(execute, "delete_rows", _delete_rows),
        mock.patch.object(prove, "columns_of_condition", lambda *_: [KEY]),
        mock.patch.object(prove, "count_matching", _count_matching),
    ):
        yield


def _count_in_table(_: object, table: HoodieTable, where: str) -> int:
    return int(_matching(table, where)[0].num_rows)


def _count_matching(
    _: object,
    __: object,
    where: str,
    ___: pa.Schema,
    rows: Iterable[tuple[str, pa.RecordBatch]],
) -> dict[str, int]:
    found: dict[str, int] = {}
    for path, batch in rows:
        count = pc.sum(_matches(batch.column(KEY), where)).as_py()
        if count:
            found[path] = found.get(path, 0) + count
    return found


def _delete_rows(
    writer: TableWriter, where: str, options: Mapping[str, str], **_: Any
) -> CommitReport:
    """`write_and_serve.delete_rows`, with rows that Arrow found."""
    given = writer.given(options, SettingPlace.WRITE)
    operation, config = writer.planned_delete(given)

    def open_engine() -> Any:
        rows, timeline = _matching(writer.table, where)
        found = rows.select([RECORD_KEY, PARTITION_PATH])
        return open_matched_engine(found, writer.table, config, TransactionStart.of(timeline))

    return report_write(writer.write_with_retries(open_engine, writer.request(operation, config)))


def _matching(table: HoodieTable, where: str) -> tuple[pa.Table, ActiveTimeline]:
    scan = plan_snapshot(table)
    found = ArrowScan.of(table, scan, [RECORD_KEY, PARTITION_PATH, KEY], None)
    rows = pa.Table.from_batches(found.batches(), found.schema)
    return rows.filter(_matches(rows.column(KEY), where)), scan.timeline


def _matches(keys: pa.Array | pa.ChunkedArray, where: str) -> Any:
    assert where.startswith(f"{KEY} IN (")
    return pc.is_in(keys, value_set=pa.array(re.findall(r"'([^']*)'", where), pa.string()))
