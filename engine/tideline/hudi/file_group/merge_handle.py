"""Rewrites a base file: the next base file of its file group, with incoming rows merged in.

1. A marker names the new file before it exists.
2. Stored rows stream through in file order. Rows that no incoming row replaces are copied: only
   their file name column changes. Replaced ones get new meta columns, deleted ones are left out.
   In a table with partial updates the row that wins is filled up from the other, whichever it is.
3. Where it pays (`copy_plan`) bytes are copied instead of rows: a row group in which no row is
   replaced, but for its file name column; and in one from which none is deleted the columns that no
   update changes.
4. Incoming rows whose key is not stored are appended.
5. The footer continues from the old file's: the bloom filter and the key range gain the new keys,
   or it is rebuilt from all keys.
   Deleted keys stay in both, which costs a needless look and never hides a row; when most rows are
   gone, or the old footer lacks them, both are rebuilt.

A merge never rolls to a second file, regardless of its size.
Source: Hudi `HoodieMergeHandle`, `FileGroupReaderBasedMergeHandle`, `HoodieConcatHandle`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError
from tideline.hudi.file_group.base_file_reader import StoredBatch, StoredFile, open_stored_file
from tideline.hudi.file_group.base_file_writer import BaseFileWriter
from tideline.hudi.file_group.copy_plan import CopyPlan, Part, plan_copies
from tideline.hudi.file_group.file_settings import BloomSettings
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.file_group.marked_file import open_marked_file
from tideline.hudi.file_group.meta_columns import with_meta_columns
from tideline.hudi.file_group.record_merge import (
    NO_MATCHES,
    IncomingRows,
    KnownMatches,
    Matches,
    Positions,
    Replacement,
    find_matches,
    incoming_wins,
)
from tideline.hudi.file_group.row_fold import one_of_each_key
from tideline.hudi.log.missing_values import filled_up, gains
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.timeline.commit_metadata import RuntimeStats, WriteStat
from tideline.storage.object_store import ObjectStore

_SYSTEM_CLOCK = SystemClock()


def merge_base_file(
    ctx: HandleContext,
    store: ObjectStore,
    base: BaseFile,
    incoming: pa.Table,
    *,
    clock: Clock = _SYSTEM_CLOCK,
) -> tuple[WriteStat, ...]:
    """Merge `incoming` into `base`; one stat.

    Of several incoming rows with one key the last counts, unless the context appends without
    matching. Raises CorruptTableError when `base` is missing or unreadable, InvalidDataError for
    rows that do not fit the schema, StorageUnavailableError.
    """
    started_s = clock.monotonic_s()
    rows = IncomingRows.of(ctx.stored_schema, incoming)
    if ctx.merges_inserts and rows.stored_rows is None:
        rows = one_of_each_key(ctx, rows)
    merge = _Merge(ctx, base.partition, rows)
    with open_stored_file(ctx, store, base, is_read_whole=True) as stored:
        merge.known = KnownMatches.of(rows, stored.row_count)
        plan = merge.plan(stored)
        source = None if plan is None else plan.source
        with open_marked_file(
            ctx, store, base.partition, base.file_id, MarkerKind.MERGE, source
        ) as writer:
            merge.run(stored, plan, writer)
    elapsed_ms = round((clock.monotonic_s() - started_s) * 1000)
    return (merge.stat(base, writer, elapsed_ms),)


class _Merge:
    """One merge under way, and what it has counted."""

    def __init__(self, ctx: HandleContext, partition: str, incoming: IncomingRows) -> None:
        self._ctx = ctx
        self._partition = partition
        self._incoming = incoming
        self.known: KnownMatches | None = None
        self._matched = np.zeros(len(incoming), dtype=np.bool_)
        self._is_partial = ctx.partial is not None
        self._kept_columns = kept_columns(ctx)
        self._updates = 0
        self._inserts = 0
        self._deletes = 0

    def plan(self, stored: StoredFile) -> CopyPlan | None:
        """What is copied of the file; its keys are looked at if any of it may be."""
        plan = plan_copies(self._ctx, stored, self._incoming, self._kept_columns)
        if plan is None:
            return None
        numbers = range(len(plan.source.footer.row_groups))
        parts = [self._part_to_encode(stored, plan, number) for number in numbers]
        # New rows that would make a small row group go into the last one.
        if parts and self._adds_little():
            parts[-1] = Part.ROWS
        copies_any = any(part is not Part.ROWS for part in parts)
        return replace(plan, parts=tuple(parts)) if copies_any else None

    def run(self, stored: StoredFile, plan: CopyPlan | None, writer: BaseFileWriter) -> None:
        """Take the stored rows over, then append what is new."""
        if plan is None:
            dropped = self._encode(stored.batches(), writer)
        else:
            dropped = self._copy(stored, plan, writer)
        new = self._new_rows()
        self._deletes += int((~self._matched & self._incoming.deletes).sum())
        if self._ctx.populate_meta_fields:
            if _goes_on(stored, dropped, len(new), self._ctx.bloom):
                writer.continue_footer(stored.footer())
            else:
                _add_remaining_keys(stored, writer, dropped)
        self._append(writer, new)

    def stat(self, base: BaseFile, writer: BaseFileWriter, elapsed_ms: int) -> WriteStat:
        return WriteStat(
            file_id=base.file_id,
            path=writer.path,
            prev_commit=str(base.instant),
            num_writes=writer.rows,
            num_update_writes=self._updates,
            num_inserts=self._inserts,
            num_deletes=self._deletes,
            total_write_bytes=writer.size_bytes,
            partition_path=base.partition,
            file_size_in_bytes=writer.size_bytes,
            runtime_stats=RuntimeStats(total_upsert_time=elapsed_ms),
            prev_base_file=self._ctx.prev_base_file(base),
            column_ranges=writer.column_ranges,
        )

    def _encode(
        self, batches: Iterable[StoredBatch], writer: BaseFileWriter, rows_read: int = 0
    ) -> Positions:
        """Write merged batches; the stored rows that are left out, the first being `rows_read`."""
        dropped = [NO_MATCHES.stored]
        for batch in batches:
            replacement, merged = self._merge(batch, writer.rows)
            writer.write(merged)
            dropped.append(replacement.dropped + rows_read)
            rows_read += batch.rows.num_rows
        return np.concatenate(dropped)

    def _copy(self, stored: StoredFile, plan: CopyPlan, writer: BaseFileWriter) -> Positions:
        """Write row groups, and copy some parts of them; the stored rows that are left out."""
        dropped = [NO_MATCHES.stored]
        groups = zip(plan.source.footer.row_groups, plan.parts, strict=True)
        for number, (group, part) in enumerate(groups):
            stored.hold(group.start, group.end)
            # What is left of a row group is not left as a small one, but goes into the next.
            if part is Part.ROWS or writer.holds_little:
                batches = stored.group_batches(number)
                dropped.append(self._encode(batches, writer, group.first_row))
            else:
                columns = plan.taken if part is Part.COLUMNS else None
                writer.copy(group, self._merged_columns(stored, number, columns, writer.rows))
        return np.concatenate(dropped)

    def _merged_columns(
        self, stored: StoredFile, number: int, columns: Collection[str] | None, first_row: int
    ) -> list[pa.RecordBatch]:
        """Some columns of a row group from which no row is deleted."""
        merged = []
        for batch in stored.group_batches(number, columns) if columns else ():
            merged.append(self._merge(batch, first_row)[1])
            first_row += batch.rows.num_rows
        return merged

    def _part_to_encode(self, stored: StoredFile, plan: CopyPlan, number: int) -> Part:
        if number in plan.unmatched:
            return Part.NOTHING
        found = Part.NOTHING
        for batch in stored.group_batches(number, plan.looked_at):
            matches, wins = self._matches(batch)
            if self._incoming.deletes[matches.incoming[wins]].any():
                found = Part.ROWS
            elif found is Part.NOTHING and (wins.any() or (self._is_partial and len(matches))):
                found = Part.ROWS if plan.taken is None else Part.COLUMNS
        return found

    def _adds_little(self) -> bool:
        """Whether there are new rows, and so few that they would make a small row group."""
        new = self._new_rows()
        size_bytes = int(new.rows.nbytes)
        return len(new) > 0 and self._ctx.parquet.is_small_row_group(len(new), size_bytes)

    def _matches(self, batch: StoredBatch) -> tuple[Matches, npt.NDArray[np.bool_]]:
        """The pairs of a batch, and in which of them the incoming row wins."""
        matches = NO_MATCHES
        if self._ctx.merges_inserts:
            known = None if self.known is None else self.known.among(batch.keys, batch.first_row)
            matches = known if known is not None else find_matches(batch.keys, self._incoming.keys)
            self._matched[matches.incoming] = True
        return matches, incoming_wins(self._ctx, batch.rows, self._incoming.rows, matches)

    def _merge(self, batch: StoredBatch, first_row: int) -> tuple[Replacement, pa.RecordBatch]:
        """A batch with its matches applied; `first_row` is its first row's number in the file.

        It has all columns, or those that an update may change.
        """
        matches, wins = self._matches(batch)
        incoming = self._incoming.of_columns(batch.rows.schema.names)
        won = matches.where(wins)
        deletes = self._incoming.deletes[won.incoming]
        updates = won.where(~deletes)
        filled: IncomingRows | None = None
        if self._ctx.partial is not None:
            lost = matches.where(~wins & ~self._incoming.deletes[matches.incoming])
            updates, filled = _filled(batch.rows, incoming, updates, lost, self._ctx.partial)
        replacement = Replacement(batch.rows.num_rows, updates.stored, won.stored[deletes])
        self._updates += len(updates)
        self._deletes += len(replacement.dropped)
        if not len(updates) and not len(won):
            return replacement, batch.rows
        winners = incoming.take(updates.incoming) if filled is None else filled
        rewritten = with_meta_columns(
            self._ctx,
            self._partition,
            winners.keys,
            winners.rows,
            replacement.new_positions() + first_row,
        )
        return replacement, replacement.merge(batch.rows, rewritten, self._kept_columns)

    def _new_rows(self) -> IncomingRows:
        """The rows whose keys were not found; deletes among them delete nothing."""
        return self._incoming.take(np.flatnonzero(~self._matched & ~self._incoming.deletes))

    def _append(self, writer: BaseFileWriter, new: IncomingRows) -> None:
        self._inserts = len(new)
        if self._inserts:
            numbers = np.arange(writer.rows, writer.rows + self._inserts)
            writer.write(with_meta_columns(self._ctx, self._partition, new.keys, new.rows, numbers))
            writer.add_keys(new.keys)


def _filled(
    stored: pa.RecordBatch,
    incoming: IncomingRows,
    updates: Matches,
    lost: Matches,
    partial: PartialUpdates,
) -> tuple[Matches, IncomingRows]:
    """The stored rows to replace and by what: winners, and stored ones that gain a value."""
    users = stored.select(incoming.rows.schema.names)
    won = incoming.take(updates.incoming)
    rows = filled_up(won.rows, users.take(pa.array(updates.stored)), partial)
    kept, others = users.take(pa.array(lost.stored)), incoming.take(lost.incoming)
    gaining = gains(kept, others.rows, partial)
    lost = lost.where(gaining)
    if len(lost):
        flags = pa.array(gaining)
        others = incoming.take(lost.incoming)
        kept = filled_up(kept.filter(flags), others.rows, partial)
        rows = pa.concat_batches([rows, kept])
    updates = Matches(
        np.concatenate([updates.stored, lost.stored]),
        np.concatenate([updates.incoming, lost.incoming]),
    )
    return updates, replace(incoming.take(updates.incoming), rows=rows)


def kept_columns(ctx: HandleContext) -> frozenset[str]:
    """Columns an update leaves as they are stored."""
    if ctx.partial_update_columns is None:
        return frozenset()
    unknown = set(ctx.partial_update_columns) - set(ctx.schema.names)
    if unknown:
        raise ConfigError(
            "columns to update are not in the table's schema",
            table=ctx.table,
            value=", ".join(sorted(unknown)),
        )
    return frozenset(ctx.schema.names) - frozenset(ctx.partial_update_columns)


def _goes_on(stored: StoredFile, dropped: Positions, inserts: int, settings: BloomSettings) -> bool:
    """Whether the footer is carried over and gains the new keys.

    It is rebuilt when most of its keys are gone, and when its filter, made for fewer keys than
    filters at their largest, has no room for the new ones.
    """
    footer = stored.footer()
    if footer.min_key is None or footer.max_key is None or len(dropped) * 2 > stored.row_count:
        return False
    if not settings.is_written:
        return True
    bloom = footer.bloom
    if bloom is None:
        return False
    return inserts <= bloom.room or bloom.keys_per_row >= settings.num_entries


def _add_remaining_keys(stored: StoredFile, writer: BaseFileWriter, dropped: Positions) -> None:
    """Add the keys of the rows that remain, as they are stored."""
    rows_read = 0
    for keys in stored.key_batches():
        gone = dropped[(dropped >= rows_read) & (dropped < rows_read + len(keys))] - rows_read
        remaining = np.ones(len(keys), dtype=np.bool_)
        remaining[gone] = False
        writer.add_keys(keys.filter(pa.array(remaining)))
        rows_read += len(keys)
