"""The life of a table, played back from its timeline, archive included; no data file is opened.

1. Commits say which files they wrote, with sizes and rows, and which file groups they replaced;
   cleans say what they deleted.
2. After each of them the table is what the newest file of each file group and its logs are.
3. File groups that stand now and were never seen being written are older than the history: they are
   added to every state.

Instants are read one after another, and only what their files sum up to is kept.

Rows are those of base files, and of logs what they inserted less what they deleted: exact where
logs are compacted, close elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from heapq import merge
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.hudi.services.run_metrics import CLEAN_CORE_SECONDS, RunMetrics
from tideline.hudi.table.file_group import FileGroupId, FileSlice, join_path
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import TimelineZone


class Kind(Enum):
    """What an instant is for."""

    WRITE = "write"
    SERVICE = "service"
    CORRECTION = "correction"


_SERVICES = {
    "COMPACT": "compaction",
    "LOG_COMPACT": "log compaction",
    "CLUSTER": "clustering",
}
_OTHER_ACTIONS = {
    Action.ROLLBACK: ("rollback", Kind.CORRECTION),
    Action.RESTORE: ("restore", Kind.CORRECTION),
    Action.SAVEPOINT: ("savepoint", Kind.CORRECTION),
    Action.INDEXING: ("indexing", Kind.SERVICE),
    Action.SCHEMACOMMIT: ("schema change", Kind.WRITE),
}


@dataclass(frozen=True, slots=True)
class Done:
    """What one instant did. Sizes are bytes; `core_seconds` is 0 where nothing says it."""

    at_ms: int
    instant: str
    what: str
    kind: Kind
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_written: int = 0
    bytes_written: int = 0
    files_deleted: int = 0
    core_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """The table after an instant. `stored_bytes` counts versions that only time travel reads."""

    rows: int
    base_files: int
    log_files: int
    size_bytes: int
    stored_bytes: int

    def plus(self, other: State) -> State:
        """Both together."""
        return State(
            *(
                getattr(self, attribute.name) + getattr(other, attribute.name)
                for attribute in fields(State)
            )
        )


@dataclass(frozen=True, slots=True)
class Life:
    """Everything that was done, oldest first, and the table after each of it.

    `unreadable` counts instants whose metadata cannot be read.
    """

    done: tuple[Done, ...]
    states: tuple[State, ...]
    unreadable: int = 0


def read_life(table: HoodieTable, slices: Iterable[FileSlice]) -> Life:
    """Play the timeline back; `slices` are the file slices of the table as it is now."""
    timeline = table.timeline()
    zone = table.instants.known_zone(timeline).reading_zone
    active = frozenset(timeline.completed())
    files = _Files()
    played: list[tuple[Done, State]] = []
    unreadable = 0
    # The active timeline may hold instants that are older than some of the archive, such as cleans.
    for entry in merge(_archived(table, active), _active(table, timeline), key=_time):
        if entry.is_unreadable:
            unreadable += 1
        else:
            played.append((_done(entry, zone, files), files.state()))
    older = files.older(slices)
    states = tuple(state.plus(older) for _, state in played)
    return Life(tuple(done for done, _ in played), states, unreadable)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A completed instant with what it says: a commit, or the record of a clean.

    `is_unreadable`: what it says cannot be read."""

    instant: Instant
    commit: CommitMetadata | None = None
    clean: Mapping[str, Any] = field(default_factory=dict)
    is_unreadable: bool = False


@dataclass(slots=True)
class _Base:
    size_bytes: int
    rows: int


