"""The files of an Iceberg table's newest snapshot, counted, and what rewrites would do to them.

Reads metadata only, without Java or Arrow, and plans as rewrites do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.filter import ALL_ROWS
from tideline.iceberg.commit.changed_partitions import changed_lately
from tideline.iceberg.commit.file_identity import ChangedPartitions
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestFile
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.due_facts import IcebergFiles, RewriteOutlook
from tideline.iceberg.services.rewrite_data_files import options as rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.arguments import RewriteArguments
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan, plan_rewrite
from tideline.iceberg.services.rewrite_manifests import plan as rewrite_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions, plan_manifests
from tideline.iceberg.services.rewrite_position_deletes import plan as rewrite_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.services.rewrite_position_deletes.search import search_position_deletes
from tideline.iceberg.table.file_io import FileIO
from tideline.services.benefit import Benefit

_REASONS_MAX = 3


def count_snapshot_files(
    io: FileIO,
    metadata: TableMetadata,
    data_files: Mapping[str, str],
    position_deletes: Mapping[str, str],
    *,
    now_ms: int,
) -> IcebergFiles:
    """The files of the newest snapshot, and what rewrites with these settings would do to them.

    Raises CorruptTableError and StorageUnavailableError.
    """
    snapshot = metadata.ref_snapshot()
    manifests = [file for file in snapshot_manifests(io, snapshot) if file.may_have_live_files]
    problems: dict[str, ConfigError | UnsupportedTableError] = {}
    outlooks = {rewrite_manifests.NAME: _manifest_outlook(manifests, metadata)}
    arguments: RewriteArguments | None = None
    try:
        arguments = RewriteArguments.of(data_files, metadata)
        tasks = plan_files(io, metadata, snapshot, arguments.where)
    except ConfigError as error:
        problems[rewrite_data_files.NAME] = error
        tasks = plan_files(io, metadata, snapshot)
    census = _Census(0 if arguments is None else arguments.options.size_bytes_min)
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
        outlooks[rewrite_data_files.NAME] = _outlook(plan)
        left = tuple(skipped.words for skipped in plan.skipped if skipped.reason.is_by_name)
    deletes = rewrite_position_deletes.NAME
    try:
        options = delete_rewrite_options(position_deletes, metadata.properties)
        outlooks[deletes] = _delete_outlook(io, metadata, manifests, options, now_ms)
    except (ConfigError, UnsupportedTableError) as error:
        problems[deletes] = error
    return IcebergFiles(
        files=census.files,
        size_bytes=census.size_bytes,
        small_files=census.small_files,
        files_with_deletes=census.files_with_deletes,
        delete_files=_count(manifests, ManifestContent.DELETES),
        manifests=len(manifests),
        is_filtered=arguments is not None and arguments.where != ALL_ROWS,
        outlooks={name: found for name, found in outlooks.items() if found is not None},
        problems=problems,
        left=left,
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
        reasons=tuple(reason for reason, _ in reasons.most_common(_REASONS_MAX)),
        benefit=plan.benefit,
    )


def _delete_outlook(
    io: FileIO,
    metadata: TableMetadata,
    manifests: list[ManifestFile],
    options: RewriteOptions,
    now_ms: int,
) -> RewriteOutlook | None:
    """What a rewrite of position deletes would do. Raises UnsupportedTableError."""
    if all(manifest.content is ManifestContent.DATA for manifest in manifests):
        return None
    plan = search_position_deletes(io, metadata, options, now_ms=now_ms).plan
    if plan.is_empty:
        return None
    entries = [*plan.dangling, *(entry for group in plan.groups for entry in group.entries)]
    dangling = (f"{len(plan.dangling):,} apply to nothing",) if plan.dangling else ()
    files_after = sum(options.outputs_expected(group.input_bytes) for group in plan.groups)
    fewer = len(entries) - files_after
    return RewriteOutlook(
        files_before=len(entries),
        files_after=files_after,
        bytes_before=sum(entry.data_file.file_size_bytes for entry in entries),
        reasons=dangling,
        benefit=Benefit(files_opened=fewer, delta_files=fewer),
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
        benefit=Benefit(files_opened=files_before - files_after),
    )


def _count(manifests: list[ManifestFile], content: ManifestContent) -> int:
    """Live files of the manifests of one kind, as far as their list says."""
    return sum(
        (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        for manifest in manifests
        if manifest.content is content
    )
