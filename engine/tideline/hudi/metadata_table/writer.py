"""Commits to the metadata table, in the order of Hudi's, under the lock of the table.

A commit of the table with the instant time T, before it completes:

1. What an attempt at T left in the metadata table is undone (`undo`), unless it is this very commit
   again, after a lost reply. Files of instants that are gone are deleted: a writer that slept
   while its instant was undone may have written one after that.
2. When there are enough commits since the last compaction, all partitions are compacted, and what
   is older than the slices that were compacted is deleted.
3. `T.deltacommit.requested`, `.inflight`, a log for each file group, `T_C.deltacommit`. C is what
   is reserved as the completion time of T in the table. A compaction in 2 has C as its own instant,
   so that it is later than everything before it, and the commit completes a millisecond after it.

What a death leaves. In 3, before the last object: a pending commit here, whose log no reader
counts. After it: a commit here that the table does not have. Its files are those of an instant that
is pending there, so that no reader counts them either, and the rollback of T begins with `undo`.
The requested object comes before the log, so that `undo` always finds what to delete.

`undo` takes the completed object away first, then logs, then the pending objects: died in between,
it is done again. A commit that a compaction has taken in cannot be undone.

A compaction: its plan, the inflight object, the base file, `T_C.commit`, deletions. Died between: a
pending compaction, which the next writer deletes, or old files, which go with the next one. While a
commit is here that is pending in the table none is made, for it could not be undone then.

Source: Hudi's HoodieBackedTableMetadataWriter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.formats.log_block import BlockKind, HeaderKey, encode_block, encode_delete_content
from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.partition import (
    MetadataPartition,
    file_group,
    group_number,
    shard_of,
)
from tideline.hudi.metadata_table.reader import MetadataTable, StoredPartition
from tideline.hudi.metadata_table.record import (
    MetadataRecord,
    encode_deletes,
    encode_record_hfile,
    record_count,
    record_schema_json,
)
from tideline.hudi.table.file_group import (
    BaseFile,
    FileGroupId,
    FileSlice,
    LogFile,
    join_path,
    split_path,
)
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import delete_markers
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.table.pending_plan import operation_record
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import (
    NO_PREVIOUS_COMMIT,
    SCHEMA_KEY,
    CommitMetadata,
    WriteStat,
)
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.lock import Guard, unguarded

FIRST_INSTANT = InstantTime("0" * 17)
"""The commit that a metadata table begins with."""
LAST_BUILD = InstantTime("0" * 14 + "999")
"""Partitions are built at instants of zeros and a number up to this."""
_COMPACTION_PLAN_VERSION = 2
_HFILE = "hfile"
_WRITE_TOKEN = "0-0-0"
_NO_DELETES = encode_delete_content(b"\0")
"""What a block of deletes without records holds."""


class MetadataWriter:
    """Changes the metadata table of one table. Every method is called under the table's lock."""

    def __init__(
        self,
        table: HoodieTable,
        guard: Guard = unguarded,
        commits_per_compaction: int = COMMITS_PER_COMPACTION,
    ) -> None:
        """Raises as `MetadataTable`, CorruptTableError where it is of another version."""
        self._table = table
        self._guard = guard
        self._commits_per_compaction = commits_per_compaction
        self._metadata = MetadataTable(table.store, table.clock)
        theirs, ours = self._metadata.layout.table_version, table.layout.table_version
        if theirs != ours:
            raise CorruptTableError(
                f"the metadata table is of version {theirs}, its table of version {ours}",
                table=table.uri,
            )

    @property
    def metadata(self) -> MetadataTable:
        """The metadata table as it is on disk."""
        return self._metadata

    def commit(
        self,
        completed: Instant,
        changes: Mapping[MetadataPartition, Sequence[MetadataRecord]],
        data_timeline: ActiveTimeline,
    ) -> None:
        """Add records to partitions, as the commit of an instant that is about to complete in the
        table.

        Raises as `MetadataTable.read` where what is there cannot be continued; nothing was
        written then.
        """
        time, at = completed.time, completed.completion_time
        if at is None:
            raise ValueError("a metadata table is kept where instants have completion times")
        timeline = self._metadata.timeline()
        stored = self._stored(changes, timeline)
        groups = {partition: _groups_of(found) for partition, found in stored.items()}
        records = _by_group(changes, groups)
        blocks = {group: _log_blocks(group, time, found) for group, found in records.items()}
        if self._holds(time, blocks, timeline):
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
        base_instants = {
            slices[0].group: slices[0].base_instant
            for found in stored.values()
            for slices in found.groups
        }
        if self._is_compaction_due(timeline, data_timeline):
            base_instants |= dict.fromkeys(self._compact(stored, timeline, at), at)
            at = self._after(at)
        timelines = self._metadata.timelines
        requested = timelines.create_requested(time, Action.DELTACOMMIT)
        inflight = timelines.to_inflight(requested)
        stats = [
            _log_stat(
                self._put_log(group, time, block),
                base_instants.get(group, time),
                len(records[group]),
            )
            for group, block in blocks.items()
        ]
        self._complete(inflight, _commit_of(stats), at)

    def make(
        self,
        initial: Mapping[MetadataPartition, Sequence[MetadataRecord]],
        time: InstantTime = FIRST_INSTANT,
    ) -> None:
        """Make partitions of all these records, where there is nothing of them yet: an empty log,
        as Hudi begins every file group, and a base file. The instant is one of zeros and a number.
        """
        store, timelines = self._metadata.store, self._metadata.timelines
        now_ms = self._table.clock.now_ms()
        requested = timelines.create_requested(time, Action.DELTACOMMIT)
        inflight = timelines.to_inflight(requested)
        empty = {HeaderKey.INSTANT_TIME: str(time)}
        no_deletes = encode_block(BlockKind.DELETE, empty, _NO_DELETES)
        groups = {
            partition: tuple(file_group(partition, n) for n in range(partition.groups_made))
            for partition in initial
        }
        for partition, made in groups.items():
            write_partition_metadata(store, partition.name, time)
            for group in made:
                self._put_log(group, time, no_deletes)
        stats = [
            self._put_base_file(group, time, encode_record_hfile(records))
            for group, records in _by_group(initial, groups).items()
        ]
        metadata = _commit_of(stats, operation_type="BULK_INSERT")
        self._complete(inflight, metadata, self._table.instants.zone.instant_at(now_ms))

    def next_build(self) -> InstantTime:
        """The first instant of zeros at which nothing was made yet."""
        timeline = self._metadata.timeline()
        times = (InstantTime(f"{number:017}") for number in range(int(str(LAST_BUILD)) + 1))
        found = next((time for time in times if timeline.find(time) is None), None)
        if found is None:
            raise CorruptTableError("no instant of zeros is left", table=self._table.uri)
        return found

    def undo(self, time: InstantTime, timeline: ActiveTimeline | None = None) -> bool:
        """Take back a commit of any writer, and compactions under way; whether nothing is left.

        False where a compaction has taken it in. Files of partitions that are not kept go, too.
        """
        timeline = self._metadata.timeline() if timeline is None else timeline
        self._undo_compactions(timeline)
        found = timeline.of(Action.DELTACOMMIT).find(time)
        if found is None:
            return timeline.find(time) is None
        if found.completed_at is not None:
            compaction = timeline.of(Action.COMMIT).completed().last()
            if compaction is not None and found.completed_at <= compaction.time:
                return False
            self._metadata.timelines.remove(found)
        self._delete_pending(found)
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
            if instant.time > LAST_BUILD or not self._is_built():
                self.undo(instant.time, timeline)

    def _is_built(self) -> bool:
        """Whether a partition is being built that is not in use yet."""
        config = self._table.properties.reload()
        return set(config.metadata_partitions_in_work) > set(config.metadata_partitions)

    def _stored(
        self, partitions: Iterable[MetadataPartition], timeline: ActiveTimeline
    ) -> Mapping[MetadataPartition, StoredPartition]:
        return {partition: self._metadata.stored(partition, timeline) for partition in partitions}

    def _holds(
        self, time: InstantTime, blocks: Mapping[FileGroupId, bytes], timeline: ActiveTimeline
    ) -> bool:
        """Whether the very same commit is completed already."""
        found = timeline.find(time)
        if found is None or found.is_pending:
            return False
        with suppress(ObjectNotFoundError):
            store = self._metadata.store
            return all(store.get(_log(group, time).path) == blocks[group] for group in blocks)
        return False

    def _is_compaction_due(self, timeline: ActiveTimeline, data_timeline: ActiveTimeline) -> bool:
        last = timeline.of(Action.COMMIT).completed().last()
        since = [
            instant
            for instant in timeline.of(Action.DELTACOMMIT).completed()
            if last is None or (instant.completed_at or instant.time) > last.time
        ]
        pending = {instant.time for instant in data_timeline.pending()}
        could_be_undone = any(instant.time in pending for instant in since)
        return len(since) >= self._commits_per_compaction and not could_be_undone

    def _compact(
        self,
        stored: Mapping[MetadataPartition, StoredPartition],
        timeline: ActiveTimeline,
        time: InstantTime,
    ) -> tuple[FileGroupId, ...]:
        """Compact all file groups at a time that is reserved in the table, after all commits here;
        those that have a base file of it.

        What is older than the slices that were compacted is deleted after that: a reader of a slice
        that was the newest until then has it to the end.
        """
        timelines = self._metadata.timelines
        self._undo_compactions(timeline)
        newest = [
            (partition, slices[0]) for partition, found in stored.items() for slices in found.groups
        ]
        plan = encode_container("HoodieCompactionPlan", _plan(piece for _, piece in newest))
        requested = timelines.create_requested(time, Action.COMPACTION, plan)
        inflight = timelines.to_inflight(requested)
        stats, compacted = [], []
        for partition, piece in newest:
            body = self._metadata.compacted(partition, piece)
            # A file group that never had a record gets no base file, as in Hudi.
            if body is not None:
                stats.append(self._put_base_file(piece.group, time, body, piece))
                compacted.append(piece.group)
        metadata = _commit_of(stats, operation_type="COMPACT", compacted=True)
        self._complete(inflight, metadata, self._after(time))
        self._guard()
        groups = [slices for found in stored.values() for slices in found.groups]
        self._delete(file.path for _, *older in groups for piece in older for file in piece.files)
        return tuple(compacted)

    def _undo_compactions(self, timeline: ActiveTimeline) -> None:
        """Delete what compactions left that died."""
        for died in timeline.of(Action.COMPACTION).pending():
            self._delete_pending(died)

    def _put_base_file(
        self,
        group: FileGroupId,
        time: InstantTime,
        body: bytes,
        before: FileSlice | None = None,
    ) -> WriteStat:
        """Write the base file of `time`; what a commit says of it."""
        file = BaseFile(group.partition, group.file_id, _WRITE_TOKEN, time, 0, _HFILE)
        records = record_count(body)
        self._metadata.store.put(file.path, body)
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

    def _put_log(self, group: FileGroupId, time: InstantTime, block: bytes) -> LogFile:
        log = _log(group, time, len(block))
        self._metadata.store.put(log.path, block)
        return log

    def _complete(self, inflight: Instant, metadata: CommitMetadata, at: InstantTime) -> None:
        body = self._metadata.layout.timeline.encode_commit(metadata)
        self._guard()
        self._metadata.timelines.complete(inflight, body, at=at)

    def _after(self, time: InstantTime) -> InstantTime:
        """The next time after this one, whatever the clock says."""
        return self._table.instants.zone.next_time(0, time)

    def _delete_pending(self, instant: Instant) -> None:
        """Delete what an instant wrote, then its pending objects."""
        self._delete_files_of(instant.time)
        for state in (State.INFLIGHT, State.REQUESTED):
            self._metadata.timelines.remove(instant.in_state(state))

    def _delete_files_of(self, time: InstantTime) -> None:
        """Delete the files of an instant, in all partitions of the metadata table."""
        store = self._metadata.store
        folders = [path for path in store.list_directory().directories if path != ".hoodie"]
        written = []
        for info in (info for folder in folders for info in store.list_directory(folder).objects):
            partition, name = split_path(info.path)
            file = parse_data_file(partition, name, info.size_bytes)
            if file is not None and file.instant == time:
                written.append(join_path(partition, name))
        self._delete(written)

    def _delete(self, paths: Iterable[str]) -> None:
        DeleteScope(self._metadata.store, "a commit to the metadata table").remove_many(paths)