@dataclass(slots=True)
class _Files:
    """The files of a table while its timeline is played back, with running totals."""

    stored: dict[str, int] = field(default_factory=dict)
    base: dict[FileGroupId, _Base] = field(default_factory=dict)
    logs: dict[FileGroupId, dict[str, tuple[int, int]]] = field(default_factory=dict)
    seen: set[FileGroupId] = field(default_factory=set)
    base_bytes: int = 0
    log_bytes: int = 0
    log_files: int = 0
    rows: int = 0
    stored_bytes: int = 0

    def older(self, slices: Iterable[FileSlice]) -> State:
        """The file groups of the table now that were never seen; their rows are not known."""
        bases = [
            file_slice.base_file.size_bytes
            for file_slice in slices
            if file_slice.group not in self.seen and file_slice.base_file is not None
        ]
        return State(0, len(bases), 0, sum(bases), sum(bases))

    def commit(self, metadata: CommitMetadata) -> None:
        """A base file is a new version of its group, and includes its logs."""
        for stat in metadata.write_stats:
            group = FileGroupId(stat.partition_path or "", stat.file_id or "")
            path, size_bytes = stat.path or "", stat.file_size_in_bytes
            self.seen.add(group)
            self._store(path, size_bytes)
            if stat.log_version is None:
                self._replace(group, _Base(size_bytes, stat.num_writes))
            else:
                self._append(group, path, size_bytes, stat.num_inserts - stat.num_deletes)
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
            for file_id in ids:
                self._replace(FileGroupId(partition, file_id), None)

    def clean(self, record: Mapping[str, Any]) -> int:
        """How many files were deleted."""
        paths = [
            join_path(partition, name)
            for partition, cleaned in (record.get("partitionMetadata") or {}).items()
            for name in cleaned["successDeleteFiles"]
        ]
        for path in paths:
            self.stored_bytes -= self.stored.pop(path, 0)
        return len(paths)

    def state(self) -> State:
        size_bytes = self.base_bytes + self.log_bytes
        # What is in the table is stored, whatever the history says.
        stored_bytes = max(self.stored_bytes, size_bytes)
        return State(self.rows, len(self.base), self.log_files, size_bytes, stored_bytes)

    def _store(self, path: str, size_bytes: int) -> None:
        self.stored_bytes += size_bytes - self.stored.get(path, 0)
        self.stored[path] = size_bytes

    def _replace(self, group: FileGroupId, base: _Base | None) -> None:
        before = self.base.pop(group, None)
        if before is not None:
            self.base_bytes -= before.size_bytes
            self.rows -= before.rows
        for size_bytes, rows in self.logs.pop(group, {}).values():
            self.log_bytes -= size_bytes
            self.log_files -= 1
            self.rows -= rows
        if base is not None:
            self.base[group] = base
            self.base_bytes += base.size_bytes
            self.rows += base.rows

    def _append(self, group: FileGroupId, path: str, size_bytes: int, rows: int) -> None:
        """A log of version 6 may grow: its size is the newest, its rows add up."""
        logs = self.logs.setdefault(group, {})
        size_before, rows_before = logs.get(path, (0, 0))
        self.log_files += path not in logs
        logs[path] = size_bytes, rows_before + rows
        self.log_bytes += size_bytes - size_before
        self.rows += rows


def _done(entry: _Entry, zone: TimelineZone, files: _Files) -> Done:
    at_ms, instant = zone.epoch_ms(entry.instant.time), str(entry.instant.time)
    if entry.instant.action is Action.CLEAN:
        extra = entry.clean.get("extraMetadata") or {}
        deleted = files.clean(entry.clean)
        cores = _number(extra.get(CLEAN_CORE_SECONDS))
        return Done(
            at_ms, instant, "cleaning", Kind.SERVICE, files_deleted=deleted, core_seconds=cores
        )
    if entry.commit is None:
        what, kind = _OTHER_ACTIONS.get(
            entry.instant.action, (str(entry.instant.action), Kind.CORRECTION)
        )
        return Done(at_ms, instant, what, kind)
    files.commit(entry.commit)
    operation = entry.commit.operation_type
    service = _SERVICES.get(operation)
    stats = entry.commit.write_stats
    metrics = RunMetrics.from_extra_metadata(entry.commit.extra_metadata)
    rows = _rows(stats) if service is None else (0, 0, 0)
    return Done(
        at_ms,
        instant,
        service or operation.lower().replace("_", " "),
        Kind.WRITE if service is None else Kind.SERVICE,
        *rows,
        files_written=len(stats),
        bytes_written=sum(stat.total_write_bytes or stat.file_size_in_bytes for stat in stats),
        core_seconds=0.0 if metrics is None else metrics.spent.core_seconds,
    )


def _rows(stats: Iterable[WriteStat]) -> tuple[int, int, int]:
    """Inserted, updated, deleted."""
    inserted = updated = deleted = 0
    for stat in stats:
        inserted += stat.num_inserts
        updated += stat.num_update_writes
        deleted += stat.num_deletes
    return inserted, updated, deleted


def _time(entry: _Entry) -> InstantTime:
    return entry.instant.time


def _archived(table: HoodieTable, active: frozenset[Instant]) -> Iterator[_Entry]:
    """What left the active timeline, by time."""
    # The archive gives the newest first.
    for entry in sorted(table.commits.archive().completed(), key=lambda entry: entry.instant):
        instant = entry.instant
        if instant in active:
            # A death between writing the archive and clearing the timeline leaves it in both.
            continue
        try:
            if instant.action in COMMIT_ACTIONS:
                yield _Entry(instant, commit=entry.commit_metadata())
            elif instant.action is Action.CLEAN:
                yield _Entry(instant, clean=entry.clean_metadata())
            else:
                yield _Entry(instant)
        except CorruptTableError:
            yield _Entry(instant, is_unreadable=True)


def _active(table: HoodieTable, timeline: ActiveTimeline) -> Iterator[_Entry]:
    """What is in the active timeline, likewise."""
    for instant in timeline.completed():
        try:
            if instant.action in COMMIT_ACTIONS:
                yield _Entry(instant, commit=table.commits.read(instant))
            elif instant.action is Action.CLEAN:
                yield _Entry(instant, clean=table.timelines.read_record(instant))
            else:
                yield _Entry(instant)
        except ObjectNotFoundError:
            # Archived meanwhile: what it did is in what is stored now.
            continue
        except CorruptTableError:
            yield _Entry(instant, is_unreadable=True)


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
