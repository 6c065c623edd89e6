"""Bringing a table's Iceberg publication up to its newest completed commit.

1. The publication is read first and the timeline after it: what is published next is never older
   than what is published now, and never ahead of what has completed.
2. Commits that completed since name the partitions in which files have changed; only these are
   listed, here and in the manifests. Everything is compared where that is not known: the first
   time, after a restore, and when another writer has changed the publication.
3. Footers of new files are read, and one Iceberg commit exchanges the files, with the schema and
   the list of published instants. It is void when another process published meanwhile; then all of
   it is done again.

Died before the commit: the next publication does all of it. Died after it: the next finds nothing
to do. Manifests of a commit that was not made are left, as with any writer of Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.errors import ConflictError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.table.stored_names import names_in_file
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.iceberg.commit.exchange_files import ExchangeFiles, commit_exchange
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.data.name_mapping import MappedField, parse_name_mapping
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent, ManifestFile
from tideline.iceberg.manifest.manifest_reading import entries_of, in_parallel, manifests_of
from tideline.iceberg.metadata.field_type import FieldType, walk
from tideline.iceberg.metadata.metadata_update import (
    AddSchema,
    MetadataUpdate,
    SetCurrentSchema,
    SetProperties,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.retry import RetryPolicy
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Loaded,
    Unknown,
    unknown_error,
)
from tideline.publication.columns import Ids, mapping_json, published_schema
from tideline.publication.data_file import DataFiles, read_footers
from tideline.publication.difference import Progress, chosen, plan_files, remembered
from tideline.publication.expiry import drop_snapshots, outgrown, undone_snapshots
from tideline.publication.partitions import UNPARTITIONED, PublishedPartitions
from tideline.publication.place import CatalogPlace
from tideline.publication.published_table import (
    INSTANT,
    INSTANTS,
    NAME_MAPPING,
    PUBLICATION,
    SNAPSHOT,
    PublishedTable,
    remember_place,
)

_REARRANGING = frozenset({"CLUSTER"})


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication did. `instant` is the newest Hudi commit that is published, None for a
    table without any; `snapshot_id` the snapshot that this made, None when no file has changed."""

    instant: str | None
    snapshot_id: int | None = None
    files_added: int = 0
    files_removed: int = 0
    snapshots_expired: int = 0

    @property
    def is_new(self) -> bool:
        return self.snapshot_id is not None

    def to_json_object(self) -> dict[str, object]:
        """The outcome for machines."""
        return {
            "instant": self.instant,
            "snapshot_id": self.snapshot_id,
            "files_added": self.files_added,
            "files_removed": self.files_removed,
            "snapshots_expired": self.snapshots_expired,
        }


def preview_publication(table: HoodieTable, to: CatalogPlace | None = None) -> Published:
    """What `publish_table` would publish, without doing it. Raises as it does."""
    refuse_unpublishable(table)
    place = PublishedTable(table, to)
    base = place.load()
    timeline = table.timeline()
    columns = table.table_schema(timeline)
    if columns is None or not len(timeline.completed()):
        return Published(None)
    if base is None:
        base = Loaded(place.beginning(columns), "")
    return _Step(table, place, base, timeline, columns).preview()


def publish_table(table: HoodieTable, to: CatalogPlace | None = None) -> Published:
    """Publish what has completed: in the catalog `to`, which the table remembers, or else where its
    properties say, which is its own folder unless they name a catalog.

    Raises UnsupportedTableError for what cannot be published, ConfigError for a place that is not
    the publication's, ConflictError when others were always first, UnknownOutcomeError,
    CorruptTableError and StorageUnavailableError.
    """
    refuse_unpublishable(table)
    if to is not None:
        remember_place(table, to)
    place = PublishedTable(table)
    for _ in RetryPolicy().attempts(table.clock):
        base = place.load()
        timeline = table.timeline()
        columns = table.table_schema(timeline)
        if columns is None or not len(timeline.completed()):
            return Published(None)
        if base is None:
            place.create(columns)
            continue
        step = _Step(table, place, base, timeline, columns)
        outcome = step.take()
        if isinstance(outcome, Published):
            return outcome
    raise ConflictError("other processes were always first to publish", table=table.uri)


def refuse_unpublishable(table: HoodieTable) -> None:
    """Raise UnsupportedTableError for a table that Iceberg could not read rightly."""
    config = table.config
    if config.base_file_format != "PARQUET" or config.bootstrap_base_path is not None:
        message = "only tables of plain Parquet files can be published as Iceberg"
        raise UnsupportedTableError(message, table=table.uri)


