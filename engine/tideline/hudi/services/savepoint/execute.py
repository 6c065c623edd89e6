"""Creating, deleting and listing savepoints.

Creating, under the lock:

1. Check that the instant is a completed commit which no clean has eaten into.
2. `T.savepoint.inflight`, empty. Died before or after: nothing is protected; creating the savepoint
   again finishes it, deleting it removes the rest.
3. `T.savepoint` with the names of all files of the latest slices at T. From then on they are safe.

Deleting goes the other way round: `T.savepoint` first, then the inflight object, so that a crash
leaves an unfinished savepoint and never one that names no files. Cleaning plans are made under the
same lock, so that none is made between the check and the savepoint.
Source: Hudi's SavepointActionExecutor, SavepointHelpers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tideline.errors import ConfigError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.past_cleans import planned_earliest, read_last_clean, read_planned_clean
from tideline.hudi.services.savepoint.record import Savepoint, read_savepoint
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.timeline_as_of import timeline_as_of
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.wording import counted


def create_savepoint(
    table: HoodieTable,
    time: InstantTime | None = None,
    *,
    user: str = "",
    comment: str = "",
) -> Savepoint:
    """Keep the table as of a completed commit (the newest one by default) from being cleaned.

    Returns the savepoint that is there already, if so. Raises ConfigError for an instant that is no
    completed commit of the active timeline, or one whose files a clean may have deleted.
    """
    with table.lock().acquire():
        timeline = admit(table, Permission.SAVEPOINT)
        savepoint, existing = _planned(table, timeline, time, user=user, comment=comment)
        if existing is not None and existing.is_completed:
            return savepoint
        inflight = Instant(savepoint.instant, Action.SAVEPOINT, State.INFLIGHT)
        if existing is None:
            inflight = table.timelines.to_inflight(inflight)
        table.instants.complete(inflight, savepoint.encode())
        return savepoint


def preview_savepoint(
    table: HoodieTable, time: InstantTime | None = None, *, user: str = "", comment: str = ""
) -> Savepoint:
    """What `create_savepoint` would keep now; changes nothing. Raises as it does."""
    timeline = admit(table, Permission.SAVEPOINT)
    return _planned(table, timeline, time, user=user, comment=comment)[0]


def find_savepoint(table: HoodieTable, time: InstantTime) -> Savepoint:
    """The savepoint of an instant. Raises ConfigError naming those there are when it is none."""
    timeline = table.timeline()
    return read_savepoint(table, _found(table, timeline, time))


def delete_savepoint(table: HoodieTable, time: InstantTime) -> Savepoint:
    """Give a savepoint up; the next clean may delete what only it kept. Returns what it was.

    Raises ConfigError when there is none of that time, a restore to it is unfinished, or rows
    would be lost with it.
    """
    with table.lock().acquire():
        timeline = admit(table, Permission.SAVEPOINT)
        found = _found(table, timeline, time)
        _refuse_during_restore(table, timeline)
        _refuse_lost_rows(table, timeline, found)
        savepoint = read_savepoint(table, found)
        for state in (State.COMPLETED, State.INFLIGHT):
            table.timelines.remove(found.in_state(state))
        return savepoint


def list_savepoints(table: HoodieTable) -> tuple[Savepoint, ...]:
    """All savepoints, oldest first, unfinished ones included. Raises CorruptTableError."""
    return tuple(read_savepoint(table, item) for item in table.timeline().of(Action.SAVEPOINT))


def _planned(
    table: HoodieTable,
    timeline: ActiveTimeline,
    time: InstantTime | None,
    *,
    user: str,
    comment: str,
) -> tuple[Savepoint, Instant | None]:
    """The savepoint that is there, or would be; and what of it is on the timeline."""
    commit = _commit_at(table, timeline, time)
    existing = _find(timeline, commit.time)
    if existing is not None and existing.is_completed:
        return read_savepoint(table, existing), existing
    _refuse_during_restore(table, timeline)
    _refuse_cleaned(table, timeline, commit)
    files = _files_at(table, timeline, commit)
    return Savepoint(commit.time, user, table.clock.now_ms(), comment, files), existing


def _commit_at(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime | None) -> Instant:
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    if time is None:
        newest = commits.last()
        if newest is None:
            raise ConfigError("a savepoint needs a completed commit: none yet", table=table.uri)
        return newest
    found = commits.find(time)
    if found is not None:
        return found
    known = timeline.find(time)
    if known is None:
        message = "there is no commit of this instant in the active timeline"
    elif known.is_pending:
        message = f"this instant is a pending {known.action}; only completed commits have a state"
    else:
        message = f"this instant is a {known.action}; only commits can be savepointed"
    raise ConfigError(message, table=table.uri, instant=time)


def _refuse_cleaned(table: HoodieTable, timeline: ActiveTimeline, commit: Instant) -> None:
    """Raise when a clean, done or still to be done, deletes files that the commit saw."""
    oldest = _oldest_whole(table, timeline)
    if oldest is not None and commit.time < oldest:
        raise ConfigError(
            "files of this instant have been cleaned; a savepoint is possible from the earliest "
            "commit that cleaning retained on",
            table=table.uri,
            instant=commit.time,
            value=oldest,
        )


def _oldest_whole(table: HoodieTable, timeline: ActiveTimeline) -> InstantTime | None:
    """The earliest instant all of whose files are there; None without cleans."""
    found: list[InstantTime] = []
    last = read_last_clean(table, timeline)
    if last is not None:
        earliest = last.earliest_retained or _last_write(timeline, last.time)
        found += [earliest] if earliest else []
    for clean in timeline.of(Action.CLEAN).pending():
        planned = read_planned_clean(table, clean, planned_earliest)
        earliest = planned or _last_write(timeline, clean.time)
        found += [earliest] if earliest else []
    return max(found, default=None)


def _last_write(timeline: ActiveTimeline, until: InstantTime) -> InstantTime | None:
    """What a clean by file versions keeps for certain: the newest commit of its time."""
    last = timeline.of(*COMMIT_ACTIONS).completed().up_to(until).last()
    return last.time if last else None


def _files_at(
    table: HoodieTable, timeline: ActiveTimeline, commit: Instant
) -> dict[str, tuple[str, ...]]:
    """Names of the files of the latest slices, those of pending compactions included.

    Without logs that a restore deletes: those of commits that completed later. A commit that was
    requested first and completed later is spared by a restore; what its files took the place of is
    kept as well, for reads as of the savepoint.
    """
    view = table.files.view(timeline)
    later: set[InstantTime] = set()
    if table.layout.rollback is RollbackForm.DELETES and commit.completed_at is not None:
        commits = timeline.of(*COMMIT_ACTIONS).completed()
        reached = commit.completed_at
        later = {
            instant.time
            for instant in commits
            if instant.completed_at and instant.completed_at > reached
        }
    then = FileSystemView({})
    if table.layout.timeline.has_completion_times and commit.completed_at is not None:
        then = table.files.read_view(timeline_as_of(table, timeline, commit.completed_at))

    def names(partition: str) -> Iterator[str]:
        requested = view.latest_slices(partition, as_of=commit.time)
        for file_slice in (*requested, *then.latest_slices(partition)):
            for file in file_slice.files:
                if isinstance(file, BaseFile) or file.instant not in later:
                    yield file.name

    return {name: tuple(dict.fromkeys(names(name))) for name in view.partitions}


def _refuse_during_restore(table: HoodieTable, timeline: ActiveTimeline) -> None:
    restore = timeline.of(Action.RESTORE).pending().first()
    if restore is not None:
        raise ConfigError(
            "a restore is unfinished; finish it before changing savepoints",
            table=table.uri,
            instant=restore.time,
        )


def _refuse_lost_rows(table: HoodieTable, timeline: ActiveTimeline, savepoint: Instant) -> None:
    """Raise when archived commits count only as long as there is the savepoint.

    Hudi's writers archive commits behind a savepoint with `hoodie.archive.beyond.savepoint`. The
    commit of the savepoint is the first of the timeline once it is deleted, and what is newer and
    not there counts as never committed.
    """
    rest = tuple(instant for instant in timeline if instant != savepoint)
    after = replace(timeline, instants=rest)
    if after.start == timeline.start:
        return
    listing = table.files.listing()
    now, then = (_files(table.files.view_of(listing, shown)) for shown in (timeline, after))
    if now != then:
        raise ConfigError(
            "commits behind this savepoint were archived, and count only as long as it is there: "
            f"without it readers would miss {counted(len(now - then), 'file')} of the table; have "
            "their rows written again by a clustering first",
            table=table.uri,
            instant=savepoint.time,
        )


def _files(view: FileSystemView) -> frozenset[tuple[str, str]]:
    """Partition and name of each file that readers open."""
    return frozenset(
        (partition, file.name)
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for file in file_slice.files
    )


def _found(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> Instant:
    found = _find(timeline, time)
    if found is None:
        known = ", ".join(map(str, sorted(_times(timeline)))) or "none"
        raise ConfigError(
            f"there is no savepoint of this instant (there are: {known})",
            table=table.uri,
            instant=time,
        )
    return found


def _find(timeline: ActiveTimeline, time: InstantTime) -> Instant | None:
    return next((item for item in timeline.of(Action.SAVEPOINT) if item.time == time), None)


def _times(timeline: ActiveTimeline) -> set[InstantTime]:
    return {item.time for item in timeline.of(Action.SAVEPOINT)}
