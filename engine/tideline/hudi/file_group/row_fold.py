"""Rows of one key in a batch become one, where rows fill each other up.

They are merged in the order in which they arrived, as entries of a log are: the later row wins
unless its ordering values are lower, and what the winner lacks it has from the other. So a value
that no later row has is not lost with the row it came in.

Source: Hudi's BaseWriteHelper.reduceRecords. In Hudi the result has the partition path of the last
row although an earlier one may have won; here it is the winner's, in whose partition column it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, HandleContext
from tideline.hudi.file_group.record_merge import IncomingRows
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.log.column_sources import ColumnSources
from tideline.hudi.log.entry_fold import EntryFold, Flags, Positions
from tideline.hudi.log.missing_values import missing_values
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.table.table_config import TableConfig


@dataclass(frozen=True, slots=True)
class RowFold:
    """How rows of one key become one; pickled to tasks.

    `columns` are filled up, all others are the winner's. An empty `ordering` lets the later row
    win. `key` are the columns that rows are told apart by.
    """

    partial: PartialUpdates
    columns: tuple[str, ...]
    ordering: tuple[str, ...] = ()
    key: tuple[str, ...] = (RECORD_KEY,)

    @staticmethod
    def of(ctx: HandleContext, *key: str) -> RowFold | None:
        """The fold of a write; None where its rows do not fill each other up."""
        if ctx.partial is None:
            return None
        return _fold(ctx.partial, ctx.merge_mode, ctx.ordering_fields, ctx.schema, key)

    def fold_sorted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per key of batches that are sorted by key, and within it by arrival.

        Holds the rows of one key back at each batch boundary, never more.
        """
        held: pa.RecordBatch | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            rows = batch if held is None else pa.concat_batches([held, batch])
            starts = self._starts(rows)
            last = int(np.flatnonzero(starts)[-1])
            if last > 0:
                yield self._folded(rows.slice(0, last), np.cumsum(starts[:last]) - 1)
            held = rows.slice(last)
        if held is not None:
            yield self._folded(held, np.zeros(held.num_rows, dtype=np.int64))

    def fold(self, incoming: IncomingRows) -> IncomingRows:
        """One row per key of rows in any order of keys."""
        codes = incoming.keys.dictionary_encode()
        if len(codes.dictionary) == len(incoming):
            return incoming
        numbers = codes.indices.to_numpy().astype(np.int64)
        winners, rows = self._merged(incoming.rows, incoming.deletes, numbers)
        return IncomingRows(codes.dictionary, rows, incoming.deletes[winners])

    def _starts(self, rows: pa.RecordBatch) -> Flags:
        """Which rows are the first of their key."""
        starts = np.ones(rows.num_rows, dtype=np.bool_)
        differs = np.zeros(rows.num_rows - 1, dtype=np.bool_)
        for name in self.key:
            column = rows.column(name)
            unequal = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
            differs |= pc.fill_null(unequal, True).to_numpy(zero_copy_only=False)
        starts[1:] = differs
        return starts

    def _folded(self, rows: pa.RecordBatch, numbers: Positions) -> pa.RecordBatch:
        if int(numbers[-1]) + 1 == rows.num_rows:
            return rows
        deletes = np.zeros(rows.num_rows, dtype=np.bool_)
        if IS_DELETE in rows.schema.names:
            flags = pc.fill_null(rows.column(IS_DELETE), False)
            deletes = flags.to_numpy(zero_copy_only=False)
        return self._merged(rows, deletes, numbers)[1]

    def _merged(
        self, rows: pa.RecordBatch, deletes: Flags, numbers: Positions
    ) -> tuple[Positions, pa.RecordBatch]:
        """Which row is left of each key, by its number, and it filled up."""
        fold = EntryFold(
            codes=numbers.astype(np.int32),
            keys=int(numbers.max()) + 1,
            ordering=[column_at(rows, name) for name in self.ordering],
            deletes=deletes,
            from_delete_block=np.zeros(rows.num_rows, dtype=np.bool_),
        )
        valued = {name: ~missing_values(rows.column(name), self.partial) for name in self.columns}
        sources = ColumnSources(self.columns, fold.keys, lambda rows, name: valued[name][rows])
        winners = fold.winners(sources.met)
        return winners, _taken(rows, winners, sources, self.columns)


def row_fold(config: TableConfig, schema: pa.Schema, *key: str) -> RowFold | None:
    """The fold of rows with these user columns in a table; None where it has no partial updates."""
    if config.partial_updates is None:
        return None
    mode = config.merge_mode
    return _fold(config.partial_updates, mode, config.ordering_fields, schema, key)


def one_of_each_key(ctx: HandleContext, incoming: IncomingRows) -> IncomingRows:
    """Without rows whose key occurs again later, or filled up where that is how rows are merged."""
    fold = RowFold.of(ctx)
    return incoming.last_of_each_key() if fold is None else fold.fold(incoming)


def _fold(
    partial: PartialUpdates,
    mode: MergeMode,
    ordering: tuple[str, ...],
    schema: pa.Schema,
    key: tuple[str, ...],
) -> RowFold:
    decides = mode is MergeMode.EVENT_TIME_ORDERING
    names = tuple(schema.names)
    return RowFold(partial, names, ordering if decides else (), key or (RECORD_KEY,))


def _taken(
    rows: pa.RecordBatch, winners: Positions, sources: ColumnSources, filled: Sequence[str]
) -> pa.RecordBatch:
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        wanted = sources.entries(name, winners) if name in filled else winners
        columns.append(column.take(pa.array(wanted)))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
