"""One attempt to publish: what has changed since the published state, and the commit of it.

Commits that completed since name the partitions to compare; everything is compared where that is
not known: the first time, after a restore, when another writer has changed the publication, when
commits may have been archived since, and when logs are to be merged that were not, or the other way
around.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.table.stored_names import names_in_file
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.iceberg.commit.exchange_files import ExchangeFiles, commit_exchange
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.commit.replacement import AddedDelete
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
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Loaded,
    Unknown,
    unknown_error,
)
from tideline.publication.columns import Ids, mapping_json, published_schema
from tideline.publication.data_file import DataFiles, read_footers
from tideline.publication.difference import (
    Progress,
    chosen,
    plan_files,
    remembered,
)
from tideline.publication.expiry import drop_snapshots, outgrown, undone_snapshots
from tideline.publication.merged_slices import (
    MergedSlice,
    SliceMerges,
    can_be_merged,
    stem_of,
)
from tideline.publication.outcome import Published
from tideline.publication.partitions import UNPARTITIONED, PublishedPartitions
from tideline.publication.published_files import MERGED
from tideline.publication.published_table import (
    INSTANT,
    INSTANTS,
    NAME_MAPPING,
    PUBLICATION,
    SETTLED_UNTIL,
    SNAPSHOT,
    PublishedTable,
    merges_logs,
)

_REARRANGING = frozenset({"CLUSTER"})
_COMPACT = "COMPACT"
"""Moves rows between files where logs are published, else it brings new ones."""


@dataclass(frozen=True)
class Change:
    """Files that have to come and to go, and how the new ones are to be listed.

    `listed` are the entries of the data files that may stay. Files for the slices in `unmerged` are
    not written yet.
    """

    mapping: tuple[MappedField, ...]
    schema: Schema
    by_folder: PublishedPartitions
    added: tuple[BaseFile, ...]
    removed: tuple[DataFile, ...]
    removed_deletes: tuple[DataFile, ...]
    unmerged: tuple[MergedSlice, ...]
    listed: Mapping[str, DataFile]


class PublicationStep:
    """One attempt on one state of publication and table."""

    def __init__(
        self,
        table: HoodieTable,
        place: PublishedTable,
        base: Loaded,
        timeline: ActiveTimeline,
        columns: pa.Schema,
        *,
        merges: bool | None = None,
    ) -> None:
        """`merges`: whether logs are published, or as the table's properties say."""
        self._asks_for_logs = merges
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
        if progress.is_current and self._is_as_asked:
            return Published(self.newest)
        change = self._change(self._partitions(progress))
        added = len(change.added) + len(change.unmerged)
        return Published(self.newest, files_added=added, files_removed=len(change.removed))

    def take(self) -> Published | None:
        """None when another process was first."""
        progress = self._progress()
        instant = self.newest
        if progress.is_current and self._is_as_asked:
            return Published(instant, snapshots_expired=self._expire(self.metadata))
        exchange = self._exchange(self._change(self._partitions(progress)), progress)
        if exchange.is_empty:
            return self._note(exchange, instant)
        outcome = commit_exchange(self.place.operations, exchange, clock=self.table.clock)
        loaded = self._settled(outcome)
        if loaded is None:
            # Data files are Hudi's, but for these.
            added = (
                *exchange.added_data,
                *(added_delete.file for added_delete in exchange.added_deletes),
            )
            own = (
                data_file.file_path
                for data_file in added
                if stem_of(data_file.file_path) is not None
            )
            remove_quietly(self.place.operations.io, own)
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

    @property
    def _is_as_asked(self) -> bool:
        """Whether it is ours, and has logs as they are to be published."""
        snapshot = self.metadata.snapshot()
        kind = self._kind if snapshot is None else snapshot.summary.get(PUBLICATION)
        return self._is_ours and kind == self._kind

    def _progress(self) -> Progress:
        noted = self.metadata.properties
        listed = frozenset(filter(None, noted.get(INSTANTS, "").split(",")))
        return Progress.of(listed, noted.get(SETTLED_UNTIL, ""), self.timeline)

    def _partitions(self, progress: Progress) -> frozenset[str] | None:
        """The partitions in which files may have changed, None for all."""
        if not self._is_as_asked or progress.undone or not progress.is_whole:
            return None
        return self.table.commits.partitions_of(progress.new)

    def _change(self, partitions: frozenset[str] | None) -> Change:
        """What of these partitions has to come and to go."""
        mapping, schema = self._columns()
        by_folder = PublishedPartitions.of(self.table.config, schema)
        if by_folder.specs != self.metadata.partition_specs:
            by_folder = replace(by_folder, specs=self.metadata.partition_specs, kinds=())
        view = self.table.files.read_view(self.timeline, partitions)
        wanted = {self._location(file): file for file in self._wanted(view)}
        merged = {self._location(merged_slice): merged_slice for merged_slice in self._merged(view)}
        listed = {file.file_path: file for file in self._listed(partitions, by_folder)}
        is_kept = {path: stem_of(path) in merged for path in listed}
        data = {
            path: data_file
            for path, data_file in listed.items()
            if data_file.content is FileContent.DATA and not is_kept[path]
        }
        change = plan_files(wanted, data)
        known = {stem_of(path) for path in listed}
        return Change(
            mapping,
            schema,
            by_folder,
            added=chosen(change.added, wanted),
            removed=chosen(change.removed, data),
            removed_deletes=tuple(
                data_file
                for path, data_file in listed.items()
                if data_file.content is not FileContent.DATA and not is_kept[path]
            ),
            unmerged=tuple(
                merged_slice for stem, merged_slice in merged.items() if stem not in known
            ),
            listed=data,
        )

    def _exchange(self, change: Change, progress: Progress) -> ExchangeFiles:
        """The commit of a change, for which the files of merged slices are written."""
        written = [self._merges.write(merged_slice) for merged_slice in change.unmerged]
        base_footers = read_footers(self.table.store, change.added)
        footers = (*base_footers, *(candidate.rows for candidate in written if candidate.rows))
        mapping = change.mapping
        for footer in footers:
            mapping = self.ids.named(footer.columns, mapping)
        files = DataFiles.of(
            self.table.store,
            self.metadata.location,
            self.columns,
            change.schema,
            change.by_folder,
            mapping,
        )
        added = tuple(map(files.entry, footers))
        bases = {**change.listed, **{data_file.file_path: data_file for data_file in added}}
        positions = (candidate.positions for candidate in written if candidate.positions)
        location = self.metadata.location
        return ExchangeFiles(
            base_id=self.metadata.current_snapshot_id,
            added_data=added,
            removed_data=change.removed,
            removed_deletes=change.removed_deletes,
            added_deletes=tuple(
                AddedDelete(position.entry(location, bases[f"{location}/{position.base_path}"]))
                for position in positions
            ),
            updates=self._updates(change.schema, mapping),
            summary_extra={INSTANT: self.newest, PUBLICATION: self._kind},
            snapshot_property=SNAPSHOT,
            is_rearrangement=self._is_rearrangement(progress),
        )

    @property
    def _kind(self) -> str:
        is_merge_on_read = self.table.config.table_type is TableType.MERGE_ON_READ
        return "read-optimised" if is_merge_on_read and not self._merges_logs else "snapshot"

    @cached_property
    def _merges_logs(self) -> bool:
        asked = self._asks_for_logs
        if asked is None:
            asked = merges_logs(self.table.config.properties)
        return bool(asked) and can_be_merged(self.table)

    @cached_property
    def _merges(self) -> SliceMerges:
        return SliceMerges(self.table, self.timeline, self.columns, self.metadata.location)

    def _is_rearrangement(self, progress: Progress) -> bool:
        """Whether all that is published now only moved rows between files."""
        is_known = progress.is_whole and self._is_as_asked
        if not progress.new or progress.undone or not is_known:
            return False
        moving = _REARRANGING | {_COMPACT} if self._merges_logs else _REARRANGING
        notes = (self.table.commits.note(instant) for instant in progress.new)
        return all(note.operation_type in moving for note in notes)

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
        return mapping, Schema(
            max(schema.schema_id for schema in self.metadata.schemas) + 1, fields
        )

    def _updates(
        self, schema: Schema, mapping: tuple[MappedField, ...]
    ) -> tuple[MetadataUpdate, ...]:
        properties = SetProperties(
            {
                NAME_MAPPING: mapping_json(mapping),
                INSTANTS: ",".join(remembered(self.timeline)),
                SETTLED_UNTIL: self.timeline.settled_until(),
                INSTANT: self.newest,
            }
        )
        if schema.schema_id == self.metadata.current_schema_id:
            return (properties,)
        chosen_schema = SetCurrentSchema(schema.schema_id)
        if schema in self.metadata.schemas:
            return chosen_schema, properties
        return AddSchema(schema), chosen_schema, properties

    def _merged(self, view: FileSystemView) -> Iterator[MergedSlice]:
        if self._merges_logs:
            for partition in view.partitions:
                yield from self._merges.named(view.latest_slices(partition))

    def _wanted(self, view: FileSystemView) -> Iterator[BaseFile]:
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
            manifests = tuple(
                manifest_file for manifest_file in manifests if reach.meets(manifest_file, metadata)
            )
        prefix = f"{metadata.location}/"

        def listed(manifest: ManifestFile) -> list[DataFile]:
            found = entries_of(io, manifest, with_metrics=False, live_only=True)
            return [entry.data_file for entry in found]

        for files in in_parallel(listed, manifests):
            for file in files:
                path = file.file_path.removeprefix(prefix).removeprefix(f"{MERGED}/")
                folder = path.rpartition("/")[0]
                if partitions is None or folder in partitions:
                    yield file

    def _location(self, of: BaseFile | MergedSlice) -> str:
        path = of.stem if isinstance(of, MergedSlice) else of.path
        return f"{self.metadata.location}/{path}"

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
    spelled = tuple(value for value in values if value is not None)
    return PartitionSet({UNPARTITIONED.spec_id: ((),), by_folder.specs[-1].spec_id: spelled})


def _known_types(metadata: TableMetadata) -> dict[int, FieldType]:
    """The types of all ids that were ever published, as they were last."""
    schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id)
    return {field.field_id: field.type for schema in schemas for _, field in walk(schema.fields)}


def _refuse_renames(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise UnsupportedTableError where a file may name a column otherwise than the table does."""
    history = schema_history(table, timeline)
    if history is None:
        return
    if any(names_in_file(version, history.read_as) is not None for version in history.versions):
        message = (
            "a column was renamed, or dropped and added again, with Hudi's schema on read: older "
            "files cannot be published by name; cluster the table with Hudi into a new one"
        )
        raise UnsupportedTableError(message, table=table.uri)
