"""Hudi's metadata table as it is on disk: a table of its own in `.hoodie/metadata`.

It is a MERGE_ON_READ table with base files that are HFiles, a timeline like that of the table that
it belongs to, and a partition per index (`partition`). Its commits have the instant times of the
table's, and come just before them:

1. What a log says counts when the instant that wrote it is completed here (`form`). Whether it is
   in the table's timeline as well makes no difference to a listing, and to what is said of a file:
   names of files, and blocks of logs, say what wrote them, and readers leave out what is not
   committed. What is said of more than a file counts without the instants that are pending in the
   table.
2. Of a file group the newest slice is read: the base file, then the logs in the order in which
   they count.
3. How many file groups a partition has decides on where its keys are, and is stored nowhere. Where
   the last ones are lost, what is read shows it: a few keys beside those that are looked up have to
   be in the file groups of their hashes (`stored_count`).

Source: Hudi's HoodieBackedTableMetadata, HoodieTableMetadataUtil.getValidInstantTimestamps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeVar

from tideline.clock import Clock
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.hfile_lookup import HFileLookup
from tideline.formats.log_block import BlockFrame, BlockKind, HeaderKey, read_frames
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, key_of_files
from tideline.hudi.metadata_table.form import MetadataForm
from tideline.hudi.metadata_table.form_by_commit import BY_COMMIT
from tideline.hudi.metadata_table.form_by_slice import BY_SLICE
from tideline.hudi.metadata_table.partition import (
    MetadataPartition,
    file_group,
    group_number,
    shard_of,
)
from tideline.hudi.metadata_table.record import (
    KeyPrefixes,
    MetadataRecord,
    WantedKeys,
    decode_entries,
    decode_record_block,
    decode_record_hfile,
    encode_record_hfile,
    keys_in_text,
    some_keys,
    splice_record_hfile,
    wanted_entries,
)
from tideline.hudi.metadata_table.stored_count import StoredCount
from tideline.hudi.table.file_group import BaseFile, FileSlice, LogFile, split_path
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.properties import load_any_table_config
from tideline.hudi.table.table_config import METADATA_TABLE_PATH
from tideline.hudi.timeline.active import ActiveTimeline, TimelineStore
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import ObjectStore
from tideline.storage.store_below import StoreBelow

UNREADABLE = (CorruptTableError, UnsupportedTableError, ObjectNotFoundError)
"""What is raised where a metadata table cannot be read, or is replaced meanwhile."""
_RECORDS_AT_ONCE = 4096
_THREADS = 8
_READ_WHOLE_BYTES_MAX = 256 * 1024
"""A base file of up to so many bytes comes with one request."""

_log = logging.getLogger(__name__)
Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """The slices of each file group, newest first, and paths of files of instants that are gone, as
    `timeline` has it, that of the metadata table."""

    groups: tuple[tuple[FileSlice, ...], ...]
    strays: tuple[str, ...]
    timeline: ActiveTimeline = field(repr=False)


class MetadataTable:
    """The metadata table of one table, as it is on disk. Reads are always current.

    Nothing is kept of what was read: one that is rebuilt has files of the same names.
    """

    def __init__(self, data_store: ObjectStore, clock: Clock) -> None:
        """Raises TableNotFoundError where there is none, CorruptTableError for properties that
        cannot be read, UnsupportedTableError for a version that is not read."""
        self.store = StoreBelow(data_store, METADATA_TABLE_PATH)
        self.config = load_any_table_config(self.store)
        self.layout = self.config.layout
        names_slice = self.layout.names.logs_name_slice
        self.form: MetadataForm = BY_SLICE if names_slice else BY_COMMIT
        self.timelines = TimelineStore(self.store, self.layout.timeline, clock)

    def timeline(self) -> ActiveTimeline:
        """Its active timeline as it is now."""
        return self.timelines.load()

    def is_log_compaction(self, time: InstantTime) -> bool:
        """Whether a commit here is one of Hudi's that put logs together. It completes as others do,
        and is known by the object that it began with."""
        began = Instant(time, Action.LOGCOMPACTION, State.REQUESTED)
        return self.store.head(self.timelines.path(began)) is not None

    def read(
        self, partition: MetadataPartition, without: Collection[InstantTime] = ()
    ) -> Iterator[MetadataRecord]:
        """What a partition says now, oldest first, but what logs of some instants say.

        Raises CorruptTableError where it is missing or cannot be read, UnsupportedTableError for
        what only some settings of Hudi's make, ObjectNotFoundError when a file goes meanwhile.
        """
        stored = self.stored(partition, self.timeline())
        for shard, slices in _by_shard(partition, stored).items():
            count = StoredCount(partition, len(slices), self.store.uri)
            for number, file_slice in enumerate(slices):
                found = count.checked(number, self.read_slice(file_slice, stored.timeline, without))
                yield from _in_shard(shard, found)

    def look_up(
        self,
        partition: MetadataPartition,
        keys: Collection[str],
        without: Collection[InstantTime] = (),
    ) -> Iterator[MetadataRecord]:
        """What a partition without shards says now of these keys, oldest first, but what logs of
        some instants say. Raises as `read`.

        Of a base file only the blocks are read that may have them, unless it is small.
        """
        return self.look_up_in_shards(partition, {None: keys}, without)

    def look_up_in_shards(
        self,
        partition: MetadataPartition,
        keys: Mapping[str | None, Collection[str]],
        without: Collection[InstantTime] = (),
        *,
        stored: StoredPartition | None = None,
        has_all: bool = False,
    ) -> Iterator[MetadataRecord]:
        """The same of keys of some shards, in the files `stored` where they were listed already.

        A shard that is not there has no keys yet, unless the partition `has_all`: then, and where
        the partition has no shards at all, CorruptTableError is raised.
        """
        if stored is None:
            stored = self.stored(partition, self.timeline())
        newest = _by_shard(partition, stored)
        missing = keys.keys() - newest.keys()
        if missing and (has_all or None in missing or None in newest):
            raise CorruptTableError(
                f"the metadata table lacks file groups of {partition.name}",
                table=self.store.uri,
                value=", ".join(sorted(str(shard or "") for shard in missing)),
            )
        counts: dict[str | None, StoredCount] = {}
        wanted: dict[tuple[str | None, int], set[str]] = {}
        for shard in keys.keys() & newest.keys():
            groups = len(newest[shard])
            counts[shard] = StoredCount(partition, groups, self.store.uri)
            for key in keys[shard]:
                number = group_number(partition.hashed(key), groups)
                wanted.setdefault((shard, number), set()).add(key)

        def look(place: tuple[str | None, int]) -> Sequence[MetadataRecord]:
            shard, number = place
            file_slice, seen = newest[shard][number], counts[shard].seen(number)
            found = self._of_slice(file_slice, wanted[place], stored.timeline, without, seen)
            return tuple(_in_shard(shard, found))

        yield from chain.from_iterable(_at_once(look, tuple(wanted)))
        for shard, count in counts.items():
            self._require_count(count, newest[shard], stored.timeline)

    def look_up_beginnings(
        self,
        partition: MetadataPartition,
        beginnings: Collection[str],
        stored: StoredPartition,
        *,
        are_hashed: bool,
    ) -> Iterator[MetadataRecord]:
        """What a partition without shards, in these files, says of the keys that begin with one of
        some texts, oldest first, read as it is consumed. `are_hashed`: the beginning of a key
        decides on its file group. Raises as `read`."""
        newest = [slices[0] for slices in stored.groups]
        wanted: dict[int, list[str]] = {}
        for beginning in beginnings:
            own = group_number(partition.hashed(beginning), len(newest))
            for number in (own,) if are_hashed else range(len(newest)):
                wanted.setdefault(number, []).append(beginning)
        count = StoredCount(partition, len(newest), self.store.uri)
        for number, those in sorted(wanted.items()):
            starts = KeyPrefixes(tuple(those))
            seen = count.seen(number)
            yield from self._of_slice(newest[number], starts, stored.timeline, seen=seen)
        self._require_count(count, newest, stored.timeline)

    def shards(self, partition: MetadataPartition) -> frozenset[str | None]:
        """The shards that a partition has; None for one that has none. Raises as `read`."""
        groups = self.stored(partition, self.timeline()).groups
        return frozenset(shard_of(partition, slices[0].group) for slices in groups)

    def stored(self, partition: MetadataPartition, timeline: ActiveTimeline) -> StoredPartition:
        """The files of a partition.

        A stray was written by a process that slept while its instant was undone. Hudi begins to
        write here without the table's lock, each time with an instant: what the timeline lacks is
        looked up in one that is read after the listing. Raises CorruptTableError where a file group
        has no slice.
        """
        name = partition.name
        listing = self.store.list_directory(name).objects
        found = [(split_path(info.path)[1], info.size_bytes) for info in listing]
        # Its plan has all file groups. Logs after its instant are on top of the slice before.
        pending = timeline.of(Action.COMPACTION).pending().last()
        parsed = [parse_data_file(name, file, size_bytes) for file, size_bytes in found]
        files = [file for file in parsed if file is not None]
        planned = dict.fromkeys((file.group for file in files), pending.time) if pending else None
        view = FileSystemView.build(
            {name: found},
            timeline,
            pending_compaction=planned,
            slices=self.layout.slices,
            archived=self._archived_completion,
        )
        newest = view.latest_slices(name)
        numbers: dict[str | None, int] = {}
        for file_slice in newest:
            shard = shard_of(partition, file_slice.group)
            number = numbers[shard] = numbers.get(shard, -1) + 1
            if file_slice.group != file_group(partition, number, shard):
                raise CorruptTableError(
                    f"the metadata table lacks a file group of {name}",
                    table=self.store.uri,
                    path=file_slice.group,
                )
        if not numbers and not partition.may_be_empty:
            raise CorruptTableError(
                f"the metadata table lists no {name}", table=self.store.uri, path=name
            )
        groups = {group.id: group.slices for group in view.all_file_groups(name)}
        slices = tuple(
            (self._in_order(first, timeline), *_older(groups[first.group], first))
            for first in newest
        )
        strays = [file for file in files if _is_stray(file, timeline)]
        if strays:
            now = self.timeline()
            strays = [file for file in strays if _is_stray(file, now)]
        return StoredPartition(slices, tuple(file.path for file in strays), timeline)

    def compacted(
        self, partition: MetadataPartition, file_slice: FileSlice, timeline: ActiveTimeline
    ) -> bytes | None:
        """The base file that a slice becomes; None of one that has no records and never had any.

        Where the logs replace what the base file says, its blocks are copied. Raises as `read`.
        """
        base = file_slice.base_file
        if base is not None:
            body = self.store.get(base.path)
            changes = partition.replacing(self._logged(file_slice, timeline))
            found = None
            if changes is not None:
                found = splice_record_hfile(body, changes, path=base.path)
            if found is not None:
                return found
        records = partition.merged(self.read_slice(file_slice, timeline))
        return encode_record_hfile(records) if records or base is not None else None

    def read_slice(
        self, file_slice: FileSlice, timeline: ActiveTimeline, without: Collection[InstantTime] = ()
    ) -> Iterator[MetadataRecord]:
        """What one slice says, but what commits of some instants say. Raises as `read`."""
        if file_slice.base_file is not None:
            yield from self._of_base(file_slice.base_file)
        yield from self._logged(file_slice, timeline, without)

    def _of_slice(
        self,
        file_slice: FileSlice,
        keys: WantedKeys,
        timeline: ActiveTimeline,
        without: Collection[InstantTime] = (),
        seen: list[str] | None = None,
    ) -> Iterator[MetadataRecord]:
        """What one slice says of keys. Others that come along are added to `seen`."""
        if file_slice.base_file is not None:
            yield from self._of_keys(file_slice.base_file, keys, seen)
        yield from self._logged(file_slice, timeline, without, keys, seen)

    def _require_count(
        self, count: StoredCount, slices: Sequence[FileSlice], timeline: ActiveTimeline
    ) -> None:
        """Raises CorruptTableError where file groups are lost. Where those that were read have no
        key at all, the largest is looked into."""
        if count.is_open:
            number = max(range(len(slices)), key=lambda at: slices[at].size_bytes)
            seen = count.seen(number)
            for _ in self._of_slice(slices[number], (), timeline, seen=seen):
                pass
        count.require()

    def read_frames(self, log: LogFile) -> tuple[BlockFrame, ...]:
        """The frames of a log. Raises as `read`."""
        return _Logs(self.store).frames(log)

    def _logged(
        self,
        file_slice: FileSlice,
        timeline: ActiveTimeline,
        without: Collection[InstantTime] = (),
        keys: WantedKeys | None = None,
        seen: list[str] | None = None,
    ) -> Iterator[MetadataRecord]:
        """What the logs of a slice say."""
        logs = _Logs(self.store)
        for log, frame in self.form.counted(file_slice.log_files, logs.frames, timeline, without):
            schema_json = frame.headers.get(HeaderKey.SCHEMA, "")
            content = logs.content(log, frame)
            if seen is not None and not seen and frame.kind is BlockKind.HFILE_DATA:
                seen += some_keys(content, path=log.path)
            yield from decode_record_block(
                frame.kind, schema_json, content, path=log.path, keys=keys
            )

    def _of_base(
        self, file: BaseFile, keys: WantedKeys | None = None
    ) -> tuple[MetadataRecord, ...]:
        return decode_record_hfile(self.store.get(file.path), path=file.path, keys=keys)

    def _of_keys(
        self, file: BaseFile, keys: WantedKeys, seen: list[str] | None
    ) -> Iterator[MetadataRecord]:
        if file.size_bytes <= _READ_WHOLE_BYTES_MAX:
            body = self.store.get(file.path)
            if seen is not None:
                seen += some_keys(body, path=file.path)
            yield from decode_record_hfile(body, path=file.path, keys=keys)
            return

        def read_range(offset: int, length: int) -> bytes:
            return self.store.get_range(file.path, offset=offset, length=length)

        try:
            lookup = HFileLookup(read_range, file.size_bytes, path=file.path)
        except UnsupportedTableError:
            # HBase's writer, which Hudi used up to 1.0, makes indexes of several levels.
            yield from self._of_base(file, keys)
            return
        entries = wanted_entries(lookup, keys)
        while some := tuple(islice(entries, _RECORDS_AT_ONCE)):
            yield from decode_entries(lookup.info, some, path=file.path)
        if seen is not None:
            seen += keys_in_text(lookup.some_keys(), path=file.path)

    def _in_order(self, file_slice: FileSlice, timeline: ActiveTimeline) -> FileSlice:
        """The slice with its logs in the order in which they count."""

        def completed(time: InstantTime) -> InstantTime:
            found = timeline.find(time)
            at = self._archived_completion(time) if found is None else found.completed_at
            return at or time

        return replace(file_slice, log_files=self.form.in_order(file_slice.log_files, completed))

    def _archived_completion(self, time: InstantTime) -> InstantTime | None:
        form = self.layout.archive
        return form.opens(self.store, form.folder).completions_around(time).get(time)


class MetadataListing:
    """Listings of a table's files by its metadata table, without a listing of its folders."""

    def __init__(self, data_store: ObjectStore, clock: Clock) -> None:
        self._data_store = data_store
        self._clock = clock
        self._table: MetadataTable | None = None

    def read(
        self, partitions: Iterable[str] | None
    ) -> Mapping[str, tuple[tuple[str, int], ...]] | None:
        """Names and sizes in bytes of all committed files, of these partitions or of all.

        None where it cannot be read, or was replaced meanwhile.
        """
        try:
            if self._table is None:
                self._table = MetadataTable(self._data_store, self._clock)
            if partitions is None:
                records = self._table.read(FILES_PARTITION)
            else:
                partitions = frozenset(partitions)
                keys = [key_of_files(partition) for partition in partitions]
                records = self._table.look_up(FILES_PARTITION, keys)
            return FILES_PARTITION.look_up(records).listing(partitions)
        except ObjectNotFoundError:
            self._table = None
        except (CorruptTableError, UnsupportedTableError) as error:
            self._table = None
            _log.warning("folders are listed, for the metadata table cannot be read: %s", error)
        return None


