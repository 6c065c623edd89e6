"""Which position delete files to rewrite together; pure.

1. Live position delete files of a partition whose size is out of bounds are candidates: below 75%
   or above 180% of the target, unless `rewrite-all` takes them all.
2. They are packed in order into groups of bounded size, and a group stays that has enough files,
   or more content than one file should have.
3. A file about one data file that the table no longer has is removed without a rewrite.

Source: Iceberg's `BinPackRewritePositionDeletePlanner`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.bin_pack import pack
from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.manifest.manifest_entry import FileContent, ManifestEntry
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import (
    DELETE_TARGET_SIZE,
    DELETE_TARGET_SIZE_BYTES,
    TARGET_SIZE,
)
from tideline.iceberg.scan.delete_index import DELETE_PATH_FIELD_ID, referenced_data_file
from tideline.iceberg.services.rewrite_data_files.left_files import NAMED_MAX
from tideline.iceberg.services.rewrite_data_files.options import (
    QUIET_FOR,
    RewriteOptions,
)

NAME = "rewrite_position_deletes"
_POSITION_FIELD_ID = 2147483545
_NAMED_IN_WORDS = 3
_OPTIONS = frozenset(
    {
        "target-file-size-bytes",
        "min-file-size-bytes",
        "max-file-size-bytes",
        "min-input-files",
        "rewrite-all",
        "max-file-group-size-bytes",
        "max-file-group-input-files",
        "rewrite-job-order",
        "partial-progress.enabled",
        "partial-progress.max-commits",
        "max-concurrent-file-group-rewrites",
        QUIET_FOR,
    }
)

LiveData = Mapping[PartitionKey, Mapping[str, int]]
"""The live data files of partitions: sequence numbers by path."""


def delete_rewrite_options(
    options: Mapping[str, str], properties: Mapping[str, str]
) -> RewriteOptions:
    """Iceberg's options of `rewrite_position_delete_files`. Raises ConfigError."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        message = "there is no such option of a rewrite of position deletes"
        raise ConfigError(message, value=", ".join(unknown))
    target = properties.get(DELETE_TARGET_SIZE, str(DELETE_TARGET_SIZE_BYTES))
    return RewriteOptions.parse(options, properties={TARGET_SIZE: target})


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Position delete files of one partition that become as few as their content needs."""

    spec_id: int
    partition: tuple[Any, ...]
    entries: tuple[ManifestEntry, ...]

    @property
    def input_bytes(self) -> int:
        """The files' bytes."""
        return sum(entry.data_file.file_size_bytes for entry in self.entries)

    @property
    def sequence_number(self) -> int:
        """The highest of the files: that of the files that replace them."""
        return max(entry.sequence_number or 0 for entry in self.entries)


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Groups to rewrite, files about data files that are gone, and by reason how many others stay.

    `named` are the first `NAMED_MAX` of those that cannot be rewritten.
    """

    starting_snapshot_id: int | None
    groups: tuple[DeleteGroup, ...]
    dangling: tuple[ManifestEntry, ...]
    skipped: Mapping[str, int]
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.groups and not self.dangling

    @property
    def left(self) -> tuple[str, ...]:
        """Which files cannot be rewritten, and why."""
        return tuple(
            f"left {self.skipped[reason]:,} {reason}: {', '.join(paths[:_NAMED_IN_WORDS])}"
            for reason, paths in self.named.items()
        )


def plan_position_deletes(
    entries: Iterable[ManifestEntry],
    live: LiveData,
    metadata: TableMetadata,
    options: RewriteOptions,
) -> DeletePlan:
    """What to do with the live delete files `entries`, which need their metrics.

    Raises UnsupportedTableError for version 3, whose position delete files have to become deletion
    vectors.
    """
    skipped: dict[str, int] = defaultdict(int)
    named: dict[str, tuple[str, ...]] = defaultdict(tuple)
    by_partition: dict[PartitionKey, list[ManifestEntry]] = defaultdict(list)
    dangling: list[ManifestEntry] = []
    for entry in entries:
        file = entry.data_file
        if file.content is not FileContent.POSITION_DELETES or file.is_deletion_vector:
            continue
        if metadata.format_version > 2:
            message = "position delete files of a version 3 table must become deletion vectors"
            raise UnsupportedTableError(message, table=metadata.location, path=file.file_path)
        path = referenced_data_file(file)
        reason = _unreadable(entry)
        if path is not None and path not in live.get(partition_key(file), {}):
            dangling.append(entry)
        elif reason is not None:
            skipped[reason] += 1
            if len(named[reason]) < NAMED_MAX:
                named[reason] += (file.file_path,)
        else:
            by_partition[partition_key(file)].append(entry)
    groups = []
    for listed in by_partition.values():
        chosen = _groups(listed, options)
        taken = sum(map(len, chosen))
        if taken < len(listed):
            skipped["of a good size, or too few"] += len(listed) - taken
        first = listed[0].data_file
        groups += [DeleteGroup(first.spec_id, first.partition, tuple(group)) for group in chosen]
    head = metadata.snapshot()
    return DeletePlan(
        None if head is None else head.snapshot_id,
        tuple(_ordered(groups, options)),
        tuple(dangling),
        dict(skipped),
        dict(named),
    )


def _unreadable(entry: ManifestEntry) -> str | None:
    file = entry.data_file
    if file.file_format != "PARQUET":
        return f"{file.file_format} files"
    if file.key_metadata is not None:
        return "encrypted files"
    columns = (file.column_sizes or file.value_counts or {}).keys()
    if columns - {DELETE_PATH_FIELD_ID, _POSITION_FIELD_ID}:
        return "files that carry the deleted rows along"
    return None


def _groups(entries: Sequence[ManifestEntry], options: RewriteOptions) -> list[list[ManifestEntry]]:
    def size_bytes(entry: ManifestEntry) -> int:
        return entry.data_file.file_size_bytes

    wanted = [
        manifest_entry
        for manifest_entry in entries
        if options.rewrite_all
        or not options.size_bytes_min <= size_bytes(manifest_entry) <= options.size_bytes_max
    ]
    packed = pack(
        wanted, size_bytes, options.group_size_bytes_max, items_max=options.group_files_max
    )
    if options.rewrite_all:
        return packed
    return [group for group in packed if _gains(list(map(size_bytes, group)), options)]


def _gains(sizes_bytes: Sequence[int], options: RewriteOptions) -> bool:
    content = sum(sizes_bytes)
    has_several = len(sizes_bytes) > 1
    return (
        (has_several and len(sizes_bytes) >= options.input_files_min)
        or (has_several and content > options.target_size_bytes)
        or content > options.size_bytes_max
    )


def _ordered(groups: list[DeleteGroup], options: RewriteOptions) -> list[DeleteGroup]:
    what, _, direction = options.job_order.value.partition("-")
    if not direction:
        return groups
    return sorted(
        groups,
        key=lambda group: group.input_bytes if what == "bytes" else len(group.entries),
        reverse=direction == "desc",
    )