class _Step:
    """One attempt on one state of publication and table."""

    def __init__(
        self,
        table: HoodieTable,
        place: PublishedTable,
        base: Loaded,
        timeline: ActiveTimeline,
        columns: pa.Schema,
    ) -> None:
        self.table = table
        self.place = place
        self.metadata = base.metadata
        self.base = base
        self.timeline = timeline
        self.columns = columns
        self.mapping = parse_name_mapping(self.metadata.name_mapping() or ())
        self.ids = Ids(self.mapping, self.metadata.last_column_id)

    def preview(self) -> Published:
        """What `take` would do."""
        progress = self._progress()
        if progress.is_current and self._is_ours:
            return Published(self.newest)
        exchange = self._exchange(self._partitions(progress), progress)
        added, removed = len(exchange.added_data), len(exchange.removed_data)
        return Published(self.newest, files_added=added, files_removed=removed)

    def take(self) -> Published | None:
        """None when another process was first."""
        progress = self._progress()
        instant = self.newest
        if progress.is_current and self._is_ours:
            return Published(instant, snapshots_expired=self._expire(self.metadata))
        partitions = self._partitions(progress)
        exchange = self._exchange(partitions, progress)
        if not exchange.added_data and not exchange.removed_data and not exchange.removed_deletes:
            return self._note(exchange, instant)
        outcome = commit_exchange(self.place.operations, exchange, clock=self.table.clock)
        loaded = self._settled(outcome)
        if loaded is None:
            return None
        assert isinstance(outcome, Committed)
        return Published(
            instant,
            outcome.snapshot_id,
            len(exchange.added_data),
            len(exchange.removed_data),
            self._expire(loaded.metadata),
        )

    @property
    def newest(self) -> str:
        """The newest completed commit, by requested time."""
        listed = remembered(self.timeline)
        return listed[-1] if listed else ""

    @property
    def _is_ours(self) -> bool:
        """Whether nobody else has changed the publication."""
        recorded = self.metadata.properties.get(SNAPSHOT, "")
        return recorded == str(self.metadata.current_snapshot_id or "")

    def _progress(self) -> Progress:
        listed = self.metadata.properties.get(INSTANTS, "")
        return Progress.of(frozenset(filter(None, listed.split(","))), self.timeline)

    def _partitions(self, progress: Progress) -> frozenset[str] | None:
        """The partitions in which files may have changed, None for all."""
        if not self._is_ours or progress.undone or INSTANTS not in self.metadata.properties:
            return None
        found: set[str] = set()
        for instant in progress.new:
            try:
                commit = self.table.read_commit(instant)
            except ObjectNotFoundError:
                return None
            found.update(commit.partition_to_write_stats)
            found.update(commit.partition_to_replace_file_ids or {})
        return frozenset(found)

    def _exchange(self, partitions: frozenset[str] | None, progress: Progress) -> ExchangeFiles:
        mapping, schema = self._columns()
        by_folder = PublishedPartitions.of(self.table.config, schema)
        if by_folder.specs != self.metadata.partition_specs:
            by_folder = replace(by_folder, specs=self.metadata.partition_specs, kinds=())
        wanted = {self._location(file): file for file in self._wanted(partitions)}
        listed = {file.file_path: file for file in self._listed(partitions, by_folder)}
        deletes = tuple(one for one in listed.values() if one.content is not FileContent.DATA)
        data = {path: one for path, one in listed.items() if one.content is FileContent.DATA}
        change = plan_files(wanted, data)
        footers = read_footers(self.table.store, chosen(change.added, wanted))
        for footer in footers:
            mapping = self.ids.named(footer.columns, mapping)
        files = DataFiles.of(
            self.table.store, self.metadata.location, self.columns, schema, by_folder, mapping
        )
        return ExchangeFiles(
            base_id=self.metadata.current_snapshot_id,
            added_data=tuple(map(files.entry, footers)),
            removed_data=chosen(change.removed, data),
            removed_deletes=deletes,
            updates=self._updates(schema, mapping),
            summary_extra={INSTANT: self.newest, PUBLICATION: self._kind},
            snapshot_property=SNAPSHOT,
            is_rearrangement=self._is_rearrangement(progress),
        )

    @property
    def _kind(self) -> str:
        is_merge_on_read = self.table.config.table_type is TableType.MERGE_ON_READ
        return "read-optimised" if is_merge_on_read else "snapshot"

    def _is_rearrangement(self, progress: Progress) -> bool:
        """Whether all that is published now only moved rows between files."""
        if not progress.new or progress.undone or not self._is_ours:
            return False
        notes = (self.table.commit_note(instant) for instant in progress.new)
        return all(note.operation_type in _REARRANGING for note in notes)

    def _columns(self) -> tuple[tuple[MappedField, ...], Schema]:
        """The names with their ids, and the schema to publish: the current one while it fits."""
        _refuse_renames(self.table, self.timeline)
        mapping = self.ids.named(self.columns, self.mapping)
        before = self.metadata.schema()
        fields = published_schema(self.columns, mapping, _known_types(self.metadata))
        # Catalogs list no two schemas that are the same.
        for known in (before, *self.metadata.schemas):
            if fields == known.fields:
                return mapping, known
        return mapping, Schema(max(one.schema_id for one in self.metadata.schemas) + 1, fields)

    def _updates(
        self, schema: Schema, mapping: tuple[MappedField, ...]
    ) -> tuple[MetadataUpdate, ...]:
        properties = SetProperties(
            {
                NAME_MAPPING: mapping_json(mapping),
                INSTANTS: ",".join(remembered(self.timeline)),
                INSTANT: self.newest,
            }
        )
        if schema.schema_id == self.metadata.current_schema_id:
            return (properties,)
        chosen_schema = SetCurrentSchema(schema.schema_id)
        if schema in self.metadata.schemas:
            return chosen_schema, properties
        return AddSchema(schema), chosen_schema, properties

    def _wanted(self, partitions: frozenset[str] | None) -> Iterator[BaseFile]:
        view = self.table.read_view(self.timeline, partitions)
        for partition in view.partitions:
            for file in view.latest_base_files(partition):
                if not file.is_plain:
                    message = "only Parquet files can be published as Iceberg"
                    raise UnsupportedTableError(message, table=self.table.uri, path=file.path)
                yield file

    def _listed(
        self, partitions: frozenset[str] | None, by_folder: PublishedPartitions
    ) -> Iterator[DataFile]:
        """The published files of some partitions, delete files of other writers included."""
        metadata = self.metadata
        if metadata.snapshot() is None:
            return
        io = self.place.operations.io
        manifests = manifests_of(io, metadata.snapshot())
        if partitions is not None and by_folder.kinds:
            reach = _reach(partitions, by_folder)
            manifests = tuple(one for one in manifests if reach.meets(one, metadata))
        prefix = f"{metadata.location}/"

        def listed(manifest: ManifestFile) -> list[DataFile]:
            found = entries_of(io, manifest, with_metrics=False, live_only=True)
            return [entry.data_file for entry in found]

        for files in in_parallel(listed, manifests):
            for file in files:
                folder = file.file_path.removeprefix(prefix).rpartition("/")[0]
                if partitions is None or folder in partitions:
                    yield file

    def _location(self, file: BaseFile) -> str:
        return f"{self.metadata.location}/{file.path}"

    def _note(self, exchange: ExchangeFiles, instant: str) -> Published | None:
        """No file has changed: only that the commits were seen is recorded."""
        outcome = self.place.commit(self.base, exchange.updates)
        return None if self._settled(outcome) is None else Published(instant)

    def _settled(self, outcome: CommitOutcome) -> Loaded | None:
        match outcome:
            case Committed(loaded):
                return loaded
            case Unknown() as unknown:
                raise unknown_error(unknown, table=self.table.uri, what="it was published")
        return None

    def _expire(self, metadata: TableMetadata) -> int:
        gone = {*undone_snapshots(metadata, self.timeline), *outgrown(metadata)}
        return drop_snapshots(self.place, gone)


def _reach(partitions: frozenset[str], by_folder: PublishedPartitions) -> PartitionSet:
    """Where manifests can hold files of these folders: by their values, or without any."""
    values = (by_folder.values(partition) for partition in partitions)
    spelled = tuple(one for one in values if one is not None)
    return PartitionSet({UNPARTITIONED.spec_id: ((),), by_folder.specs[-1].spec_id: spelled})


def _known_types(metadata: TableMetadata) -> dict[int, FieldType]:
    """The types of all ids that were ever published, as they were last."""
    schemas = sorted(metadata.schemas, key=lambda one: one.schema_id)
    return {field.field_id: field.type for one in schemas for _, field in walk(one.fields)}


def _refuse_renames(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise UnsupportedTableError where a file may name a column otherwise than the table does."""
    history = schema_history(table, timeline)
    if history is None:
        return
    if any(names_in_file(one, history.read_as) is not None for one in history.versions):
        message = (
            "a column was renamed, or dropped and added again, with Hudi's schema on read: older "
            "files cannot be published by name; cluster the table with Hudi into a new one"
        )
        raise UnsupportedTableError(message, table=table.uri)
