"""Looking at an Iceberg table: its newest metadata, and what its newest snapshot consists of.

Reads only, without Java or Arrow. While the newest metadata file is the known one, a look costs a
few requests for its number; a new one is read together with the manifests of the newest snapshot,
which are planned as a rewrite would plan them. Where that takes long it is done rarely enough to
stay a small part of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.filter import ALL_ROWS
from tideline.iceberg.commit.changed_partitions import changed_lately
from tideline.iceberg.commit.file_identity import ChangedPartitions
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestFile
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.service import IcebergService
from tideline.iceberg.services.arguments import RewriteArguments, rewrite_arguments
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan, plan_rewrite
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions, plan_manifests
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.services.rewrite_position_deletes.search import search_position_deletes
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import Loaded
from tideline.read_limits import reads_large_objects
from tideline.saving import Saving
from tideline_operator.decide.iceberg_settings import ServiceSettings, iceberg_settings
from tideline_operator.decide.observed_iceberg import IcebergFiles, ObservedIceberg, RewriteOutlook
from tideline_operator.observe.iceberg_source import IcebergSource
from tideline_operator.resources.lake_table import LakeTableSpec

COUNTING_FREE_MS = 2_000
"""Counting that takes at most this long is done after every change."""
_COUNTING_SHARE = 20
_REASONS_MAX = 3


@dataclass(frozen=True, slots=True)
class _Settings:
    """How rewrites would run."""

    data_files: ServiceSettings
    deletes: ServiceSettings


@dataclass(slots=True)
class IcebergMemory:
    """What is remembered of one table between two looks; all of it may be lost."""

    table_uuid: str | None = None
    loaded: Loaded | None = None
    counted: tuple[str, _Settings] | None = None
    files: IcebergFiles | None = None
    count_again_ms: int = 0

    def forget_other(self, table_uuid: str) -> None:
        """Nothing of another table that was in the same place before."""
        if table_uuid != self.table_uuid:
            self.table_uuid = table_uuid
            self.loaded = self.counted = self.files = None
            self.count_again_ms = 0


def observe_iceberg(
    source: IcebergSource, spec: LakeTableSpec, memory: IcebergMemory, clock: Clock
) -> ObservedIceberg:
    """Look at the table. Raises ObjectNotFoundError when there is none, and the errors of
    loading."""
    loaded = source.load(memory.loaded)
    memory.forget_other(loaded.metadata.table_uuid)
    if loaded is not memory.loaded:
        # The document as it was read is as large as the rest together.
        loaded = replace(loaded, metadata=replace(loaded.metadata, document={}))
        # Large metadata is read again each time: between two looks no table may hold much memory.
        memory.loaded = None if reads_large_objects() else loaded
    settings = _Settings(
        iceberg_settings(spec, IcebergService.REWRITE_DATA_FILES),
        iceberg_settings(spec, IcebergService.REWRITE_POSITION_DELETES),
    )
    key = (loaded.metadata_location, settings)
    started_ms = clock.now_ms()
    seen = ObservedIceberg(loaded.metadata, loaded.metadata_location)
    files = memory.files if memory.counted == key else None
    if files is not None and not files.is_quiet_at(started_ms):
        return replace(seen, files=files)
    if started_ms < memory.count_again_ms and files is not None:
        # It still holds, but for partitions that have become quiet.
        return replace(seen, files=replace(files, quiet_at_ms=memory.count_again_ms))
    if started_ms < memory.count_again_ms:
        return replace(seen, count_at_ms=memory.count_again_ms)
    memory.files = count_snapshot_files(source.io, loaded.metadata, settings, now_ms=started_ms)
    memory.counted = key
    took_ms = clock.now_ms() - started_ms
    pause_ms = _COUNTING_SHARE * took_ms if took_ms > COUNTING_FREE_MS else 0
    memory.count_again_ms = started_ms + took_ms + pause_ms
    return replace(seen, files=memory.files)


def count_snapshot_files(
    io: FileIO, metadata: TableMetadata, settings: _Settings, *, now_ms: int
) -> IcebergFiles:
    """The files of the newest snapshot, and what rewrites would do to them.

    Raises CorruptTableError and StorageUnavailableError.
    """
    snapshot = metadata.ref_snapshot()
    manifests = [one for one in snapshot_manifests(io, snapshot) if one.may_have_live_files]
    problem: ConfigError | None = None
    arguments: RewriteArguments | None = None
    try:
        arguments = rewrite_arguments(
            settings.data_files.arguments,
            settings.data_files.options,
            properties=metadata.properties,
        )
        tasks = plan_files(io, metadata, snapshot, arguments.where)
    except ConfigError as error:
        problem, tasks = error, plan_files(io, metadata, snapshot)
    census = _Census(0 if arguments is None else arguments.options.size_bytes_min)
    rewrite: RewriteOutlook | None = None
    left: tuple[str, ...] = ()
    changed: ChangedPartitions = {}
    quiet_ms = 0
    if arguments is None:
        census.count_all(tasks)
    else:
        quiet_ms = arguments.options.quiet_for_ms
        changed = changed_lately(io, metadata, snapshot, quiet_ms, now_ms=now_ms)
        plan = plan_rewrite(
            census.counting(tasks),
            metadata,
            arguments.options,
            starting_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
            changed=changed,
        )
        rewrite = _outlook(plan)
        left = tuple(one.words for one in plan.skipped if one.reason.is_by_name)
    return IcebergFiles(
        files=census.files,
        size_bytes=census.size_bytes,
        small_files=census.small_files,
        files_with_deletes=census.files_with_deletes,
        delete_files=_count(manifests, ManifestContent.DELETES),
        manifests=len(manifests),
        is_filtered=arguments is not None and arguments.where != ALL_ROWS,
        rewrite=rewrite,
        left=left,
        deletes=_delete_outlook(io, metadata, manifests, settings.deletes, now_ms),
        manifest_rewrite=_manifest_outlook(manifests, metadata),
        problem=problem,
        quiet_at_ms=min(changed.values()) + quiet_ms if changed else None,
    )


@dataclass(slots=True)
class _Census:
    """Counts files while they are iterated over."""

    size_bytes_min: int
    files: int = 0
    size_bytes: int = 0
    small_files: int = 0
    files_with_deletes: int = 0

    def counting(self, tasks: Iterator[FileScanTask]) -> Iterator[FileScanTask]:
        for task in tasks:
            size_bytes = task.data_file.file_size_bytes
            self.files += 1
            self.size_bytes += size_bytes
            self.small_files += size_bytes < self.size_bytes_min
            self.files_with_deletes += bool(task.deletes)
            yield task

    def count_all(self, tasks: Iterator[FileScanTask]) -> None:
        for _ in self.counting(tasks):
            pass


def _outlook(plan: RewritePlan) -> RewriteOutlook | None:
    if not plan.groups:
        return None
    reasons = Counter(group.reason.value for group in plan.groups)
    return RewriteOutlook(
        files_before=plan.files_before,
        files_after=plan.files_after,
        bytes_before=plan.bytes_before,
        groups=len(plan.groups),
        reasons=tuple(reason for reason, _ in reasons.most_common(_REASONS_MAX)),
        saving=plan.saving,
    )


def _delete_outlook(
    io: FileIO,
    metadata: TableMetadata,
    manifests: list[ManifestFile],
    settings: ServiceSettings,
    now_ms: int,
) -> RewriteOutlook | ConfigError | UnsupportedTableError | None:
    """What a rewrite of position deletes would do, or why there can be none."""
    try:
        options = delete_rewrite_options(settings.options, metadata.properties)
        if all(one.content is ManifestContent.DATA for one in manifests):
            return None
        plan = search_position_deletes(io, metadata, options, now_ms=now_ms).plan
    except (ConfigError, UnsupportedTableError) as error:
        return error
    if plan.is_empty:
        return None
    entries = [*plan.dangling, *(one for group in plan.groups for one in group.entries)]
    dangling = (f"{len(plan.dangling):,} apply to nothing",) if plan.dangling else ()
    files_after = sum(options.outputs_expected(group.input_bytes) for group in plan.groups)
    fewer = len(entries) - files_after
    return RewriteOutlook(
        files_before=len(entries),
        files_after=files_after,
        bytes_before=sum(one.data_file.file_size_bytes for one in entries),
        groups=len(plan.groups),
        reasons=dangling,
        saving=Saving(files_opened=fewer, delta_files=fewer),
    )


def _manifest_outlook(
    manifests: list[ManifestFile], metadata: TableMetadata
) -> RewriteOutlook | None:
    groups = plan_manifests(manifests, metadata, ManifestOptions())
    if not groups:
        return None
    files_before = sum(len(group.manifests) for group in groups)
    files_after = sum(group.outputs for group in groups)
    return RewriteOutlook(
        files_before=files_before,
        files_after=files_after,
        bytes_before=sum(group.size_bytes for group in groups),
        groups=len(groups),
        saving=Saving(files_opened=files_before - files_after),
    )


def _count(manifests: list[ManifestFile], content: ManifestContent) -> int:
    """Live files of the manifests of one kind, as far as their list says."""
    return sum(
        (one.added_files_count or 0) + (one.existing_files_count or 0)
        for one in manifests
        if one.content is content
    )
