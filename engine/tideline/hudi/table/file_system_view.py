"""The file-system view: which files of a listing make up the table, as a timeline shows it.

A pure value. Built in these steps, for each partition:

1. Names are parsed; what is neither base nor log file (partition metadata, checksum sidecars,
   `_SUCCESS`, other dot files) is left out.
2. Files are grouped by file id into slices by instant; in timeline layout 1 a log file belongs to
   the slice whose base instant its name carries.
3. Logs of changes (CDC) lie beside the base file of their instant, and are no logs to merge.
4. A slice counts when its base instant is committed. A slice begun by a pending compaction has
   only log files so far: they go on top of the slice before it.
5. File groups that a completed replacecommit replaced are set apart.

Source: Hudi's AbstractTableFileSystemView, HoodieFileGroup (timeline layout 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tideline.hudi.table.file_group import BaseFile, FileGroup, FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime

Listing = Mapping[str, Iterable[tuple[str, int]]]
"""Per partition the names and sizes in bytes of its files."""


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
    ) -> FileSystemView:
        """The view of a listing. A partition without files of the table is still a partition."""
        compacting = dict(pending_compaction or {})
        return cls(
            {
                partition: _file_groups(partition, listing[partition], timeline, compacting)
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
            slices = tuple(
                piece for piece in group.slices if as_of is None or piece.base_instant <= as_of
            )
            if slices:
                yield FileGroup(group.id, slices)


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
    timeline: ActiveTimeline,
    compacting: Mapping[FileGroupId, InstantTime],
) -> tuple[FileGroup, ...]:
    by_group: dict[str, list[BaseFile | LogFile]] = {}
    for name, size_bytes in files:
        data_file = parse_data_file(partition, name, size_bytes)
        if data_file is not None:
            by_group.setdefault(data_file.file_id, []).append(data_file)
    groups = (
        FileGroup(group, _slices(group, by_group[group.file_id], timeline, compacting.get(group)))
        for group in (FileGroupId(partition, file_id) for file_id in sorted(by_group))
    )
    return tuple(group for group in groups if group.slices)


def _slices(
    group: FileGroupId,
    files: Iterable[BaseFile | LogFile],
    timeline: ActiveTimeline,
    compaction: InstantTime | None,
) -> tuple[FileSlice, ...]:
    bases: dict[InstantTime, BaseFile] = {}
    logs: dict[InstantTime, list[LogFile]] = {}
    changes: dict[InstantTime, list[LogFile]] = {}
    for item in files:
        if isinstance(item, LogFile) and item.is_cdc:
            changes.setdefault(item.instant, []).append(item)
        elif isinstance(item, LogFile):
            logs.setdefault(item.instant, []).append(item)
        elif item.instant not in bases or bases[item.instant].name < item.name:
            bases[item.instant] = item
    slices = []
    for instant in sorted({*bases, *logs}, reverse=True):
        is_committed = timeline.is_committed(instant)
        if not is_committed and instant != compaction:
            continue
        slices.append(
            FileSlice(
                group,
                instant,
                bases.get(instant) if is_committed else None,
                tuple(sorted(logs.get(instant, ()), key=_log_order)),
                tuple(sorted(changes.get(instant, ()), key=_log_order)),
            )
        )
    # A pending compaction that nothing was appended after leaves no slice of its own.
    return tuple(piece for piece in slices if piece.base_file or piece.log_files)


def _merge_pending(group: FileGroup, compaction: InstantTime | None) -> FileSlice:
    newest = group.slices[0]
    if compaction is None or newest.base_instant != compaction or len(group.slices) == 1:
        return newest
    before = group.slices[1]
    return FileSlice(
        group.id,
        before.base_instant,
        before.base_file,
        before.log_files + newest.log_files,
        before.cdc_files,
    )


def _log_order(log: LogFile) -> tuple[int, tuple[int, ...]]:
    token = tuple(int(part) for part in log.write_token.split("-")) if log.write_token else ()
    return log.version, token
