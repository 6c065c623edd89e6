"""A Hudi table in a store: its properties, its timeline, its files and its schema.

Everything here works without Arrow except
`table_schema`, so that services which move no rows run in a small image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tideline.clock import Clock
from tideline.errors import ConfigError, ConflictError, ObjectNotFoundError
from tideline.hudi.table.bootstrap_index import read_bootstrap_index
from tideline.hudi.table.commit_note import CommitNote
from tideline.hudi.table.file_group import (
    BaseFile,
    FileGroupId,
    LogFile,
    SourceFile,
    replaced_groups,
    split_path,
)
from tideline.hudi.table.file_system_view import FileSystemView, Listing, parse_data_file
from tideline.hudi.table.folder_listing import FolderListing
from tideline.hudi.table.internal_schema import InternalSchema
from tideline.hudi.table.partition_metadata import (
    METADATA_DIRECTORY,
    find_partitions,
    is_table_metadata,
)
from tideline.hudi.table.pending_plan import planned_groups
from tideline.hudi.table.properties import (
    TableConfig,
    load_table_config,
    update_table_properties,
)
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline, TimelineStore
from tideline.hudi.timeline.archived import UNREADABLE, ArchivedTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KNOWN_UTC, KnownZone, ZoneBasis, zone_of_objects
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone
from tideline.lock_timing import LockTiming
from tideline.storage.delete_scope import DeleteScope, no_objection
from tideline.storage.location import StoreLocation
from tideline.storage.lock import Guard, TableLock, open_table_lock, unguarded
from tideline.storage.nested_tables import HUDI, root_around
from tideline.storage.object_store import ObjectInfo, ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

# Up to here one request per partition is cheaper than listing the whole table.
_PARTITION_LISTINGS_MAX = 32

CLOCK_SKEW_S_MAX = 0.2
"""How far clocks of writers may differ (Hudi's default of maxExpectedClockSkew)."""
ONE_CLOCK_WAIT_S = 0.001
"""What is waited where all writers read one clock."""

CommittedFiles = Callable[[Iterable[str] | None], Listing | None]
"""What the metadata table lists of these partitions, or of all; None where it cannot be read."""


class HoodieTable:
    """One open table. Holds no connection state of its own; reads are always current."""

    def __init__(
        self,
        location: StoreLocation,
        store: ObjectStore,
        config: TableConfig,
        clock: Clock,
        committed_files: CommittedFiles,
    ) -> None:
        self.location = location
        self.store = store
        self.config = config
        self.clock = clock
        self.writer = ""
        """What heartbeats of this process name it; see `tideline.storage.heartbeat`."""
        self.nested: dict[str, str] = {}
        """Tables below this one, by root with their format, as far as listings have shown them."""
        self.before_deletion: Callable[[Collection[str]], None] = _let_go
        """Called with the paths of committed files before they are deleted; may refuse by raising.

        A layer above that keeps track of these files sets it.
        """
        self.layout = config.layout
        """How the table lies on disk; everything that differs between table versions."""
        self.timelines = TimelineStore(store, self.layout.timeline, clock)
        self._zone_name: str | None = None
        self._committed_files = committed_files
        # Instants and their plans never change, so what was read of one is kept.
        self._sources: Mapping[FileGroupId, SourceFile] | None = None
        self._replaced_by: dict[InstantTime, tuple[FileGroupId, ...]] = {}
        self._planned_by: dict[Instant, tuple[FileGroupId, ...]] = {}
        self._notes: dict[Instant, CommitNote] = {}
        self._archived: dict[InstantTime, bool] = {}
        self._completed: dict[InstantTime, InstantTime | None] = {}
        self._schemas: tuple[tuple[Instant, ...], tuple[InternalSchema, ...]] | None = None

    @property
    def uri(self) -> str:
        return self.store.uri

    @property
    def hadoop_uri(self) -> str:
        """The table's address as Hudi spells it in plans; in-memory tables have no such address."""
        in_memory = self.location.scheme == "memory"
        return self.location.uri if in_memory else self.location.spark_uri()

    def lock(self, timing: LockTiming | None = None) -> TableLock:
        """The table's lock, not acquired yet, with the table's own timing unless given."""
        timing = timing or Settings(self.config.properties).lock_timing()
        return open_table_lock(self.store, self.clock, timing)

    def reload_config(self) -> TableConfig:
        """Read the properties again: another engine may have changed them, or upgraded the table.
        Raises as `open`."""
        self.config = load_table_config(self.store)
        if self.config.layout != self.layout:
            self.layout = self.config.layout
            self.timelines = TimelineStore(self.store, self.layout.timeline, self.clock)
        return self.config

    def update_properties(
        self, changes: Mapping[str, str | None], guard: Guard = unguarded
    ) -> None:
        """Change properties (None removes one) under the table lock; `guard` says it was lost."""
        self.config = update_table_properties(self.store, changes, clock=self.clock, guard=guard)

    def set_properties(self, changes: Mapping[str, str | None]) -> None:
        """Take the table lock and change properties; see `update_properties`."""
        with self.lock().acquire():
            self.reload_config()
            self.update_properties(changes)

    def declare_zone(self, name: str | None) -> None:
        """Set the time zone of the table's instants, over its own property; no name sets none.

        Holds for as long as the table is open. Raises ConfigError for an unknown zone, and for any
        but UTC where the table is UTC by its properties.
        """
        if name is not None and name.strip():
            self.config.zone_declared_as(name)
            self._zone_name = name

    @property
    def zone_is_declared(self) -> bool:
        """Whether properties or the caller say the time zone of the instants."""
        return self._declared_zone is not None

    @property
    def zone(self) -> TimelineZone:
        """The zone that new instants are made in: UTC unless declared otherwise."""
        return self._declared_zone or UTC_ZONE

    def known_zone(self, timeline: ActiveTimeline) -> KnownZone:
        """The zone of the instants, and how it is known; asks the store nothing."""
        if self.config.timeline_timezone == UTC_ZONE.name:
            return KNOWN_UTC
        if (declared := self._declared_zone) is not None:
            return KnownZone(declared, ZoneBasis.DECLARED)
        return zone_of_objects(timeline.made_ms)

    def require_zone(self, timeline: ActiveTimeline) -> KnownZone:
        """The same for writers. Raises ConfigError when it is visibly not UTC, nor declared."""
        known = self.known_zone(timeline)
        if known.refusal is not None:
            example = known.example.time if known.example else None
            raise ConfigError(known.refusal, table=self.uri, instant=example)
        return known

    def next_time(self, timeline: ActiveTimeline | None = None) -> InstantTime:
        """An instant time above the clock, in the table's zone, and everything in the timeline.

        Without a timeline in the one as it is now. Where another writer may exist, call it and
        `create_requested` under the table lock.
        """
        timeline = self.timeline() if timeline is None else timeline
        return self.zone.next_time(self.clock.now_ms(), timeline.newest_time())

    def reserve_time(self, timeline: ActiveTimeline | None = None) -> InstantTime:
        """An instant time as `next_time` gives it, which no other process will give.

        Call under the table lock. Where completion times decide what readers see, it is waited
        until the clocks of other writers, which take the lock after us, have passed it as well
        (Hudi: SkewAdjustingTimeGenerator).
        """
        time = self.next_time(timeline)
        if self.layout.timeline.has_completion_times:
            is_local = self.store.local_path("") is not None
            self.clock.sleep(ONE_CLOCK_WAIT_S if is_local else CLOCK_SKEW_S_MAX)
        return time

    def completed_now(self, pending: Instant, timeline: ActiveTimeline | None = None) -> Instant:
        """`pending` as it completes now, with a time reserved where the layout has such.

        Call under the table lock. Raises ConflictError when it is completed already.
        """
        completed = pending.in_state(State.COMPLETED)
        if not self.layout.timeline.has_completion_times:
            return completed
        timeline = self.timeline() if timeline is None else timeline
        if timeline.completed_as(completed):
            raise ConflictError(
                "another process already completed this instant", table=self.uri, instant=pending
            )
        return pending.in_state(State.COMPLETED, self.reserve_time(timeline))

    def complete(self, pending: Instant, body: bytes) -> Instant:
        """Make an inflight instant visible, under the table lock; see `TimelineStore.complete`."""
        completed = self.completed_now(pending)
        return self.timelines.complete(pending, body, at=completed.completion_time)

    @property
    def _declared_zone(self) -> TimelineZone | None:
        if self._zone_name is not None:
            return self.config.zone_declared_as(self._zone_name)
        return self.config.declared_zone

    def timeline(self, own: InstantTime | None = None) -> ActiveTimeline:
        """The active timeline as it is now, `own` being an instant of the caller's."""
        found = self.timelines.load(own)
        if found.is_moving or not len(found):
            # Another process may have changed the table's version.
            self.reload_config()
            found = self.timelines.load(own)
        return found

    def read_commit(self, instant: Instant) -> CommitMetadata:
        """What a completed commit did, also when it was archived since the timeline was read.

        Raises ObjectNotFoundError when it is in neither timeline (restored away), CorruptTableError
        when it cannot be read.
        """
        try:
            return self.timelines.read_commit(instant)
        except ObjectNotFoundError:
            entry = self.archived().find(frozenset({instant.time})).get(instant.time)
            if entry is None:
                raise
            return entry.commit_metadata()

    def commit_note(self, instant: Instant) -> CommitNote:
        """What is remembered of a completed commit. Raises as `read_commit`."""
        if instant not in self._notes:
            self._notes[instant] = CommitNote.of(self.read_commit(instant))
        return self._notes[instant]

    def archived(self) -> ArchivedTimeline:
        """The instants that left the active timeline; nothing is read before it is asked for."""
        form = self.layout.archive
        return form.opens(self.store, form.folder)

    def remembered_schemas(
        self, timeline: ActiveTimeline, find: Callable[[], tuple[InternalSchema, ...]]
    ) -> tuple[InternalSchema, ...]:
        """What `find` finds of the versions of the schema; asked again when an instant completed.

        A version counts once its commit is completed, so without a new one there is none.
        """
        completed = timeline.completed().instants
        if self._schemas is None or self._schemas[0] != completed:
            self._schemas = completed, find()
        return self._schemas[1]

    def is_archived_commit(self, time: InstantTime) -> bool:
        """Whether a commit of this time is in the archive; asked once while the table is open."""
        if time not in self._archived:
            self._archived[time] = bool(self.archived().find(frozenset({time})))
        return self._archived[time]

    def delete_scope(
        self,
        operation: str,
        objection: Callable[[str], str | None] = no_objection,
        *,
        control: Container[str] = frozenset(),
    ) -> DeleteScope:
        """What `operation` may delete here; never anything of a table below this one."""
        return DeleteScope(self.store, operation, objection, control, self.nested)

    def list_objects(self) -> tuple[ObjectInfo, ...]:
        """Every object in the folder, `.hoodie` included, but none of a table below this one."""
        listing = FolderListing.of(self.store.list())
        self.nested.update(listing.nested)
        return listing.objects

    def partitions(self) -> tuple[str, ...]:
        """The table's partitions, sorted, by a listing of the whole table."""
        return find_partitions(path for path, _ in self._list_data())

    def list_files(
        self, partitions: Iterable[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """Names and sizes in bytes of all files, by partition.

        Without `partitions`: of everything that has partition metadata, in one recursive
        listing. Given `partitions` are listed whether they have any or not.
        """
        wanted = None if partitions is None else sorted(set(partitions))
        if wanted is not None and len(wanted) <= _PARTITION_LISTINGS_MAX:
            return {partition: self._list_partition(partition) for partition in wanted}
        files = list(self._list_data())
        if wanted is None:
            wanted = list(find_partitions(path for path, _ in files))
        found: dict[str, list[tuple[str, int]]] = {partition: [] for partition in wanted}
        for path, size_bytes in files:
            partition, name = split_path(path)
            if partition in found:
                found[partition].append((name, size_bytes))
        return {partition: tuple(names) for partition, names in found.items()}

    def list_base_files(self) -> tuple[BaseFile, ...]:
        """Every base file in the folder: uncommitted ones too, with partition metadata or not."""
        return tuple(item for item in self._list_data_files() if isinstance(item, BaseFile))

    def list_log_files(self) -> tuple[LogFile, ...]:
        """Every log file in the table's folder, likewise."""
        return tuple(item for item in self._list_data_files() if isinstance(item, LogFile))

    def file_system_view(
        self, timeline: ActiveTimeline, partitions: Iterable[str] | None = None
    ) -> FileSystemView:
        """The files that make up the table as `timeline` shows it.

        Raises CorruptTableError for a plan or a replacecommit that cannot be read.
        """
        return replace(
            self.read_view(timeline, partitions),
            pending_clustering=self.planned_groups(
                timeline, Action.REPLACECOMMIT, Action.CLUSTERING
            ),
        )

    def read_view(
        self, timeline: ActiveTimeline, partitions: Iterable[str] | None = None
    ) -> FileSystemView:
        """The same for readers, without the file groups that pending clusterings hold.

        A clustering changes no row before it completes, so a broken plan of one stops no reader.
        Raises CorruptTableError for what readers need: plans of compactions and replacecommits.
        """
        wanted = None if partitions is None else tuple(partitions)
        listing = self._listed_in_metadata_table(wanted)
        return self.view_of(self.list_files(wanted) if listing is None else listing, timeline)

    def view_of(self, listing: Listing, timeline: ActiveTimeline) -> FileSystemView:
        """The same of files that were listed already. Raises as `read_view`."""
        return FileSystemView.build(
            listing,
            timeline,
            replaced=self.replaced_groups(timeline),
            pending_compaction=self.planned_groups(timeline, Action.COMPACTION),
            slices=self.layout.slices,
            archived=self.archived_completion,
            sources=self.bootstrap_sources(),
        )

    def bootstrap_sources(self) -> Mapping[FileGroupId, SourceFile]:
        """What base files of a bootstrapped table take their columns from; read once.

        Raises CorruptTableError for an index that cannot be read.
        """
        if self._sources is None:
            is_one = self.config.bootstrap_base_path is not None
            options = self.location.options
            self._sources = read_bootstrap_index(self.store, options) if is_one else {}
        return self._sources

    def replaced_groups(self, timeline: ActiveTimeline) -> Mapping[FileGroupId, InstantTime]:
        """The file groups that completed replacecommits replaced, with the instant that did.

        Raises CorruptTableError for a replacecommit that cannot be read.
        """
        replaced: dict[FileGroupId, InstantTime] = {}
        for instant in timeline.of(Action.REPLACECOMMIT).completed():
            if instant.time not in self._replaced_by:
                metadata = self.read_commit(instant)
                self._replaced_by[instant.time] = replaced_groups(metadata)
            for group in self._replaced_by[instant.time]:
                replaced.setdefault(group, instant.time)
        return replaced

    def planned_groups(
        self, timeline: ActiveTimeline, *actions: Action
    ) -> Mapping[FileGroupId, InstantTime]:
        """The file groups named by pending plans of these actions, with the plan's instant.

        Raises CorruptTableError for a plan that cannot be read.
        """
        planned: dict[FileGroupId, InstantTime] = {}
        for instant in timeline.of(*actions).pending():
            if instant not in self._planned_by:
                path = self.timelines.path(instant.in_state(State.REQUESTED))
                # A writer may roll its instant back at any moment.
                with suppress(ObjectNotFoundError), self.timelines.naming(instant):
                    body = self.store.get(path)
                    self._planned_by[instant] = planned_groups(body, instant.action, path=path)
            for group in self._planned_by.get(instant, ()):
                planned[group] = instant.time
        return planned

    def table_schema_json(self, timeline: ActiveTimeline) -> str | None:
        """Avro JSON of the table's schema: the newest commit's, else that of its creation.

        Where no active commit has one, archived ones are asked before the creation. None when
        nothing has one. Source: Hudi's TableSchemaResolver.
        """
        for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
            if schema := self.commit_note(instant).schema_json:
                return schema
        archived = self.archived().newest_schema() if timeline.has_archive else None
        return archived or self.config.create_schema

    def table_schema(self, timeline: ActiveTimeline) -> pa.Schema | None:
        """The table's columns without meta columns, None for a table that has no schema yet.

        Where commits carry no schema, or an archive that cannot be read does, it is that of a base
        file's footer. Partition columns that files do not store come last, as nullable strings.
        """
        # Arrow is an optional dependency that only this method needs.
        from tideline.hudi.table import schema_resolver

        try:
            schema_json = self.table_schema_json(timeline)
        except UNREADABLE as error:
            if not str(error.path).startswith(f"{self.archived().directory}/"):
                raise
            schema_json = None
        if schema_json is not None:
            return schema_resolver.read_schema_json(schema_json, self.config)
        paths = self._base_file_paths(timeline)
        return schema_resolver.read_footer_schema(self.store, paths, self.config)

    def archived_completion(self, time: InstantTime) -> InstantTime | None:
        """When an archived commit completed; each file of the archive is asked once."""
        if time not in self._completed:
            self._completed.update(self.archived().completions_around(time))
        return self._completed.setdefault(time, None)

    def _base_file_paths(self, timeline: ActiveTimeline) -> Iterator[str]:
        """Base files that commits wrote, newest commit first."""
        for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
            for stat in self.read_commit(instant).write_stats:
                if stat.path and BaseFile.parse(*split_path(stat.path)) is not None:
                    yield stat.path

    def _listed_in_metadata_table(self, partitions: Iterable[str] | None) -> Listing | None:
        """The files of all that is committed, where a metadata table is kept.

        The properties are read again: a process that switches it off does so before a commit that
        it lacks.
        """
        if not self.config.keeps_metadata_table:
            return None
        if not self.reload_config().keeps_metadata_table:
            return None
        return self._committed_files(partitions)

    def _list_partition(self, partition: str) -> tuple[tuple[str, int], ...]:
        listing = self.store.list_directory(partition)
        if partition and f"{partition}/{METADATA_DIRECTORY}" in listing.directories:
            self.nested[partition] = HUDI
        if root_around(partition, self.nested) is not None:
            return ()
        return tuple((split_path(info.path)[1], info.size_bytes) for info in listing.objects)

    def _list_data(self) -> Iterator[tuple[str, int]]:
        for info in self.list_objects():
            if not is_table_metadata(info.path):
                yield info.path, info.size_bytes

    def _list_data_files(self) -> Iterator[BaseFile | LogFile]:
        for path, size_bytes in self._list_data():
            data_file = parse_data_file(*split_path(path), size_bytes)
            if data_file is not None:
                yield data_file


def _let_go(paths: Collection[str]) -> None:
    """Nobody above keeps track of files."""
