"""Is the archive readable, and does it hold exactly what the active timeline does not?"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error, warning
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.services.archival.merge import has_unfinished_merge
from tideline.hudi.table.file_group import BaseFile, FileGroupId, replaced_groups
from tideline.hudi.timeline.commit_metadata import NO_PREVIOUS_COMMIT
from tideline.hudi.timeline.instant import WRITE_ACTIONS, Action
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.lsm_history import LsmHistory
from tideline.hudi.timeline.lsm_writer import history_leftovers
from tideline.wording import counted

NAME = "archive"
_FINISH = Repair(RepairKind.FINISH_ARCHIVAL)


def check_archive(seen: Inspection) -> Iterator[Finding]:
    """Findings about archive files and archived instants."""
    archive = seen.archive
    for path, broken in archive.unreadable.items():
        yield error(
            NAME,
            f"archive file cannot be read as a whole: {broken}",
            path=path,
            advice="put it back from a copy; what it held is lost to lookups only",
        )
    archived = seen.table.commits.archive()
    if isinstance(archived, LsmHistory):
        for path in history_leftovers(archived):
            yield warning(NAME, "writing the archive did not finish", path=path, repair=_FINISH)
    elif has_unfinished_merge(archived):
        yield warning(NAME, "a merge of archive files did not finish", repair=_FINISH)
    active = set(seen.timeline.completed())
    for instant in sorted(archive.completed & active):
        yield warning(
            NAME, f"{instant} is archived and still active", instant=instant.time, repair=_FINISH
        )
    yield from _holes(seen)
    yield from _revived(seen)
    yield from _behind_a_savepoint(seen)


def _holes(seen: Inspection) -> Iterator[Finding]:
    """Commits that others built on and that are in neither timeline.

    What is appended on top of a pending compaction is built on what is yet to come.
    """
    known = {instant.time for instant in seen.commits} | seen.archive.commits
    known |= {instant.time for instant in seen.timeline.of(Action.COMPACTION).pending()}
    built_on: dict[InstantTime, InstantTime] = {}
    for instant, metadata in seen.commits.items():
        for stat in metadata.write_stats:
            previous = stat.prev_commit or NO_PREVIOUS_COMMIT
            if previous != NO_PREVIOUS_COMMIT and is_instant_time(previous):
                built_on.setdefault(InstantTime(previous), instant.time)
    for time, by in sorted(built_on.items()):
        if time not in known and not seen.archive.unreadable and not seen.unreadable:
            yield warning(
                NAME,
                f"{by} was built on {time}, which is in neither timeline: the archive has a hole",
                instant=time,
                advice="put the archive's files back from a copy",
            )


def _revived(seen: Inspection) -> Iterator[Finding]:
    """File groups that an archived replacecommit replaced and that are still there."""
    for partition in seen.view.partitions:
        for group in seen.view.file_groups(partition):
            time = seen.archive.replaced.get(group.id)
            if time is None or any(file_slice.base_instant >= time for file_slice in group.slices):
                continue
            for file_slice in group.slices:
                for file in file_slice.files:
                    yield error(
                        NAME,
                        f"replaced by {time}, which was archived before cleaning removed it: "
                        "its rows are visible again",
                        path=file.path,
                        instant=time,
                        repair=Repair(RepairKind.DELETE_FILE, file.path),
                    )


def _behind_a_savepoint(seen: Inspection) -> Iterator[Finding]:
    """Files of archived commits that are newer than the first active write.

    Hudi's writers archive so with `hoodie.archive.beyond.savepoint`. Its readers take a file for
    committed only whose instant is active, or older than every active write.
    """
    first = seen.timeline.of(*WRITE_ACTIONS).first()
    if first is None:
        return
    active = {instant.time for instant in seen.timeline}
    gap = {time for time in seen.archive.commits - active if time > first.time}
    newest: dict[FileGroupId, InstantTime] = {}
    for file in seen.data_files() if gap else ():
        if isinstance(file, BaseFile):
            newest[file.group] = max(file.instant, newest.get(file.group, file.instant))
    replaced = {group for metadata in seen.commits.values() for group in replaced_groups(metadata)}
    lost = [
        time
        for group, time in newest.items()
        if time in gap and group not in replaced and group not in seen.archive.replaced
    ]
    if lost:
        yield error(
            NAME,
            f"{counted(len(lost), 'file group')} of commits that were archived behind a savepoint: "
            "Hudi's queries do not find their rows",
            instant=min(lost),
            advice="have their rows written again by a clustering, as long as there is a savepoint "
            f"of {first.time}: without it readers here do not find them either",
        )