def _by_group(
    records: Mapping[MetadataPartition, Sequence[MetadataRecord]],
    groups: Mapping[MetadataPartition, Sequence[FileGroupId]],
) -> dict[FileGroupId, list[MetadataRecord]]:
    """Records by the file group that their keys belong to. A partition of every table has one group
    at least, so that every commit writes something; a shard that is new gets one."""
    found: dict[FileGroupId, list[MetadataRecord]] = {}
    for partition, those in records.items():
        if partition.is_in_every_table:
            found[groups[partition][0]] = []
        shards: dict[str | None, list[FileGroupId]] = {}
        for group in groups[partition]:
            shards.setdefault(shard_of(partition, group), []).append(group)
        for record in those:
            its = shards.get(record.shard)
            if its is None:
                its = shards[record.shard] = [file_group(partition, 0, record.shard)]
            group = its[group_number(partition.hashed(record.key), len(its))]
            found.setdefault(group, []).append(record)
    return found


def _groups_of(stored: StoredPartition) -> tuple[FileGroupId, ...]:
    return tuple(slices[0].group for slices in stored.groups)


def _log_blocks(group: FileGroupId, time: InstantTime, records: Sequence[MetadataRecord]) -> bytes:
    """A log's blocks with these records: what has content, then what is deleted."""
    headers = {HeaderKey.INSTANT_TIME: str(time), HeaderKey.SCHEMA: record_schema_json()}
    said = [record for record in records if not record.is_deleted]
    gone = [record.key for record in records if record.is_deleted and record.key]
    if records and not said and not gone:
        return encode_block(BlockKind.DELETE, headers, _NO_DELETES)
    blocks = b""
    if said or not gone:
        blocks = encode_block(BlockKind.HFILE_DATA, headers, encode_record_hfile(said))
    if gone:
        deletes = encode_deletes(group.partition, gone)
        blocks += encode_block(BlockKind.DELETE, headers, deletes)
    return blocks


