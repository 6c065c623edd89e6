"""Everything the checks look at, read once and in an order that a busy table does not confuse.

1. List all objects, then read the timeline: a file listed before is of an instant begun before.
2. Read the metadata of active commits and pending plans; what cannot be read is kept as such.
3. Read the archive, and keep only what concerns files that are still there.
4. Build the file-system view from the listing, leaving out what could not be read.

A writer that commits during the check can make a file seem missing; checks that report one look
again first. Memory is proportional to the table's files and its active commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import (
    CorruptTableError,
    ObjectNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.hudi.table.file_group import (
    BaseFile,
    FileGroupId,
    LogFile,
    replaced_groups,
    split_path,
)
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import find_partitions, is_table_metadata
from tideline.hudi.table.pending_plan import planned_groups
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import ArchiveFile
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.object_store import ObjectInfo


@dataclass(frozen=True, slots=True)
class ArchivedFacts:
    """What the archive says. `stats` are of the present files its commits wrote, by path; `needed`
    the paths of what it says are the newest slices; `undone` the instants its rollbacks undid.

    `unreadable` names archive files with what is wrong; with any of them, or without archive
    files, nothing can be concluded from what the archive does not say.
    """

    files: tuple[ArchiveFile, ...] = ()
    completed: frozenset[Instant] = frozenset()
    stats: Mapping[str, WriteStat] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    replaced: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)
    undone: frozenset[InstantTime] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def commits(self) -> frozenset[InstantTime]:
        """The times of archived commits."""
        return frozenset(item.time for item in self.completed if item.action in COMMIT_ACTIONS)

    def denies(self, time: InstantTime) -> bool:
        """Whether the archive, readable as a whole, reaches back past `time` and lacks it."""
        oldest = min(self.commits, default=None)
        if self.unreadable or oldest is None:
            return False
        return oldest < time and time not in self.commits


@dataclass(slots=True)
class NewestSlice:
    """The newest base file of a file group and the log files that are not older, by their names."""

    base: BaseFile | None = None
    logs: list[LogFile] = field(default_factory=list)

    def add(self, file: BaseFile | LogFile) -> None:
        """Take a file into account, in any order."""
        if isinstance(file, LogFile):
            self.logs.append(file)
        elif self.base is None or self.base.instant < file.instant:
            self.base = file
        if self.base is not None:
            self.logs = [log for log in self.logs if log.instant >= self.base.instant]

    @property
    def paths(self) -> tuple[str, ...]:
        base = () if self.base is None else (self.base.path,)
        return (*base, *(log.path for log in self.logs))


@dataclass(frozen=True, slots=True)
class Inspection:
    """A table as it was read for checking."""

    table: HoodieTable
    objects: Mapping[str, ObjectInfo]
    states: tuple[Instant, ...]
    timeline: ActiveTimeline
    commits: Mapping[Instant, CommitMetadata]
    unreadable: Mapping[Instant, str]
    archive: ArchivedFacts
    view: FileSystemView

    def data_files(self) -> Iterator[BaseFile | LogFile]:
        """Every base and log file of the listing, committed or not, in a partition or not."""
        for path, info in self.objects.items():
            if not is_table_metadata(path):
                file = parse_data_file(*split_path(path), info.size_bytes)
                if file is not None:
                    yield file

    def live_base_files(self) -> Iterator[BaseFile]:
        """Base files of every version that the view keeps."""
        for partition in self.view.partitions:
            for group in self.view.file_groups(partition):
                yield from group.base_files

    def log_files(self) -> Iterator[LogFile]:
        """Log files of the newest slices."""
        for partition in self.view.partitions:
            for file_slice in self.view.latest_slices(partition):
                yield from file_slice.log_files

    def is_still_missing(self, path: str) -> bool:
        """Whether a file that the listing lacked is not there now either."""
        return path not in self.objects and self.table.store.head(path) is None

    def is_rolled_back(self, time: InstantTime) -> bool:
        """Whether a completed rollback, active or archived, says that it undid this instant."""
        if time in self.archive.undone:
            return True
        for rollback in self.timeline.of(Action.ROLLBACK).completed().after(time):
            try:
                if time in undone_instants(self.table.timelines.read_record(rollback)):
                    return True
            except (ObjectNotFoundError, CorruptTableError, UnsupportedTableError):
                continue  # archived since it was listed, or reported by the timeline's check
        return False

    def is_pending(self, time: InstantTime) -> bool:
        """Whether anything is under way at this instant time."""
        return any(item.time == time for item in self.timeline.pending())


def inspect_table(table: HoodieTable) -> Inspection:
    """Read the table. Raises only for a store that does not answer."""
    objects = {info.path: info for info in table.files.objects()}
    listing = table.timelines.listing()
    timeline = table.timelines.timeline_of(listing)
    states = tuple(timeline.made_ms)
    commits, unreadable = _read_commits(table, timeline)
    archive = _read_archive(table, frozenset(objects))
    return Inspection(
        table,
        objects,
        states,
        timeline,
        commits,
        unreadable,
        archive,
        _view(table, objects, timeline, commits, unreadable),
    )


def _read_commits(
    table: HoodieTable, timeline: ActiveTimeline
) -> tuple[dict[Instant, CommitMetadata], dict[Instant, str]]:
    commits: dict[Instant, CommitMetadata] = {}
    unreadable: dict[Instant, str] = {}
    for instant in timeline.of(*COMMIT_ACTIONS).completed():
        try:
            commits[instant] = table.timelines.read_commit(instant)
        except ObjectNotFoundError:
            continue  # archived or rolled back since it was listed
        except (CorruptTableError, UnsupportedTableError) as broken:
            unreadable[instant] = broken.message
    return commits, unreadable


def _view(
    table: HoodieTable,
    objects: Mapping[str, ObjectInfo],
    timeline: ActiveTimeline,
    commits: Mapping[Instant, CommitMetadata],
    unreadable: dict[Instant, str],
) -> FileSystemView:
    listing: dict[str, list[tuple[str, int]]] = {
        partition: [] for partition in find_partitions(objects)
    }
    for path, info in objects.items():
        partition, name = split_path(path)
        if partition in listing and not is_table_metadata(path):
            listing[partition].append((name, info.size_bytes))
    planned = {}
    for actions in ((Action.COMPACTION,), (Action.REPLACECOMMIT, Action.CLUSTERING)):
        planned[actions] = _planned(table, timeline.of(*actions).pending(), unreadable)
    replaced: dict[FileGroupId, InstantTime] = {}
    for instant, metadata in commits.items():
        for group in replaced_groups(metadata):
            replaced.setdefault(group, instant.time)
    compaction, clustering = planned.values()
    return FileSystemView.build(
        listing,
        timeline,
        replaced=replaced,
        pending_compaction=compaction,
        pending_clustering=clustering,
        slices=table.layout.slices,
        archived=table.commits.archived_completion,
        sources=table.files.bootstrap_sources(),
    )


def _planned(
    table: HoodieTable, pending: Iterable[Instant], unreadable: dict[Instant, str]
) -> dict[FileGroupId, InstantTime]:
    planned: dict[FileGroupId, InstantTime] = {}
    for instant in pending:
        path = table.timelines.path(instant.in_state(State.REQUESTED))
        try:
            body = table.store.get(path)
            groups = planned_groups(body, instant.action, path=path)
        except ObjectNotFoundError:
            continue
        except (CorruptTableError, UnsupportedTableError) as broken:
            unreadable[instant] = str(broken)
            continue
        planned |= dict.fromkeys(groups, instant.time)
    return planned


def undone_instants(rollback: Mapping[str, Any]) -> frozenset[InstantTime]:
    """The instants that a HoodieRollbackMetadata record says were undone."""
    names = rollback.get("commitsRollback") or ()
    return frozenset(InstantTime(name) for name in names if is_instant_time(name))


def _read_archive(table: HoodieTable, present: frozenset[str]) -> ArchivedFacts:
    archived = table.commits.archive()
    files = archived.files()
    completed: set[Instant] = set()
    stats: dict[str, WriteStat] = {}
    newest: dict[FileGroupId, NewestSlice] = {}
    replaced: dict[FileGroupId, InstantTime] = {}
    undone: set[InstantTime] = set()
    unreadable: dict[str, str] = {}
    for file in files:
        try:
            content = archived.read(file)
            if content.damaged:
                unreadable[file.path] = f"damaged blocks: {len(content.damaged)}"
            for entry in content.entries:
                if entry.instant.is_completed:
                    completed.add(entry.instant)
                    if entry.instant.action in COMMIT_ACTIONS:
                        metadata = entry.commit_metadata()
                        _note_files(metadata, present, stats, newest)
                        for group in replaced_groups(metadata):
                            replaced.setdefault(group, entry.instant.time)
                    undone |= undone_instants(entry.rollback_metadata())
        except ObjectNotFoundError:
            continue  # merged into a newer one since it was listed
        except TidelineError as broken:
            unreadable[file.path] = str(broken)
    # What cannot be read may be what replaced a file group.
    needed = () if unreadable else (newest[group] for group in newest.keys() - replaced.keys())
    return ArchivedFacts(
        files,
        frozenset(completed),
        stats,
        frozenset(path for file_slice in needed for path in file_slice.paths),
        replaced,
        frozenset(undone),
        unreadable,
    )


def _note_files(
    metadata: CommitMetadata,
    present: frozenset[str],
    stats: dict[str, WriteStat],
    newest: dict[FileGroupId, NewestSlice],
) -> None:
    for stat in metadata.write_stats:
        path = stat.path or ""
        file = parse_data_file(*split_path(path), stat.file_size_in_bytes)
        if file is not None:
            newest.setdefault(file.group, NewestSlice()).add(file)
        known = stats.get(path)
        # A log file may have been appended to.
        if path in present and (
            known is None or known.file_size_in_bytes < stat.file_size_in_bytes
        ):
            stats[path] = stat
