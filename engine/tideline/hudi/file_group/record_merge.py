"""Merging incoming rows into stored rows, batch by batch and column by column.

1. Stored keys are looked up among the incoming ones; a batch without a match is left alone.
2. Of each matched pair the winner is decided: by ordering values, or always the incoming row.
3. A winning delete drops the stored row; a winning row takes its place.
4. Incoming rows whose key is not stored yet are left over, to be appended.

A merged column is the stored column and the winners behind it, gathered by position: one way for
flat and nested types. No row passes through Python.
Source: Hudi `HoodieMergeHandle`, `DefaultHoodieRecordPayload`, `OverwriteWithLatestAvroPayload`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY, STORED_ROW, HandleContext
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.table.ordering_value import is_lower
from tideline.hudi.table.properties import MergeMode
from tideline.parquet.column_encoding import decoded, encoded
from tideline.wording import counted

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IncomingRows:
    """Incoming rows in stored types, one per key; `deletes` flags those that delete theirs.

    `stored_rows`, known of rows with one for each key, are the numbers in the base file of stored
    rows of their keys, which has no others of these; -1 where there is none.
    """

    keys: pa.Array
    rows: pa.RecordBatch
    deletes: npt.NDArray[np.bool_]
    stored_rows: Positions | None = None

    @classmethod
    def of(cls, schema: pa.Schema, incoming: pa.Table | pa.RecordBatch) -> IncomingRows:
        """Read a handle's input as `schema`, the stored one; duplicate keys are kept.

        Raises InvalidDataError when a row has no record key.
        """
        keys = _single(incoming.column(RECORD_KEY), pa.string())
        if keys.null_count:
            raise InvalidDataError(
                f"{counted(keys.null_count, 'incoming row')} without a record key"
            )
        columns = [_single(incoming.column(field.name), field.type) for field in schema]
        deletes = np.zeros(incoming.num_rows, dtype=np.bool_)
        if IS_DELETE in incoming.schema.names:
            flags = pc.fill_null(_single(incoming.column(IS_DELETE), pa.bool_()), False)
            deletes = flags.to_numpy(zero_copy_only=False)
        stored_rows = None
        if STORED_ROW in incoming.schema.names:
            stored_rows = _single(incoming.column(STORED_ROW), pa.int64()).to_numpy()
        return cls(keys, pa.RecordBatch.from_arrays(columns, schema=schema), deletes, stored_rows)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, positions: Positions) -> IncomingRows:
        """The rows at `positions`."""
        indices = pa.array(positions)
        return IncomingRows(
            self.keys.take(indices),
            self.rows.take(indices),
            self.deletes[positions],
            None if self.stored_rows is None else self.stored_rows[positions],
        )

    def of_columns(self, names: Collection[str]) -> IncomingRows:
        """With those of its columns that are among these."""
        wanted = set(names)
        kept = [name for name in self.rows.schema.names if name in wanted]
        if len(kept) == self.rows.num_columns:
            return self
        return replace(self, rows=self.rows.select(kept))

    def slice(self, start: int, length: int | None = None) -> IncomingRows:
        """`length` rows from `start`, or all from there."""
        end = len(self) if length is None else start + length
        return IncomingRows(
            self.keys.slice(start, end - start),
            self.rows.slice(start, end - start),
            self.deletes[start:end],
            None if self.stored_rows is None else self.stored_rows[start:end],
        )

    def last_of_each_key(self) -> IncomingRows:
        """Without rows whose key occurs again later."""
        codes = self.keys.dictionary_encode()
        if len(codes.dictionary) == len(self):
            return self
        last = np.zeros(len(codes.dictionary), dtype=np.int64)
        np.maximum.at(last, codes.indices.to_numpy(), np.arange(len(self)))
        return self.take(np.sort(last))


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs of a stored row of a batch and the incoming row of its key, by position."""

    stored: Positions
    incoming: Positions

    def __len__(self) -> int:
        return len(self.stored)

    def where(self, mask: npt.NDArray[np.bool_]) -> Matches:
        return Matches(self.stored[mask], self.incoming[mask])