def _log_stat(log: LogFile, base_instant: InstantTime, records: int) -> WriteStat:
    """What a commit says of a log it wrote."""
    return WriteStat(
        file_id=log.file_id,
        path=log.path,
        prev_commit=str(base_instant),
        num_writes=records,
        num_update_writes=records,
        total_write_bytes=log.size_bytes,
        partition_path=log.partition,
        file_size_in_bytes=log.size_bytes,
        log_version=log.version,
        base_file="",
        log_files=(log.name,),
    )


def _commit_of(
    stats: Iterable[WriteStat], *, operation_type: str = "UPSERT_PREPPED", compacted: bool = False
) -> CommitMetadata:
    """The metadata of a commit to the metadata table."""
    extra = {SCHEMA_KEY: record_schema_json()}
    return CommitMetadata.of_stats(
        stats, operation_type=operation_type, extra_metadata=extra, compacted=compacted
    )


def _log(group: FileGroupId, time: InstantTime, size_bytes: int = 0) -> LogFile:
    return LogFile(group.partition, group.file_id, time, 1, _WRITE_TOKEN, size_bytes)


def _plan(slices: Iterable[FileSlice]) -> dict[str, object]:
    return {
        "operations": [operation_record(piece, {}) for piece in slices],
        "extraMetadata": {},
        "version": _COMPACTION_PLAN_VERSION,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": [],
    }
