"""Table version 6: timeline layout 1, logs named after their slice, archives in log files.

1. Files are grouped into slices by the instant in their names: a log file's is the base instant of
   its slice.
2. Logs of changes (CDC) lie next to the base file of their instant, and are no logs to merge.
3. A slice counts when its base instant is committed. A slice begun by a pending compaction has
   only log files so far.

Versions 3 to 5 (Hudi 0.10 to 0.13) lie on disk like version 6 and differ in what upgrades do to
properties, metadata table and plans left over. They are read.

Source: Hudi's AbstractTableFileSystemView, HoodieFileGroup (timeline layout 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.table.layout.metadata_partitions import KEPT_IN_VERSION_6
from tideline.hudi.table.layout.table_layout import (
    ArchiveForm,
    CompletionTimes,
    FileNames,
    PropertyRules,
    RollbackForm,
    Slicing,
    TableLayout,
    log_order,
    newest_base_files,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1, READ_ONLY_V1

ARCHIVE_FOLDER = "hoodie.archivelog.folder"
DEFAULT_ARCHIVE_FOLDER = "archived"
OLDEST_WRITTEN = 6
"""Tables of earlier versions are only read."""


def version_6(properties: Mapping[str, str]) -> TableLayout:
    """The layout of a table with these properties, which name the folder of its archive."""
    folder = properties.get(ARCHIVE_FOLDER, "") or DEFAULT_ARCHIVE_FOLDER
    return TableLayout(
        table_version=6,
        timeline=LAYOUT_V1,
        slices=slices_by_name,
        names=FileNames(logs_name_slice=True),
        archive=ArchiveForm(ArchivedTimeline, folder),
        rollback=RollbackForm.COMMAND_BLOCKS,
        properties=PropertyRules(
            created={
                "hoodie.table.version": "6",
                "hoodie.timeline.layout.version": "1",
                ARCHIVE_FOLDER: DEFAULT_ARCHIVE_FOLDER,
            }
        ),
        metadata_partitions=KEPT_IN_VERSION_6,
    )


def version_before_6(version: int, properties: Mapping[str, str]) -> TableLayout:
    """The layout of a table of version 3, 4 or 5."""
    return replace(
        version_6(properties),
        table_version=version,
        timeline=READ_ONLY_V1,
        properties=PropertyRules(),
        metadata_partitions=(),
    )


def slices_by_name(timeline: ActiveTimeline, _: CompletionTimes) -> Slicing:
    """The slicing of version 6; what is archived is committed and asked no further."""
    return _SlicesByName(timeline)


@dataclass(frozen=True, slots=True)
class _SlicesByName:
    timeline: ActiveTimeline

    def slices(
        self,
        group: FileGroupId,
        files: Iterable[BaseFile | LogFile],
        compaction: InstantTime | None,
    ) -> tuple[FileSlice, ...]:
        logs: dict[InstantTime, list[LogFile]] = {}
        changes: dict[InstantTime, list[LogFile]] = {}
        stored = []
        for item in files:
            if isinstance(item, BaseFile):
                stored.append(item)
            else:
                (changes if item.is_cdc else logs).setdefault(item.instant, []).append(item)
        bases = newest_base_files(stored)
        slices = []
        for instant in sorted({*bases, *logs}, reverse=True):
            is_committed = self.timeline.is_committed(instant)
            if not is_committed and instant != compaction:
                continue
            slices.append(
                FileSlice(
                    group,
                    instant,
                    bases.get(instant) if is_committed else None,
                    tuple(sorted(logs.get(instant, ()), key=log_order)),
                    tuple(sorted(changes.get(instant, ()), key=log_order)),
                )
            )
        # A pending compaction that nothing was appended after leaves no slice of its own.
        return tuple(
            file_slice for file_slice in slices if file_slice.base_file or file_slice.log_files
        )
