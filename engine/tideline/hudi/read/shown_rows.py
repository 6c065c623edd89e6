"""Rows for people: columns and values, few enough to print."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tideline.formats.python_values import python_values
from tideline.hudi.read.arrow_scan import ArrowScan


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Columns and rows; `complete` is False when a limit cut the rows off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    complete: bool

    @classmethod
    def of(cls, table: pa.Table, limit: int | None) -> ShownRows:
        """At most `limit` rows of a table, all of them for None."""
        complete = limit is None or table.num_rows <= limit
        shown = table if complete else table.slice(0, limit)
        columns = [python_values(column) for column in shown.columns]
        return cls(tuple(shown.column_names), tuple(zip(*columns, strict=True)), complete)


def first_rows(scan: ArrowScan, limit: int | None) -> ShownRows:
    """The first rows of a scan; only a few batches more are read than are needed for them."""
    batches = scan.batches() if limit is None else scan.batches(threads_max=1)
    with closing(batches):
        found = list(as_many(batches, limit))
    return ShownRows.of(pa.Table.from_batches(found, scan.schema), limit)


def as_many(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterable[pa.RecordBatch]:
    """Batches up to the one that shows that there are more rows than `limit`."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        if limit is not None and rows > limit:
            return
