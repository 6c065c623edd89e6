"""The rows of a file slice: its base file with its log merged in, streamed batch by batch.

1. The log is read first and merged to one entry per key (see `tideline.hudi.log.merged_log`).
2. The base file streams through in file order. A row whose key the log has is replaced, or left
   out where the entry is a delete; by event time it stays when its ordering values are higher. Of
   several stored rows of one key only the first meets the entry.
3. Entries that met no stored row come last, deletes left out.

Only the columns asked for are read, and those that merging itself needs. Rows keep the meta columns
they were stored with. A slice without a base file has only its log, one without logs only its base.
Source: Hudi's HoodieFileGroupReader, FileGroupRecordBuffer, UpdateProcessor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.row_filter import RowFilter
from tideline.hudi.file_group.base_file_reader import StoredFile, open_stored_file
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.record_merge import NO_MATCHES, Matches, Replacement, find_matches
from tideline.hudi.keys.virtual_key import column_at, virtual_keys
from tideline.hudi.log.block_scan import SelectedBlocks
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.log.merged_log import LogRules, MergedLog, merge_log
from tideline.hudi.log.missing_values import filled_up, gains
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import META_COLUMNS, RECORD_KEY, without_meta_fields
from tideline.hudi.table.ordering_value import is_lower
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.table.properties import KeyGeneratorKind, MergeMode
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.parquet.column_encoding import decoded
from tideline.storage.object_store import ObjectStore

_BATCH_ROWS = 262_144


@dataclass(frozen=True, slots=True)
class SliceContext:
    """What reading any slice of one table needs to know; small, and pickled to tasks.

    `schema` has the user columns in the table's types. Blocks of instants that `committed` does not
    contain are left out. In a table without meta columns record keys are computed from
    `key_fields`, and name them where `keys_qualified`. The `delete_*` settings are LogRules'.
    Without a `merge_mode` only slices that have no logs are read.
    `partial`: rows are filled up from those they win against. `history` gives the names of columns
    in files, where these differ.
    """

    table: str
    schema: pa.Schema
    committed: CommittedInstants
    merge_mode: MergeMode | None = MergeMode.COMMIT_TIME_ORDERING
    ordering_fields: tuple[str, ...] = ()
    populate_meta_fields: bool = True
    key_fields: tuple[str, ...] = ()
    keys_qualified: bool = False
    delete_field: str | None = None
    delete_marker: str | None = None
    history: SchemaHistory | None = None
    partial: PartialUpdates | None = None

    @classmethod
    def of(
        cls,
        table: HoodieTable,
        timeline: ActiveTimeline,
        schema: pa.Schema,
        until: InstantTime | None = None,
        *,
        schemas: ActiveTimeline | None = None,
        merges: bool = True,
    ) -> SliceContext:
        """The context of a table as `timeline` shows it, up to `until` when given.

        `schema` may have the meta columns or not; it is the one at the end of `schemas`, without
        that of `timeline` up to `until`, but for columns that a write adds. Unless it `merges` only
        slices without logs are read, of tables as well that are merged in unknown ways.
        """
        config = table.config
        columns = without_meta_fields(schema)
        known = schema_history(
            table, schemas or (timeline if until is None else timeline.up_to(until))
        )
        qualified = len(config.record_key_fields) > 1
        if merges and not config.populate_meta_fields:
            qualified |= config.key_generator is KeyGeneratorKind.COMPLEX
        return cls(
            table=table.uri,
            schema=columns,
            committed=CommittedInstants.of(timeline, until),
            merge_mode=config.known_merge_mode if merges else None,
            ordering_fields=config.ordering_fields,
            populate_meta_fields=config.populate_meta_fields,
            key_fields=config.record_key_fields,
            keys_qualified=qualified,
            delete_field=config.merge_property("hoodie.payload.delete.field"),
            delete_marker=config.merge_property("hoodie.payload.delete.marker"),
            history=known and known.reading(columns),
            partial=config.partial_updates if merges else None,
        )

    @property
    def full_schema(self) -> pa.Schema:
        """All columns a read may ask for: the meta columns, where the table has them, first."""
        if not self.populate_meta_fields:
            return self.schema
        meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
        return pa.schema([*meta, *self.schema])


@dataclass(slots=True)
class MergeCounters:
    """What merging one slice has seen; complete once all batches are taken.

    `merged_keys` are the distinct keys of the log. `updated`, `inserted` and `deleted` count the
    log's effect as Hudi does: a delete counts whether it met a stored row or not, an entry that
    lost to a stored row does not.
    """

    log_files: int = 0
    log_bytes: int = 0
    log_blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0
    log_records: int = 0
    merged_keys: int = 0
    rows: int = 0
    updated: int = 0
    inserted: int = 0
    deleted: int = 0


def read_file_slice(
    store: ObjectStore,
    file_slice: FileSlice,
    ctx: SliceContext,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The merged rows of a slice, with `columns` or else all of the context's full schema.

    Raises CorruptTableError naming table, instant and path for a file that is missing or
    unreadable, UnsupportedTableError for blocks that are not read, ConfigError for an unknown
    column.
    """
    return FileSliceMerge(store, file_slice, ctx, columns).batches()


