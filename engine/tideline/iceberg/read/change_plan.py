"""Which files the snapshots of a range changed, and how.

1. The range is what came after one snapshot and led to another: ancestors of the latter. Snapshots
   that only rewrite files (`replace`) change no rows.
2. Of each, the manifests that its parent does not have, and those that only its parent has, tell
   which data files came and went.
3. Where delete files differ, every data file that stayed is looked up in both, and is read if other
   deletes apply to it.

Memory holds the files of manifests that changed and the delete files of two snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.manifest.manifest_entry import (
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.read.snapshot_choice import (
    SnapshotChoice,
    main_log,
    named_snapshot,
    time_asked,
)
from tideline.iceberg.scan.delete_index import DeleteIndex
from tideline.iceberg.scan.manifests import snapshot_manifests
from tideline.iceberg.scan.plan import live_entries, scan_task
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO

BEGINNING = 0
"""As `after`: before the first snapshot."""
_REWRITES = "replace"


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """What one snapshot did to files: `lost` and `got` are whole, of `other` other rows are deleted
    before and after it."""

    lost: tuple[FileScanTask, ...]
    got: tuple[FileScanTask, ...]
    other: Iterator[tuple[FileScanTask, FileScanTask]]


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Snapshots, oldest first, up to `until`, which is 0 for a table without any; `metadata` has
    the columns of their rows."""

    metadata: TableMetadata
    snapshots: tuple[Snapshot, ...]
    until: int

    @classmethod
    def of(cls, metadata: TableMetadata, after: Any, until: Any, *, now_ms: int) -> ChangeRange:
        """What came after `after`, up to `until`: each a name, an id or a time; 0 is before the
        first snapshot, None as `until` is now.

        A time means the newest snapshot that led to `until` and that readers of main had seen by
        then; of another branch, that was made until then. One that only rewrote files is what it
        was made of. Raises ConfigError for what is none of these or did not lead to `until`, and
        naming the earliest snapshot to begin after where others have expired.
        """
        choice = SnapshotChoice.of(metadata, until, now_ms=now_ms)
        end = choice.snapshot
        line = list(metadata.ancestors(None if end is None else end.snapshot_id))[::-1]
        at = _place(metadata, line, after, now_ms)
        if line and at == 0 and line[0].parent_snapshot_id is not None:
            message = (
                "snapshots of the range have expired: the earliest to begin after is "
                f"{line[0].snapshot_id}"
            )
            raise ConfigError(message, table=metadata.location, value=after)
        # One without a parent brought all that it lists: what it rewrote may have expired, and
        # PyIceberg then takes the parent from it.
        steps = [
            item
            for item in line[at:]
            if item.operation != _REWRITES or item.parent_snapshot_id is None
        ]
        return cls(choice.metadata, tuple(steps), 0 if end is None else end.snapshot_id)

    def parent(self, snapshot: Snapshot) -> Snapshot | None:
        """What a snapshot was made of."""
        number = snapshot.parent_snapshot_id
        return None if number is None else self.metadata.snapshot(number)


def changed_files(
    io: FileIO, metadata: TableMetadata, parent: Snapshot | None, snapshot: Snapshot
) -> ChangedFiles:
    """What a snapshot did to its parent's files. Raises CorruptTableError."""
    before = {item.path: item for item in snapshot_manifests(io, parent)}
    after = {item.path: item for item in snapshot_manifests(io, snapshot)}
    old = [item for path, item in before.items() if path not in after]
    new = [item for path, item in after.items() if path not in before]
    indexes = [_index(io, metadata, found.values()) for found in (before, after)]
    needs = any(index.needs_data_metrics for index in indexes)
    gone = _by_path(io, old, with_metrics=needs)
    come = _by_path(io, new, with_metrics=needs)
    lost = [gone[path] for path in gone if path not in come]
    got = [come[path] for path in come if path not in gone]
    changed = any(item.content is ManifestContent.DELETES for item in (*old, *new))
    stayed = [after[path] for path in after if path in before]

    def other() -> Iterator[tuple[FileScanTask, FileScanTask]]:
        if not changed:
            return
        kept = [come[path] for path in come if path in gone]
        for entry in (*kept, *_data(io, stayed, with_metrics=needs)):
            tasks = [scan_task(entry, index, metadata) for index in indexes]
            if _keys(tasks[0]) != _keys(tasks[1]):
                yield tasks[0], tasks[1]

    return ChangedFiles(
        tuple(scan_task(entry, indexes[0], metadata) for entry in lost),
        tuple(scan_task(entry, indexes[1], metadata) for entry in got),
        other(),
    )


def _place(metadata: TableMetadata, line: list[Snapshot], after: Any, now_ms: int) -> int:
    """Where in a line of snapshots those begin that come after `after`."""
    if not isinstance(after, bool) and str(after).strip("0") == "" and str(after):
        return 0
    places = {item.snapshot_id: number for number, item in enumerate(line)}
    moment_ms = time_asked(metadata, after)
    if moment_ms is not None:
        return _place_at(metadata, line, places, moment_ms)
    begin = named_snapshot(metadata, after, now_ms=now_ms).snapshot_id
    found = _behind(metadata, places, begin)
    if found is not None:
        return found
    raise ConfigError(
        "the snapshot to begin after did not lead to the one where the range ends: it was rolled "
        "back, or is another branch's",
        table=metadata.location,
        value=after,
    )


def _place_at(
    metadata: TableMetadata, line: list[Snapshot], places: Mapping[int, int], moment_ms: int
) -> int:
    main = metadata.ref_snapshot()
    of_main = metadata.ancestors(None if main is None else main.snapshot_id)
    if line and line[-1] in of_main:
        # A branch that became main later brought snapshots that nobody had seen.
        seen = [entry for entry in main_log(metadata) if entry.timestamp_ms <= moment_ms]
        for entry in reversed(seen):
            found = _behind(metadata, places, entry.snapshot_id)
            if found is not None:
                return found
        if seen:
            return 0
    return sum(1 for item in line if item.timestamp_ms <= moment_ms)


def _behind(metadata: TableMetadata, places: Mapping[int, int], begin: int) -> int | None:
    """Where those begin that come after a snapshot, or after one that had the same rows."""
    for snapshot in metadata.ancestors(begin):
        if snapshot.snapshot_id in places:
            return places[snapshot.snapshot_id] + 1
        if snapshot.operation != _REWRITES:
            return None
    return None


def _index(io: FileIO, metadata: TableMetadata, manifests: Any) -> DeleteIndex:
    listed = [item for item in manifests if item.content is ManifestContent.DELETES]
    return DeleteIndex(live_entries(io, listed, with_metrics=True), metadata)


def _data(
    io: FileIO, manifests: list[ManifestFile], *, with_metrics: bool
) -> Iterator[ManifestEntry]:
    listed = [
        item
        for item in manifests
        if item.content is ManifestContent.DATA and item.may_have_live_files
    ]
    return live_entries(io, listed, with_metrics=with_metrics)


def _by_path(
    io: FileIO, manifests: list[ManifestFile], *, with_metrics: bool
) -> Mapping[str, ManifestEntry]:
    entries = _data(io, manifests, with_metrics=with_metrics)
    return {entry.data_file.file_path: entry for entry in entries}


def _keys(task: FileScanTask) -> set[tuple[str, int | None]]:
    return {(file.file_path, file.content_offset) for file in task.deletes}
