"""Table versions 8 and 9: timeline layout 2, logs named after their own commit, an LSM history.

A base file begins a slice at its requested time, and so does a pending compaction for the groups
that its plan names. Commits may be requested before a compaction and complete after it was planned;
it has not read their logs. So a log file belongs to the newest slice that began when its commit
completed, or before; where none had begun, the group has no base file yet and the log begins one.

1. Base files and logs of commits that did not complete are left out whole.
2. The active timeline says when a commit completed, the history for those that left it. That is
   asked only where a slice began after the commit was requested: any other began before.
3. A log whose completion nothing says goes to the newest slice, as in Hudi.
4. Log files of version 6, which an upgraded table may still have, carry the instant of their slice:
   that commit completed before any later slice began, so the same rule places them.

Version 9 differs from version 8 in properties only.
Source: Hudi's HoodieFileGroup, AbstractTableFileSystemView, CompletionTimeQueryViewV2 (1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
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
from tideline.hudi.table.layout.version_6 import ARCHIVE_FOLDER
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v2 import LayoutV2
from tideline.hudi.timeline.lsm_history import LsmHistory

TIMELINE_PATH = "hoodie.timeline.path"
HISTORY_PATH = "hoodie.timeline.history.path"
TIMELINE_FOLDER = "timeline"
HISTORY_FOLDER = "history"
_STREAMER_CHECKPOINT = "streamer.checkpoint.key.v2"


def version_8(properties: Mapping[str, str]) -> TableLayout:
    """The layout of a version 8 table. Raises as `version_9`."""
    rules = PropertyRules(_created(8), names_kinds=True, streamer_checkpoint=_STREAMER_CHECKPOINT)
    return _layout(8, properties, rules)


def version_9(properties: Mapping[str, str]) -> TableLayout:
    """The layout of a version 9 table with these properties, which name its folders.

    Raises UnsupportedTableError for a folder outside of `.hoodie`.
    """
    rules = PropertyRules(
        _created(9),
        merge_settings=True,
        ordering="hoodie.table.ordering.fields",
        names_kinds=True,
        have_payload=False,
        streamer_checkpoint=_STREAMER_CHECKPOINT,
    )
    return _layout(9, properties, rules)


def _layout(version: int, properties: Mapping[str, str], rules: PropertyRules) -> TableLayout:
    timeline = _folder(properties, TIMELINE_PATH, TIMELINE_FOLDER)
    history = f"{timeline}/{_folder(properties, HISTORY_PATH, HISTORY_FOLDER)}"
    return TableLayout(
        table_version=version,
        timeline=LayoutV2(f".hoodie/{timeline}"),
        slices=slices_by_completion,
        names=FileNames(logs_name_slice=False),
        archive=ArchiveForm(LsmHistory, history),
        rollback=RollbackForm.DELETES,
        properties=rules,
        metadata_partitions=None,
    )


def slices_by_completion(timeline: ActiveTimeline, archived: CompletionTimes) -> Slicing:
    """The slicing of versions 8 and 9."""
    completed = {
        instant.time: instant.completed_at
        for instant in timeline.of(*COMMIT_ACTIONS).completed()
        if instant.completed_at is not None
    }
    return _SlicesByCompletion(timeline, completed, archived)


@dataclass(frozen=True, slots=True)
class _SlicesByCompletion:
    timeline: ActiveTimeline
    completed: Mapping[InstantTime, InstantTime]
    archived: CompletionTimes

    def slices(
        self,
        group: FileGroupId,
        files: Iterable[BaseFile | LogFile],
        compaction: InstantTime | None,
    ) -> tuple[FileSlice, ...]:
        committed = [item for item in files if self.timeline.is_committed(item.instant)]
        bases = newest_base_files(item for item in committed if isinstance(item, BaseFile))
        starts = {*bases} if compaction is None else {*bases, compaction}
        logs: dict[InstantTime, list[LogFile]] = {}
        changes: dict[InstantTime, list[LogFile]] = {}
        appended = [item for item in committed if isinstance(item, LogFile)]
        for log in sorted(appended, key=log_order):
            start = self._start_of(log, starts)
            if not log.is_cdc:
                starts.add(start)
            (changes if log.is_cdc else logs).setdefault(start, []).append(log)
        slices = (
            FileSlice(
                group,
                start,
                bases.get(start),
                tuple(logs.get(start, ())),
                tuple(changes.get(start, ())),
            )
            for start in sorted(starts, reverse=True)
        )
        # A pending compaction that nothing was appended after leaves no slice of its own.
        return tuple(
            file_slice for file_slice in slices if file_slice.base_file or file_slice.log_files
        )

    def _start_of(self, log: LogFile, starts: Iterable[InstantTime]) -> InstantTime:
        """The base instant of the log's slice: its own where none had begun."""
        newest = max(starts, default=None)
        if newest is None:
            return log.instant
        # A commit completes after it was requested.
        if newest <= log.instant:
            return newest
        completed = self.completed.get(log.instant) or self.archived(log.instant)
        if completed is None:
            return newest
        return max((start for start in starts if start <= completed), default=log.instant)


def _created(version: int) -> dict[str, str]:
    return {
        "hoodie.table.version": str(version),
        "hoodie.table.initial.version": str(version),
        "hoodie.timeline.layout.version": "2",
        TIMELINE_PATH: TIMELINE_FOLDER,
        HISTORY_PATH: HISTORY_FOLDER,
        ARCHIVE_FOLDER: HISTORY_FOLDER,
        "hoodie.table.format": "native",
        "hoodie.table.multiple.base.file.formats.enable": "false",
    }


def _folder(properties: Mapping[str, str], key: str, default: str) -> str:
    folder = properties.get(key, "").strip().strip("/") or default
    if ".." in folder.split("/"):
        raise UnsupportedTableError(
            "a timeline outside of .hoodie is not read", path=".hoodie/hoodie.properties",
            value=f"{key}={folder}",
        )  # fmt: skip
    return folder
