"""Reading while a cleaner runs: whether the files of an instant, or of now, are all still there.

Cleaning removes file versions that newer ones superseded. The file-system view cannot distinguish a
file group that did not exist yet from one whose old versions are gone, but later commits can: they
name the version they built on and the file groups they replaced. Nor can it recognise a version
where a clean has removed some files so far, a base file without its logs say; the clean's plan can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tideline.errors import ConfigError, ConflictError, CorruptTableError
from tideline.hudi.services.cleaning.stored_plan import read_cleaning_plan
from tideline.hudi.table.file_group import FileGroupId, split_path
from tideline.hudi.table.file_system_view import FileSystemView, parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.timeline_as_of import archived_after
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT, CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.retry import RetryPolicy

_RETRIES = RetryPolicy.at_once(4)


@dataclass(frozen=True, slots=True)
class FilesGone:
    """Why a range cannot be read as of its end `instant`: files have been cleaned since."""

    why: str
    instant: InstantTime
    path: str | None = None

    @classmethod
    def of_rows(cls, end: InstantTime, path: str | None) -> FilesGone:
        """Where a file of the range is gone."""
        why = f"rows up to {end} can no longer be read: their files have been cleaned; read up to "
        return cls(f"{why}a later time", end, path)

    @classmethod
    def archived(cls, end: InstantTime) -> FilesGone:
        """Where the commits of the range are in the archive."""
        why = "rows up to this time can no longer be read: commits before it are archived; read up"
        return cls(f"{why} to a later time", end)

    def error(self, table: HoodieTable) -> ConfigError:
        """The same for a caller."""
        return ConfigError(self.why, table=table.uri, instant=self.instant, path=self.path)


def load_view(
    table: HoodieTable,
    partitions: Callable[[ActiveTimeline], Iterable[str] | None] = lambda _: None,
    shown: Callable[[ActiveTimeline], ActiveTimeline] = lambda whole: whole,
) -> tuple[ActiveTimeline, FileSystemView]:
    """The timeline and the files as it shows them, of all partitions or those it calls for.

    `shown` is the part of the timeline that the files are to be seen by.
    Loaded again while a clean begins in between: it may have removed what the older timeline still
    shows. Raises ConflictError when that does not end.
    """
    for _ in _RETRIES.attempts():
        timeline = table.timeline()
        view = table.files.read_view(shown(timeline), partitions(timeline))
        if _cleans(table.timeline()) <= _cleans(timeline):
            return timeline, view
    raise ConflictError("new cleans keep starting: try again", table=table.uri)


def find_files_gone(
    table: HoodieTable, timeline: ActiveTimeline, view: FileSystemView, as_of: InstantTime
) -> FilesGone | None:
    """What of the table as of `as_of` is gone, None where all is there.

    Where commits since then are archived they cannot be asked, so that counts as well; but a
    savepoint keeps all files of its instant.
    """
    if as_of in timeline.savepointed_times():
        return None
    if timeline.start is not None and as_of < timeline.start and has_archive(table):
        return _gone(as_of, f"the timeline before {timeline.start} is archived")
    versions = whole_versions(table, timeline, view)
    born_later: set[FileGroupId] = set()
    for instant in timeline.of(*COMMIT_ACTIONS).completed().after(as_of):
        metadata = table.commits.read(instant)
        for group, version in built_on(metadata):
            if version is None:
                born_later.add(group)
            elif version <= as_of and version not in versions.get(group, ()):
                return _gone(as_of, f"{group} of {version} was cleaned")
        for group in replaced_by(metadata):
            kept = any(version <= as_of for version in versions.get(group, ()))
            if group not in born_later and not kept:
                return _gone(as_of, f"{group} was replaced at {instant.time} and cleaned")
    return None


def find_files_gone_by_completion(
    table: HoodieTable,
    timeline: ActiveTimeline,
    shown: ActiveTimeline,
    view: FileSystemView,
    as_of: InstantTime,
) -> FilesGone | None:
    """The same where instants say when they completed; `view` is of `shown`, what had completed by
    then.

    Archived commits that completed later are asked for a savepoint alone, which keeps its files.
    """
    archived = archived_after(table, timeline, as_of)
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    saved = timeline.savepointed_times()
    if archived and as_of not in {
        commit.completed_at for commit in commits if commit.time in saved
    }:
        return _gone(as_of, f"commits up to {max(archived.values())} are archived")
    later = {
        commit.time: commit
        for commit in commits
        if commit.completed_at and commit.completed_at > as_of
    }
    order = {instant.time: instant.completed_at for instant in later.values()} | archived
    entries = table.commits.archive().find(frozenset(archived))
    versions = whole_versions(table, timeline, view)
    born_later: set[FileGroupId] = set()
    for time in sorted(order, key=lambda instant_time: (str(order[instant_time]), instant_time)):
        if time not in later and time not in entries:
            return _gone(as_of, f"the archive changed while {time} was looked for in it; try again")
        active = later.get(time)
        metadata = table.commits.read(active) if active else entries[time].commit_metadata()
        for group, version in built_on(metadata):
            if version is None:
                born_later.add(group)
            elif shown.is_committed(version) and version not in versions.get(group, ()):
                return _gone(as_of, f"{group} of {version} was cleaned")
        for group in replaced_by(metadata):
            if group not in born_later and not versions.get(group):
                return _gone(as_of, f"{group} was replaced at {time} and cleaned")
    return None


def whole_versions(
    table: HoodieTable, timeline: ActiveTimeline, view: FileSystemView
) -> dict[FileGroupId, frozenset[InstantTime]]:
    """The versions of every file group, but for those that a clean is about to remove.

    Raises CorruptTableError when the plan of a clean under way cannot be read.
    """
    removed = _removed_by_cleans(table, timeline)
    return {
        group.id: frozenset(
            file_slice.base_instant
            for file_slice in group.slices
            if (group.id, file_slice.base_instant) not in removed
        )
        for partition in view.partitions
        for group in view.all_file_groups(partition)
    }


def has_archive(table: HoodieTable) -> bool:
    """Whether any instant of the table has been archived."""
    listing = table.store.list_directory(table.commits.archive().directory)
    return any(not _is_sidecar(info.path) for info in listing.objects)


def written_by(
    read_commit: Callable[[Instant], CommitMetadata], commits: Iterable[Instant]
) -> dict[FileGroupId, str]:
    """Path of the newest file of every file group the commits wrote to and did not replace."""
    newest: dict[FileGroupId, str] = {}
    replaced: set[FileGroupId] = set()
    for instant in commits:
        metadata = read_commit(instant)
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                if stat.path and stat.file_id:
                    newest[FileGroupId(partition, stat.file_id)] = stat.path
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
            replaced.update(FileGroupId(partition, file_id) for file_id in ids)
    return {group: path for group, path in newest.items() if group not in replaced}


def _cleans(timeline: ActiveTimeline) -> frozenset[InstantTime]:
    return frozenset(instant.time for instant in timeline.of(Action.CLEAN))


def built_on(metadata: CommitMetadata) -> list[tuple[FileGroupId, InstantTime | None]]:
    """Per file group a commit wrote, the version before; None for a new file group."""
    found = []
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            if not stat.file_id or not stat.path:
                continue
            previous = stat.prev_commit or NO_PREVIOUS_COMMIT
            version = InstantTime(previous) if is_instant_time(previous) else None
            found.append((FileGroupId(partition, stat.file_id), version))
    return found


def replaced_by(metadata: CommitMetadata) -> list[FileGroupId]:
    """The file groups that a commit took the place of."""
    replaced = metadata.partition_to_replace_file_ids or {}
    return [
        FileGroupId(partition, file_id)
        for partition, file_ids in replaced.items()
        for file_id in file_ids
    ]


def _removed_by_cleans(
    table: HoodieTable, timeline: ActiveTimeline
) -> frozenset[tuple[FileGroupId, InstantTime]]:
    """The versions that pending cleans remove."""
    removed: set[tuple[FileGroupId, InstantTime]] = set()
    for instant in timeline.of(Action.CLEAN).pending():
        try:
            plan = read_cleaning_plan(table, instant)
        except CorruptTableError:
            if instant.state is State.REQUESTED:
                continue  # nothing was done for it, and nothing can be
            raise
        for files in plan.files.values():
            for file in (parse_data_file(*split_path(file.path), 0) for file in files):
                version = file and table.layout.names.slice_instant(file)
                if file and version:
                    removed.add((file.group, version))
    return frozenset(removed)


def _is_sidecar(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".crc") or name in ("_SUCCESS", ".gitkeep")


def _gone(as_of: InstantTime, why: str) -> FilesGone:
    return FilesGone(f"the table as of this instant can no longer be read: {why}", as_of)
