"""Commits to the metadata table, in the order of Hudi's, under the lock of the table.

A commit of the table with the instant time T, before it completes:

1. What an attempt at T left in the metadata table is undone (`undo`), unless it is this very commit
   again, after a lost reply. Files of instants that are gone are deleted: a writer that slept
   while its instant was undone may have written one after that.
2. When there are enough commits since the last compaction, all partitions are compacted, and what
   is older than the slices that were compacted is deleted, unless a pending write may have it.
3. `T.deltacommit.requested`, `.inflight`, a log for each file group, `T_C.deltacommit`. C is what
   is reserved as the completion time of T in the table. A compaction in 2 has C as its own instant,
   so that it is later than everything before it, and the commit completes a millisecond after it.
   In version 6, whose instants do not say when they completed, both are named otherwise (`form`).

What a death leaves. In 3, before the last object: a pending commit here, whose log no reader
counts. After it: a commit here that the table does not have. Its files are those of an instant that
is pending there, so that no reader counts them either, and the rollback of T begins with `undo`.
The requested object comes before the log, so that `undo` always finds what to delete. Where logs
are named after their slice they are looked into for that.

`undo` takes the completed object away first, then logs, then the pending objects: died in between,
it is done again. A commit that a compaction has taken in cannot be undone.

A compaction: its plan, the inflight object, the base file, `T_C.commit`, deletions. Died between: a
pending compaction, which the next writer deletes, or old files, which go with the next one. While a
commit is here that is pending in the table none is made, for it could not be undone then.

Source: Hudi's HoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.formats.log_block import BlockKind, HeaderKey, encode_block
from tideline.hudi.metadata_table.build_instants import free_build, may_be_build
from tideline.hudi.metadata_table.commit_contents import (
    commit_of,
    log_stat,
    plan_of,
    since_compaction,
)
from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.group_records import NO_DELETES, by_group, log_blocks
from tideline.hudi.metadata_table.many_records import Records
from tideline.hudi.metadata_table.partition import MetadataPartition, file_group
from tideline.hudi.metadata_table.reader import MetadataTable, StoredPartition
from tideline.hudi.metadata_table.record import encode_record_hfile, record_count
from tideline.hudi.table.file_group import (
    BaseFile,
    FileGroupId,
    FileSlice,
    LogFile,
    split_path,
)
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import delete_markers
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import (
    NO_PREVIOUS_COMMIT,
    CommitMetadata,
    WriteStat,
)
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.lock import Guard, unguarded
from tideline.storage.replacing import replace_unchanged

SLICES_KEPT_MAX = 10
"""So many older slices of a file group stay at most while a write is pending."""
_HFILE = "hfile"


class MetadataWriter:
    """Changes the metadata table of one table. Every method is called under the table's lock."""

    def __init__(
        self,
        table: HoodieTable,
        guard: Guard = unguarded,
        commits_per_compaction: int = COMMITS_PER_COMPACTION,
    ) -> None:
        """Raises as `MetadataTable`, CorruptTableError where it is of a version with another form.

        Hudi makes one of version 8 for a table of version 9 where its writer names version 8.
        """
        self._table = table
        self._guard = guard
        self._commits_per_compaction = commits_per_compaction
        self._metadata = MetadataTable(table.store, table.clock)
        theirs, ours = self._metadata.layout, table.layout
        if theirs.timeline.version != ours.timeline.version:
            raise CorruptTableError(
                f"the metadata table is of version {theirs.table_version}, its table of version "
                f"{ours.table_version}",
                table=table.uri,
            )

    @property
    def metadata(self) -> MetadataTable:
        """The metadata table as it is on disk."""
        return self._metadata

    def commit(
        self,
        completed: Instant,
        changes: Mapping[MetadataPartition, Records],
        data_timeline: ActiveTimeline,
    ) -> None:
        """Add records to partitions, as the commit of an instant that is about to complete in the
        table.

        Raises as `MetadataTable.read` where what is there cannot be continued; nothing was
        written then.
        """
        time, at = completed.time, completed.completion_time
        timeline = self._settled(self._metadata.timeline(), time)
        stored = self._stored(changes, timeline)
        groups = {partition: _groups_of(found) for partition, found in stored.items()}
        records = by_group(changes, groups)
        blocks = {group: log_blocks(group, time, found) for group, found in records.items()}
        if self._holds(time, blocks, timeline, stored):
            return
        if timeline.find(time) is not None:
            if not self.undo(time, timeline):
                raise CorruptTableError(
                    "a compaction of the metadata table holds what an earlier attempt wrote",
                    table=self._table.uri,
                    instant=time,
                )
            timeline = self._metadata.timeline()
            stored = self._stored(changes, timeline)
        strays = [path for found in stored.values() for path in found.strays]
        if strays:
            self._guard()
            self._delete(strays)
        newest = {
            slices[0].group: slices[0] for found in stored.values() for slices in found.groups
        }
        since = since_compaction(timeline)
        if self._is_compaction_due(since, data_timeline):
            compaction = self._metadata.form.compaction_time(since, at)
            compacted = self._compact(stored, timeline, compaction, at, by=time)
            self._delete_older(stored, data_timeline, by=time)
            newest |= {group: FileSlice(group, compaction) for group in compacted}
            at = self._after(at)
        timelines = self._metadata.timelines
        requested = timelines.create_requested(time, Action.DELTACOMMIT)
        inflight = timelines.to_inflight(requested)
        stats = [
            log_stat(
                self._put_log(group, time, newest.get(group), block), time, len(records[group])
            )
            for group, block in blocks.items()
        ]
        self._complete(inflight, commit_of(stats), at)

    def make(
        self,
        initial: Mapping[MetadataPartition, Records],
        time: InstantTime | None = None,
        *,
        fills_groups: bool = False,
    ) -> None:
        """Make partitions of all these records, where there is nothing of them yet: an empty log,
        as Hudi begins every file group, and a base file. The instant is one of zeros and a number,
        that which a metadata table begins with unless given. `fills_groups`: groups without records
        have a base file, too, so that none counts that another maker puts there late. Raises
        ConflictError where one has come first.
        """
        store, timelines = self._metadata.store, self._metadata.timelines
        time = time or self._metadata.form.first
        now_ms = self._table.clock.now_ms()
        requested = timelines.create_requested(time, Action.DELTACOMMIT)
        inflight = timelines.to_inflight(requested)
        empty = {HeaderKey.INSTANT_TIME: str(time)}
        no_deletes = encode_block(BlockKind.DELETE, empty, NO_DELETES)
        groups = {
            partition: tuple(
                file_group(partition, n) for n in range(partition.groups_for(len(records)))
            )
            for partition, records in initial.items()
        }
        for partition, made in groups.items():
            write_partition_metadata(store, partition.name, time)
            for group in made:
                self._guard()
                self._put_log(group, time, None, no_deletes)
        stats = []
        dealt = by_group(initial, groups)
        every = [group for made in groups.values() for group in made] if fills_groups else []
        for group in dict.fromkeys((*every, *dealt)):
            records = dealt.get(group)
            body = (records.encoded() if records else None) or encode_record_hfile(())
            # The next maker may take the same instant, and so the same names.
            self._guard()
            stats.append(self._put_base_file(group, time, body, by=time, is_new=True))
        metadata = commit_of(stats, operation_type="BULK_INSERT")
        self._complete(inflight, metadata, self._table.instants.zone.instant_at(now_ms))

    def next_build(self) -> InstantTime:
        """An instant of zeros above all that something was made at, so that no file has the name of
        one before."""
        made = {file.instant for file in self._files()}
        made |= {instant.time for instant in self._metadata.timeline()}
        found = free_build(made, self._metadata.form.first)
        if found is None:
            raise CorruptTableError("no instant of zeros is left", table=self._table.uri)
        return found

    def undo(self, time: InstantTime, timeline: ActiveTimeline | None = None) -> bool:
        """Take back a commit of any writer, and compactions under way; whether nothing is left.

        False where a compaction has taken it in, or one of logs may have. Files of partitions that
        are not kept go, too. Raises CorruptTableError where one has what others wrote as well, or
        Hudi is at it.
        """
        timeline = self._metadata.timeline() if timeline is None else timeline
        rollback = timeline.of(Action.ROLLBACK).pending().first()
        if rollback is not None and self._metadata.form.logs_name_slice:
            raise CorruptTableError(
                "a rollback of Hudi's, which appends to logs, is unfinished in the metadata table",
                table=self._table.uri,
                instant=rollback.time,
            )
        self._undo_compactions(timeline)
        found = timeline.of(Action.DELTACOMMIT).find(time)
        if found is None:
            return timeline.find(time) is None
        compaction = timeline.of(Action.COMMIT).completed().last()
        if found.completed_at and compaction and found.completed_at <= compaction.time:
            return False
        if self._is_followed_by_log_compaction(found, timeline):
            return False
        written = self._files_of(time)
        if found.is_completed:
            self._guard()
            self._metadata.timelines.remove(found)
        self._delete_pending(found, written)
        delete_markers(self._metadata.store, time)
        return True

    def sweep(self, data_timeline: ActiveTimeline) -> None:
        """Undo compactions under way, and commits that no instant of the table is under way with:
        who was rolled back in its sleep may have continued with one.

        Hudi begins to write without the table's lock, in the table first: a commit here that
        `data_timeline` does not know is looked up in one that is read after it was seen. A
        partition that a writer of Hudi is building, which the table says, is left to it.
        """
        timeline = self._metadata.timeline()
        self._undo_compactions(timeline)
        pending = timeline.of(Action.DELTACOMMIT).pending()
        unknown = [candidate for candidate in pending if data_timeline.find(candidate.time) is None]
        if unknown:
            now = self._table.timeline()
            unknown = [candidate for candidate in unknown if now.find(candidate.time) is None]
        for instant in unknown:
            if not may_be_build(instant.time) or not self._is_built():
                self.undo(instant.time, timeline)

    def _is_followed_by_log_compaction(self, found: Instant, timeline: ActiveTimeline) -> bool:
        """Whether one of Hudi's may hold what an instant wrote."""
        at = found.completed_at
        return at is not None and any(
            self._metadata.is_log_compaction(other.time)
            for other in timeline.of(Action.DELTACOMMIT).completed()
            if (other.completed_at or other.time) > at
        )

    def _is_built(self) -> bool:
        """Whether a partition is being built that is not in use yet."""
        config = self._table.properties.reload()
        return set(config.metadata_partitions_in_work) > set(config.metadata_partitions)

    def _stored(
        self, partitions: Iterable[MetadataPartition], timeline: ActiveTimeline
    ) -> Mapping[MetadataPartition, StoredPartition]:
        return {partition: self._metadata.stored(partition, timeline) for partition in partitions}

    def _holds(
        self,
        time: InstantTime,
        blocks: Mapping[FileGroupId, bytes],
        timeline: ActiveTimeline,
        stored: Mapping[MetadataPartition, StoredPartition],
    ) -> bool:
        """Whether the very same commit is completed already."""
        found = timeline.find(time)
        if found is None or found.is_pending:
            return False
        newest = {slices[0].group: slices[0] for part in stored.values() for slices in part.groups}
        logs = {group: newest[group].log_files if group in newest else () for group in blocks}
        with suppress(ObjectNotFoundError, CorruptTableError):
            return all(self._body_at(time, logs[group]) == body for group, body in blocks.items())
        return False

    def _body_at(self, time: InstantTime, logs: Sequence[LogFile]) -> bytes:
        """What an instant wrote into these logs."""
        metadata = self._metadata
        written = metadata.form.written_at(time, logs, metadata.read_frames)
        return b"".join(metadata.store.get(log.path) for log in written)

    def _is_compaction_due(self, since: Sequence[Instant], data_timeline: ActiveTimeline) -> bool:
        enough = len(since) >= self._commits_per_compaction
        return enough and self._metadata.form.may_be_compacted(since, data_timeline)

    def _compact(
        self,
        stored: Mapping[MetadataPartition, StoredPartition],
        timeline: ActiveTimeline,
        time: InstantTime,
        at: InstantTime | None,
        *,
        by: InstantTime,
    ) -> tuple[FileGroupId, ...]:
        """Compact all file groups at a time after that of all commits here, within the commit `by`,
        which completes `at`; those that have a base file of it."""
        timelines = self._metadata.timelines
        self._undo_compactions(timeline)
        newest = [
            (partition, slices[0]) for partition, found in stored.items() for slices in found.groups
        ]
        plan = encode_container(
            "HoodieCompactionPlan", plan_of(file_slice for _, file_slice in newest)
        )
        requested = timelines.create_requested(time, Action.COMPACTION, plan)
        inflight = timelines.to_inflight(requested)
        stats, compacted = [], []
        for partition, file_slice in newest:
            body = self._metadata.compacted(partition, file_slice, timeline)
            # A file group that never had a record gets no base file, as in Hudi.
            if body is not None:
                stats.append(
                    self._put_base_file(file_slice.group, time, body, by=by, before=file_slice)
                )
                compacted.append(file_slice.group)
        metadata = commit_of(stats, operation_type="COMPACT", compacted=True)
        self._complete(inflight, metadata, self._after(at))
        return tuple(compacted)

    def _delete_older(
        self,
        stored: Mapping[MetadataPartition, StoredPartition],
        data_timeline: ActiveTimeline,
        *,
        by: InstantTime,
    ) -> None:
        """Delete what is older than the slices that were compacted: a reader of a slice that was
        the newest until then has it to the end.

        A writer of Hudi commits here by the timeline that it read when it began, and fails where
        every slice of that is gone. So the slices stay that a pending write may have seen, of the
        last `SLICES_KEPT_MAX` ones.
        """
        pending = data_timeline.of(*COMMIT_ACTIONS).pending()
        oldest = min((write.time for write in pending if write.time != by), default=None)
        self._guard()
        groups = [slices for found in stored.values() for slices in found.groups]
        self._delete(
            file.path
            for slices in groups
            for file_slice in _unseen(slices, oldest)
            for file in file_slice.files
        )

    def _undo_compactions(self, timeline: ActiveTimeline) -> None:
        """Delete what compactions left that died. Raises CorruptTableError where commits were
        written on top of one, as Hudi does once it is planned."""
        for died in timeline.of(Action.COMPACTION).pending():
            of_slice = [file for file in self._files() if file.instant == died.time]
            if any(isinstance(file, LogFile) for file in of_slice):
                raise CorruptTableError(
                    "commits were written on top of a compaction that did not complete",
                    table=self._table.uri,
                    instant=died.time,
                )
            self._delete_pending(died, [file.path for file in of_slice])

    def _settled(self, timeline: ActiveTimeline, time: InstantTime) -> ActiveTimeline:
        """The timeline without what is in the way of a commit where a log may be of a slice that is
        only planned: compactions that died, and later commits that did.

        Readers of Hudi 0.15 end at a block that is later than all that is completed. The lock is
        held, so that no other commit is at work; its writer, if it lives, commits again.
        """
        if not self._metadata.form.logs_name_slice:
            return timeline
        later = timeline.of(Action.DELTACOMMIT).pending().after(time)
        died = [instant.time for instant in later if not may_be_build(instant.time)]
        if not died and not len(timeline.of(Action.COMPACTION).pending()):
            return timeline
        self._undo_compactions(timeline)
        for each in died:
            self.undo(each, timeline)
        return self._metadata.timeline()

    def _put_base_file(
        self,
        group: FileGroupId,
        time: InstantTime,
        body: bytes,
        *,
        by: InstantTime,
        before: FileSlice | None = None,
        is_new: bool = False,
    ) -> WriteStat:
        """Write the base file of `time`, within the commit `by`; what a commit says of it. Raises
        ConflictError where one that must be new is there."""
        token = self._metadata.form.write_token(by)
        file = BaseFile(group.partition, group.file_id, token, time, 0, _HFILE)
        records = record_count(body)
        store = self._metadata.store
        if not is_new:
            store.put(file.path, body)
        elif replace_unchanged(store, file.path, body, None) is None:
            raise ConflictError(
                "another process makes this partition: try again", table=store.uri, path=file.path
            )
        replaced = before.base_file if before is not None else None
        return WriteStat(
            file_id=file.file_id,
            path=file.path,
            prev_commit=str(before.base_instant) if before is not None else NO_PREVIOUS_COMMIT,
            num_writes=records,
            num_inserts=records,
            total_write_bytes=len(body),
            partition_path=group.partition,
            file_size_in_bytes=len(body),
            prev_base_file=replaced.name if replaced is not None else None,
        )

    def _put_log(
        self, group: FileGroupId, time: InstantTime, file_slice: FileSlice | None, block: bytes
    ) -> tuple[LogFile, FileSlice | None]:
        """Write a log on top of a slice; it and the slice."""
        metadata = self._metadata
        return metadata.form.put_log(metadata.store, group, time, file_slice, block), file_slice

    def _complete(
        self, inflight: Instant, metadata: CommitMetadata, at: InstantTime | None
    ) -> None:
        body = self._metadata.layout.timeline.encode_commit(metadata)
        self._guard()
        timed = at if self._metadata.layout.timeline.has_completion_times else None
        self._metadata.timelines.complete(inflight, body, at=timed)

    def _after(self, time: InstantTime | None) -> InstantTime | None:
        """The next time after this one, whatever the clock says; None of none."""
        return time and self._table.instants.zone.next_time(0, time)

    def _delete_pending(self, instant: Instant, written: Iterable[str]) -> None:
        """Delete what an instant wrote, then its pending objects."""
        self._guard()
        self._delete(written)
        for state in (State.INFLIGHT, State.REQUESTED):
            self._metadata.timelines.remove(instant.in_state(state))

    def _files_of(self, time: InstantTime) -> list[str]:
        """The paths of the files of an instant, in all partitions of the metadata table. Raises
        CorruptTableError where one of them cannot be deleted."""
        metadata, files = self._metadata, tuple(self._files())
        bases = [file for file in files if isinstance(file, BaseFile) and file.instant == time]
        logs = [file for file in files if isinstance(file, LogFile)]
        written = metadata.form.written_at(time, logs, metadata.read_frames)
        return [file.path for file in bases] + [log.path for log in written]

    def _files(self) -> Iterator[BaseFile | LogFile]:
        """All data files, of whatever partitions are there."""
        store = self._metadata.store
        folders = [path for path in store.list_directory().directories if path != ".hoodie"]
        for info in (info for folder in folders for info in store.list_directory(folder).objects):
            file = parse_data_file(*split_path(info.path), info.size_bytes)
            if file is not None:
                yield file

    def _delete(self, paths: Iterable[str]) -> None:
        DeleteScope(self._metadata.store, "a commit to the metadata table").remove_many(paths)


def _unseen(slices: Sequence[FileSlice], oldest: InstantTime | None) -> Sequence[FileSlice]:
    """Of slices, the newest first, those that a write which began at `oldest` has not seen as the
    newest."""
    if oldest is None:
        return slices[1:]
    seen = (n for n, file_slice in enumerate(slices, 1) if file_slice.base_instant <= oldest)
    return slices[min(next(seen, len(slices)), 1 + SLICES_KEPT_MAX) :]


def _groups_of(stored: StoredPartition) -> tuple[FileGroupId, ...]:
    return tuple(slices[0].group for slices in stored.groups)