class FileSliceMerge:
    """One slice being merged, and what was counted on the way.

    `keeps_dictionaries` leaves text columns encoded as the base file has them, for rewriting. Of a
    slice without logs, row groups without rows that `row_filter` selects are not read.
    """

    def __init__(
        self,
        store: ObjectStore,
        file_slice: FileSlice,
        ctx: SliceContext,
        columns: Sequence[str] | None = None,
        *,
        keeps_dictionaries: bool = False,
        row_filter: RowFilter | None = None,
    ) -> None:
        if file_slice.log_files and ctx.merge_mode is None:
            raise UnsupportedTableError(
                "records are merged in a custom way, so no log is merged into its base file",
                table=ctx.table,
                path=file_slice.log_files[0].path,
            )
        full = ctx.full_schema
        unknown = [name for name in columns or () if name not in full.names]
        if unknown:
            raise ConfigError("the table has no such columns", table=ctx.table, value=unknown)
        self._store = store
        self._slice = file_slice
        self._ctx = ctx
        self._keeps_dictionaries = keeps_dictionaries
        # A row that a log replaces is no row of the table, and columns may have had other names.
        self._row_filter = None if file_slice.log_files or ctx.history else row_filter
        names = full.names if columns is None else list(columns)
        self.schema = pa.schema([full.field(name).with_nullable(True) for name in names])
        """Of the batches, whose text columns may be dictionaries; columns may be null, for files
        older than a column have no values for it."""
        self.counters = MergeCounters(
            log_files=len(file_slice.log_files),
            log_bytes=sum(log.size_bytes for log in file_slice.log_files),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows, stored ones first. Raises as `read_file_slice`."""
        log = self._read_log()
        if self._slice.base_file is None:
            yield from self._log_only(log, np.zeros(len(log), dtype=np.bool_))
            return
        ctx = self._handle_context(needs_keys=len(log) > 0)
        with open_stored_file(
            ctx,
            self._store,
            self._slice.base_file,
            meta_columns=self._meta_columns(needs_keys=len(log) > 0),
            keeps_dictionaries=self._keeps_dictionaries,
            row_filter=self._row_filter,
        ) as stored:
            merge = _BaseMerge(self._ctx, log, self.counters)
            for rows in stored.row_batches():
                merged = merge.merged(stored, rows) if len(log) else rows
                if merged.num_rows:
                    self.counters.rows += merged.num_rows
                    yield self._shaped(merged)
        yield from self._log_only(log, merge.met)

    def merged_log(self) -> MergedLog:
        """The log alone, merged, with this read's columns; for log compaction.

        Raises as `read_file_slice`.
        """
        return self._read_log()

    def select_blocks(self) -> SelectedBlocks:
        """The blocks of the log that count. Raises as `read_file_slice`."""
        return LogFiles(self._store, self._slice.log_files).select(self._ctx.committed)

    def _read_log(self) -> MergedLog:
        files = LogFiles(self._store, self._slice.log_files)
        selected = files.select(self._ctx.committed)
        log = merge_log(files, selected, self._rules())
        self.counters.log_blocks = selected.total_blocks
        self.counters.corrupt_blocks = selected.corrupt_blocks
        self.counters.rollback_blocks = selected.rollback_blocks
        self.counters.log_records = log.entries
        self.counters.merged_keys = len(log)
        return log

    def _rules(self) -> LogRules:
        ctx = self._ctx
        fields = ctx.populate_meta_fields
        key_columns = (RECORD_KEY,) if fields else tuple(_top(name) for name in ctx.key_fields)
        ordering: list[tuple[str, pa.DataType]] = []
        if ctx.merge_mode is MergeMode.EVENT_TIME_ORDERING:
            ordering = [(name, _type_at(ctx.schema, name)) for name in ctx.ordering_fields]
        return LogRules(
            schema=self.schema,
            key_columns=key_columns,
            keys_of=self._keys_of,
            ordering=tuple(ordering),
            delete_field=ctx.delete_field,
            delete_marker=ctx.delete_marker,
            history=ctx.history,
            partial=ctx.partial,
        )

    def _keys_of(self, rows: pa.RecordBatch) -> pa.Array:
        ctx = self._ctx
        if ctx.populate_meta_fields:
            return decoded(rows.column(RECORD_KEY)).cast(pa.string())
        return virtual_keys(rows, ctx.key_fields, qualified=ctx.keys_qualified)

    def _log_only(self, log: MergedLog, met: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The entries that met no stored row."""
        left = ~met
        self.counters.deleted += int((left & log.deletes).sum())
        new = np.flatnonzero(left & ~log.deletes)
        self.counters.inserted += len(new)
        self.counters.rows += len(new)
        for start in range(0, len(new), _BATCH_ROWS):
            yield log.rows.take(pa.array(new[start : start + _BATCH_ROWS]))

    def _shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Only the columns asked for, in their order."""
        if rows.schema.names == self.schema.names:
            return rows
        return rows.select(self.schema.names)

    def _meta_columns(self, *, needs_keys: bool) -> list[str]:
        wanted = set(self.schema.names) | ({RECORD_KEY} if needs_keys else set())
        return [name for name in META_COLUMNS if name in wanted]

    def _handle_context(self, *, needs_keys: bool) -> HandleContext:
        """The base file reader's view of this slice: which columns to read, and their types."""
        ctx = self._ctx
        wanted = set(self.schema.names)
        if needs_keys:
            if not ctx.populate_meta_fields:
                wanted.update(_top(name) for name in ctx.key_fields)
            if ctx.merge_mode is MergeMode.EVENT_TIME_ORDERING:
                wanted.update(_top(name) for name in ctx.ordering_fields)
        return HandleContext(
            table=ctx.table,
            instant=self._slice.base_instant,
            schema=pa.schema([item for item in ctx.schema if item.name in wanted]),
            merge_mode=ctx.merge_mode or MergeMode.COMMIT_TIME_ORDERING,
            ordering_fields=ctx.ordering_fields,
            populate_meta_fields=ctx.populate_meta_fields,
            virtual_key_fields=ctx.key_fields,
            virtual_keys_qualified=ctx.keys_qualified,
            history=ctx.history,
        )


class _BaseMerge:
    """Merging a log into the stored rows of one file."""

    def __init__(self, ctx: SliceContext, log: MergedLog, counters: MergeCounters) -> None:
        self._ctx = ctx
        self._log = log
        self._counters = counters
        self.met = np.zeros(len(log), dtype=np.bool_)
        """Which entries met a stored row."""

    def merged(self, stored: StoredFile, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of stored rows with the log's entries applied."""
        matches = self._first_meetings(find_matches(stored.keys(rows), self._log.keys))
        self.met[matches.incoming] = True
        wins = self._log_wins(rows, matches)
        won = matches.where(wins)
        deletes = self._log.deletes[won.incoming]
        updates = won.where(~deletes)
        self._counters.updated += len(updates)
        self._counters.deleted += int(deletes.sum())
        filled = self._filled(rows, matches, wins)
        if not len(won) and not len(filled):
            return rows
        winners = self._winners(rows, updates)
        replaced = updates.stored
        if len(filled):
            kept = self._stored_filled_up(rows, filled)
            winners = pa.concat_batches([winners, kept])
            replaced = np.concatenate([replaced, filled.stored])
        replacement = Replacement(rows.num_rows, replaced, won.stored[deletes])
        # What was only read to merge by goes no further.
        return replacement.merge(rows.select(winners.schema.names), winners)

    def _first_meetings(self, matches: Matches) -> Matches:
        """Without pairs whose entry has met a stored row already."""
        fresh = ~self.met[matches.incoming]
        entries, first = np.unique(matches.incoming, return_index=True)
        if len(entries) < len(matches):
            only_first = np.zeros(len(matches), dtype=np.bool_)
            only_first[first] = True
            fresh &= only_first
        return matches if fresh.all() else matches.where(fresh)

    def _log_wins(self, rows: pa.RecordBatch, matches: Matches) -> np.ndarray:
        log = self._log
        if not log.ordering:
            return np.ones(len(matches), dtype=np.bool_)
        old, new = pa.array(matches.stored), pa.array(matches.incoming)
        lower = is_lower(
            [values.take(new) for values in log.ordering],
            [column_at(rows, name).take(old) for name in self._ctx.ordering_fields],
            len(matches),
        )
        return ~lower | log.natural[matches.incoming]

    def _filled(
        self, rows: pa.RecordBatch, matches: Matches, wins: npt.NDArray[np.bool_]
    ) -> Matches:
        """The pairs whose stored row stays and lacks a value that the log has."""
        partial = self._ctx.partial
        lost = matches.where(~wins & ~self._log.deletes[matches.incoming])
        if partial is None or not len(lost):
            return NO_MATCHES
        pairs = self._stored_and_logged(rows, lost)
        return lost.where(gains(*pairs, partial, self._present(lost)))

    def _stored_filled_up(self, rows: pa.RecordBatch, filled: Matches) -> pa.RecordBatch:
        """Stored rows with the log's values where they have none."""
        partial = self._ctx.partial
        assert partial is not None, "only partial updates fill stored rows up"
        pairs = self._stored_and_logged(rows, filled)
        kept = filled_up(*pairs, partial, self._present(filled))
        return pa.RecordBatch.from_arrays(kept.columns, schema=self._log.rows.schema)

    def _stored_and_logged(
        self, rows: pa.RecordBatch, matches: Matches
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        names = self._log.rows.schema.names
        stored = rows.select(names).take(pa.array(matches.stored))
        return stored, self._log.rows.take(pa.array(matches.incoming))

    def _present(self, matches: Matches) -> dict[str, npt.NDArray[np.bool_]]:
        return {name: flags[matches.incoming] for name, flags in self._log.present.items()}

    def _winners(self, rows: pa.RecordBatch, updates: Matches) -> pa.RecordBatch:
        """The rows that take the place of stored ones, filled up from these where partial."""
        log = self._log
        winners = log.rows.take(pa.array(updates.incoming))
        if not log.present:
            return winners
        positions = pa.array(updates.stored)
        columns = []
        for name, column in zip(winners.schema.names, winners.columns, strict=True):
            present = log.present[name][updates.incoming]
            if not present.all():
                stored = decoded(rows.column(name)).take(positions)
                column = pc.if_else(pa.array(present), column, stored)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=winners.schema)


def _top(name: str) -> str:
    return name.split(".", 1)[0]


def _type_at(schema: pa.Schema, dotted: str) -> pa.DataType:
    """The type of a column or nested field. Raises ConfigError when there is none."""
    name, *inner = dotted.split(".")
    try:
        data_type = schema.field(name).type
        for step in inner:
            data_type = data_type.field(step).type
    except (KeyError, AttributeError) as error:
        raise ConfigError("no such ordering field in the table", value=dotted) from error
    return data_type