NO_MATCHES = Matches(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def find_matches(stored_keys: pa.Array, incoming_keys: pa.Array) -> Matches:
    """Pairs with equal keys; `incoming_keys` has no key twice, stored keys may repeat."""
    found = pc.index_in(stored_keys, value_set=incoming_keys)
    if found.null_count == len(found):
        return NO_MATCHES
    stored = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return Matches(stored, found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64))


class KnownMatches:
    """Pairs that were found when keys were looked up: batches of the file ask for theirs."""

    def __init__(self, incoming: IncomingRows, stored_rows: Positions) -> None:
        found = np.flatnonzero(stored_rows >= 0)
        self._keys = incoming.keys
        self._incoming = found[np.argsort(stored_rows[found])]
        self._stored = stored_rows[self._incoming]

    @classmethod
    def of(cls, incoming: IncomingRows, row_count: int) -> KnownMatches | None:
        """Of a file with so many rows; None where nothing is known."""
        stored_rows = incoming.stored_rows
        if stored_rows is None or int(stored_rows.max(initial=-1)) >= row_count:
            return None
        return cls(incoming, stored_rows)

    def among(self, stored_keys: pa.Array, first_row: int) -> Matches | None:
        """The pairs of a batch with these keys; None where their keys are others."""
        bounds = np.searchsorted(self._stored, [first_row, first_row + len(stored_keys)])
        these = slice(*bounds.tolist())
        matches = Matches(self._stored[these] - first_row, self._incoming[these])
        stored = stored_keys.take(pa.array(matches.stored))
        incoming = self._keys.take(pa.array(matches.incoming))
        return matches if stored.equals(incoming) else None


def incoming_wins(
    ctx: HandleContext, stored: pa.RecordBatch, incoming: pa.RecordBatch, matches: Matches
) -> npt.NDArray[np.bool_]:
    """For every pair whether the incoming row replaces the stored one.

    With event time ordering it does unless its ordering values, compared one after another, are
    lower; a null on either side decides for the incoming row.
    """
    if ctx.merge_mode is not MergeMode.EVENT_TIME_ORDERING:
        return np.ones(len(matches), dtype=np.bool_)
    old, new = pa.array(matches.stored), pa.array(matches.incoming)
    return ~is_lower(
        [column_at(incoming, name).take(new) for name in ctx.ordering_fields],
        [column_at(stored, name).take(old) for name in ctx.ordering_fields],
        len(matches),
    )


@dataclass(frozen=True, slots=True)
class Replacement:
    """Which row of a batch each row of its merged form is.

    `replaced` are the positions in the stored batch that winners take, in the winners' order;
    `dropped` those that winning deletes remove.
    """

    stored_rows: int
    replaced: Positions
    dropped: Positions

    def new_positions(self) -> Positions:
        """Where the winners end up in the merged batch."""
        return self.replaced - np.searchsorted(self.dropped, self.replaced)

    def merge(
        self, stored: pa.RecordBatch, winners: pa.RecordBatch, kept: Collection[str] = ()
    ) -> pa.RecordBatch:
        """The merged batch; columns named in `kept` keep the stored rows' values."""
        gather = np.arange(self.stored_rows)
        gather[self.replaced] = self.stored_rows + np.arange(len(self.replaced))
        merged, survivors = gather, np.arange(self.stored_rows)
        if len(self.dropped):
            merged = np.delete(gather, self.dropped)
            survivors = np.delete(survivors, self.dropped)
        positions, unchanged = pa.array(merged), pa.array(survivors)
        columns = []
        for name, old in zip(stored.schema.names, stored.columns, strict=True):
            if name in kept:
                columns.append(old.take(unchanged) if len(self.dropped) else old)
            else:
                columns.append(_stack(old, winners.column(name)).take(positions))
        return pa.RecordBatch.from_arrays(columns, stored.schema.names)


def _stack(stored: pa.Array, winners: pa.Array) -> pa.Array:
    if types.is_dictionary(stored.type):
        return pa.concat_arrays([stored, encoded(winners)])
    return pa.concat_arrays([stored, decoded(winners)])


def _single(column: pa.ChunkedArray | pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column as one array of the stored type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = decoded(column)
    return column if column.type == wanted else pc.cast(column, wanted)
