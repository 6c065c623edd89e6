"""The file-system view: which files of a listing make up the table, as a timeline shows it.

A pure value. Built in these steps, for each partition:

1. Names are parsed; what is neither base nor log file (partition metadata, checksum sidecars,
   `_SUCCESS`, other dot files) is left out.
2. Files are grouped by file id, and the table's layout makes slices of each group.
3. A slice begun by a pending compaction has only log files so far: they go on top of the slice
   before it.
4. File groups that a completed replacecommit replaced are set apart.

Source: Hudi's AbstractTableFileSystemView.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tideline.hudi.table.file_group import (
    BaseFile,
    FileGroup,
    FileGroupId,
    FileSlice,
    LogFile,
    SourceFile,
)
from tideline.hudi.table.layout.table_layout import (
    CompletionTimes,
    SliceRule,
    Slicing,
    log_order,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime

Listing = Mapping[str, Iterable[tuple[str, int]]]
"""Per partition the names and sizes in bytes of its files."""
Sources = Mapping[FileGroupId, SourceFile]
"""What skeletons take their columns from."""


@dataclass(frozen=True, slots=True)
class FileSystemView:
    """The committed file groups of some or all partitions.

    `replaced` maps a file group to the replacecommit that replaced it; `pending_compaction` and
    `pending_clustering` map one to the pending instant whose plan names it. With `as_of` every
    method answers as of the end of that instant.
    """

    groups: Mapping[str, tuple[FileGroup, ...]]
    replaced: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    pending_compaction: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    pending_clustering: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        listing: Listing,
        timeline: ActiveTimeline,
        *,
        replaced: Mapping[FileGroupId, InstantTime] | None = None,
        pending_compaction: Mapping[FileGroupId, InstantTime] | None = None,
        pending_clustering: Mapping[FileGroupId, InstantTime] | None = None,
        slices: SliceRule,
        archived: CompletionTimes = lambda _: None,
        sources: Sources | None = None,
    ) -> FileSystemView:
        """The view of a listing. A partition without files of the table is still a partition.

        `slices` is the rule of the table's layout; `archived` is what it may ask. `sources` are
        those of a bootstrapped table.
        """
        compacting = dict(pending_compaction or {})
        slicing = slices(timeline, archived)
        return cls(
            {
                partition: _file_groups(
                    partition, listing[partition], slicing, compacting, sources or {}
                )
                for partition in sorted(listing)
            },
            dict(replaced or {}),
            compacting,
            dict(pending_clustering or {}),
        )

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(self.groups)

    def all_file_groups(self, partition: str) -> tuple[FileGroup, ...]:
        """Every committed file group by file id, replaced ones included."""
        return self.groups.get(partition, ())

    def file_groups(
        self, partition: str, as_of: InstantTime | None = None
    ) -> tuple[FileGroup, ...]:
        """The file groups that are part of the table, with the slices that existed by then."""
        return tuple(self._live_groups(partition, as_of))

    def latest_slices(
        self, partition: str, as_of: InstantTime | None = None
    ) -> tuple[FileSlice, ...]:
        """The newest slice of every file group, with all its log files.

        The blocks within the log files have instants of their own for the reader to check.
        """
        return tuple(
            _merge_pending(group, self.pending_compaction.get(group.id))
            for group in self._live_groups(partition, as_of)
        )

    def all_latest_slices(self) -> tuple[FileSlice, ...]:
        """The same of every partition."""
        return tuple(
            latest_slice
            for partition in self.partitions
            for latest_slice in self.latest_slices(partition)
        )

    def latest_base_files(
        self, partition: str, as_of: InstantTime | None = None
    ) -> tuple[BaseFile, ...]:
        """The newest base file of every file group that has one."""
        return tuple(
            group.base_files[0] for group in self._live_groups(partition, as_of) if group.base_files
        )

    def small_files(self, partition: str, size_bytes_max: int) -> tuple[BaseFile, ...]:
        """Latest base files smaller than `size_bytes_max` that inserts may go to.

        Never one of a file group under pending compaction or clustering.
        """
        return tuple(
            base_file
            for base_file in self.latest_base_files(partition)
            if base_file.size_bytes < size_bytes_max
            and base_file.group not in self.pending_compaction
            and base_file.group not in self.pending_clustering
        )

    def _live_groups(self, partition: str, as_of: InstantTime | None) -> Iterator[FileGroup]:
        for group in self.all_file_groups(partition):
            replaced_at = self.replaced.get(group.id)
            if replaced_at is not None and (as_of is None or replaced_at <= as_of):
                continue
            if as_of is not None:
                group = _as_of(group, as_of)
            if group.slices:
                yield group


def parse_data_file(partition: str, name: str, size_bytes: int) -> BaseFile | LogFile | None:
    """The base or log file of this name, None for any other file.

    A checksum sidecar is none: `.<name>.crc` matches neither pattern.
    """
    if name.startswith("."):
        return LogFile.parse(partition, name, size_bytes)
    return BaseFile.parse(partition, name, size_bytes)


def _file_groups(
    partition: str,
    files: Iterable[tuple[str, int]],
    slicing: Slicing,
    compacting: Mapping[FileGroupId, InstantTime],
    sources: Sources,
) -> tuple[FileGroup, ...]:
    by_group: dict[str, list[BaseFile | LogFile]] = {}
    for name, size_bytes in files:
        data_file = parse_data_file(partition, name, size_bytes)
        if sources and isinstance(data_file, BaseFile) and data_file.is_skeleton:
            data_file = replace(data_file, source=sources.get(data_file.group))
        if data_file is not None:
            by_group.setdefault(data_file.file_id, []).append(data_file)
    groups = (
        FileGroup(group, slicing.slices(group, by_group[group.file_id], compacting.get(group)))
        for group in (FileGroupId(partition, file_id) for file_id in sorted(by_group))
    )
    return tuple(group for group in groups if group.slices)


def _as_of(group: FileGroup, as_of: InstantTime) -> FileGroup:
    """The slices that had begun by then.

    Where logs are named after their own commits, one that was requested by then may be in a later
    slice, because it completed after that began; it goes on top of what there was.
    """
    kept = [file_slice for file_slice in group.slices if file_slice.base_instant <= as_of]
    later = group.slices[: len(group.slices) - len(kept)]
    logs = [log for file_slice in later for log in file_slice.log_files if log.instant <= as_of]
    if kept and logs:
        kept[0] = _with_logs(kept[0], logs)
    return FileGroup(group.id, tuple(kept))


def _merge_pending(group: FileGroup, compaction: InstantTime | None) -> FileSlice:
    newest = group.slices[0]
    if compaction is None or newest.base_instant != compaction or len(group.slices) == 1:
        return newest
    return _with_logs(group.slices[1], newest.log_files)


def _with_logs(file_slice: FileSlice, logs: Iterable[LogFile]) -> FileSlice:
    return replace(
        file_slice, log_files=tuple(sorted((*file_slice.log_files, *logs), key=log_order))
    )