def _by_shard(
    partition: MetadataPartition, stored: StoredPartition
) -> Mapping[str | None, list[FileSlice]]:
    """The newest slices of each shard, by the numbers of their file groups."""
    newest: dict[str | None, list[FileSlice]] = {}
    for first, *_ in stored.groups:
        newest.setdefault(shard_of(partition, first.group), []).append(first)
    return newest


def _at_once(do: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """What `do` gives for each, in order, several at once: a store takes its time to answer."""
    if len(items) < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        yield from pool.map(do, items)


def _older(slices: Iterable[FileSlice], newest: FileSlice) -> Iterator[FileSlice]:
    return (file_slice for file_slice in slices if file_slice.base_instant < newest.base_instant)


def _is_stray(file: BaseFile | LogFile, timeline: ActiveTimeline) -> bool:
    return timeline.find(file.instant) is None and not timeline.is_committed(file.instant)


def _in_shard(shard: str | None, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
    for record in records:
        yield record if shard is None else replace(record, shard=shard)


class _Logs:
    """Logs that are read, whole and each once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._bodies: dict[str, bytes] = {}

    def frames(self, log: LogFile) -> tuple[BlockFrame, ...]:
        """The frames of a log. Raises as `read_frames`."""
        body = self._bodies[log.path] = self._store.get(log.path)

        def read_range(offset: int, length: int) -> bytes:
            return body[offset : offset + length]

        return read_frames(read_range, len(body), path=log.path)

    def content(self, log: LogFile, frame: BlockFrame) -> bytes:
        """The content of a block of a log whose frames were read."""
        body = self._bodies[log.path]
        return body[frame.content_offset : frame.content_offset + frame.content_size_bytes]
