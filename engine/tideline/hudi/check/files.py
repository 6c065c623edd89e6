"""Is every file there that the file-system view keeps, of its size, and no other one visible?

Old commits name files that cleaning has rightly removed. So missing is only: the newest version of
a live file group, a log file on top of it, and what a savepoint names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error, note, warning
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.avro import decode_container
from tideline.hudi.check.inspection import Inspection, NewestSlice
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, join_path, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.nested_tables import root_around
from tideline.wording import counted

NAME = "files"


def check_files(seen: Inspection) -> Iterator[Finding]:
    """Findings about data files, by the listing and the metadata of commits."""
    yield from _missing(seen)
    yield from _sizes(seen)
    yield from _savepoints(seen)
    yield from _uncommitted(seen)
    yield from _partitions(seen)
    yield from _nested(seen)


def stats_by_path(seen: Inspection) -> dict[str, WriteStat]:
    """What the newest commit that wrote a file says of it; archived ones of present files only."""
    return dict(seen.archive.stats) | {
        stat.path: stat
        for instant in sorted(seen.commits)
        for stat in seen.commits[instant].write_stats
        if stat.path
    }


def _missing(seen: Inspection) -> Iterator[Finding]:
    newest: dict[FileGroupId, NewestSlice] = {}
    for path in stats_by_path(seen).keys() | seen.archive.needed:
        file = parse_data_file(*split_path(path), 0)
        if file is not None:
            newest.setdefault(file.group, NewestSlice()).add(file)
    gone = seen.view.replaced.keys() | seen.archive.replaced.keys()
    for group, file_slice in sorted(newest.items()):
        if group in gone:
            continue
        base = file_slice.base
        if base is not None and seen.is_still_missing(base.path):
            yield _lost(base.path, base.instant, "the newest version of its file group is missing")
        for log in sorted(file_slice.logs, key=lambda log: log.path):
            if seen.is_still_missing(log.path):
                yield _lost(log.path, log.instant, "a log file of the newest slice is missing")


def _lost(path: str, instant: InstantTime, message: str) -> Finding:
    advice = "put it back from a copy, or restore to a savepoint from before"
    return error(NAME, message, path=path, instant=instant, advice=advice)


def _sizes(seen: Inspection) -> Iterator[Finding]:
    for path, stat in stats_by_path(seen).items():
        info = seen.objects.get(path)
        stated = stat.file_size_in_bytes
        if info is None or stated <= 0 or info.size_bytes == stated:
            continue
        is_log = LogFile.parse(*split_path(path)) is not None
        if is_log and info.size_bytes > stated:
            continue  # appended to later, by what did not commit
        yield error(
            NAME,
            f"has {counted(info.size_bytes, 'byte')}, its commit says {stated:,}",
            path=path,
            advice="put it back from a copy, or restore to a savepoint from before",
        )


def _savepoints(seen: Inspection) -> Iterator[Finding]:
    for savepoint in seen.timeline.of(Action.SAVEPOINT).completed():
        try:
            path = seen.table.timelines.path(savepoint)
            record = decode_container(seen.table.timelines.read(savepoint), path=path)
        except (ObjectNotFoundError, CorruptTableError, UnsupportedTableError):
            continue  # reported by the timeline's check
        for partition, content in (record.get("partitionMetadata") or {}).items():
            for name in content.get("savepointDataFile") or ():
                file = join_path(partition, name)
                if seen.is_still_missing(file):
                    message = "a file that a savepoint keeps is missing"
                    yield error(
                        NAME,
                        message,
                        path=file,
                        instant=savepoint.time,
                        advice="put it back from a copy, or delete the savepoint",
                    )


def _uncommitted(seen: Inspection) -> Iterator[Finding]:
    """Files that no commit wrote: visible ones are phantom rows, others only take up space."""
    stated = stats_by_path(seen).keys()
    visible = {file.path for file in seen.live_base_files()}
    committed = {instant.time for instant in seen.commits}
    for file in seen.data_files():
        if file.path in stated or _is_unread(seen, file):
            continue
        delete = Repair(RepairKind.DELETE_FILE, file.path)
        about = {"path": file.path, "instant": file.instant, "repair": delete}
        if file.path in visible:
            if file.instant in committed:
                yield error(NAME, "visible, but its commit does not name it", **about)
            elif _is_before_start(seen, file) and seen.archive.denies(file.instant):
                yield _phantom(seen, file, delete)
            elif file.instant in seen.archive.commits:
                yield error(NAME, "visible, but its archived commit does not name it", **about)
        elif not seen.timeline.is_committed(file.instant) and not seen.is_pending(file.instant):
            yield warning(NAME, "left by a write that never committed", **about)


def _phantom(seen: Inspection, file: BaseFile | LogFile, delete: Repair) -> Finding:
    """Only a rollback is proof; that the archive lacks the instant may mean that it has a hole."""
    about = {"path": file.path, "instant": file.instant}
    if seen.is_rolled_back(file.instant):
        message = "visible, but its instant was rolled back and never committed"
        return error(NAME, message, repair=delete, **about)
    return error(
        NAME,
        "visible, but neither timeline knows its instant",
        advice="if no archive file was ever lost, delete it: no commit wrote it",
        **about,
    )


def _is_unread(seen: Inspection, file: BaseFile | LogFile) -> bool:
    """Whether what would name the file cannot be read, so that nothing is known of it."""
    return any(instant.time == file.instant for instant in seen.unreadable)


def _is_before_start(seen: Inspection, file: BaseFile | LogFile) -> bool:
    return seen.timeline.start is not None and file.instant < seen.timeline.start


def _partitions(seen: Inspection) -> Iterator[Finding]:
    known = set(seen.view.partitions)
    written = {split_path(path)[0] for path in stats_by_path(seen) if path in seen.objects}
    for partition in sorted(written - known):
        yield error(
            NAME,
            "this partition has no metadata file: Hudi reads no rows from it",
            path=partition,
            repair=Repair(RepairKind.WRITE_PARTITION_METADATA, partition),
        )


def _nested(seen: Inspection) -> Iterator[Finding]:
    """Tables below this one, which nothing of this one touches, and what their folders hide."""
    tables = seen.table.files.nested
    hidden = {root_around(path, tables) for path in stats_by_path(seen)} if tables else set()
    for root, format_name in sorted(tables.items()):
        if root in hidden:
            yield error(
                NAME,
                f"commits wrote files into the folder of a {format_name} table below this one, "
                "where no reader of this table looks",
                path=root,
                advice="move that table out of this one's folder",
            )
        else:
            yield note(
                NAME,
                f"a {format_name} table lies below this one; its files are left alone",
                path=root,
                advice="move it out of this table's folder: other engines may not leave it alone",
            )


def check_sidecars(seen: Inspection) -> Iterator[Finding]:
    """Checksum sidecars of files that are gone: Hadoop never looks at them, they only lie there."""
    for path in seen.objects:
        directory, name = split_path(path)
        if name.startswith(".") and name.endswith(".crc"):
            owner = join_path(directory, name[1:-4])
            is_data = parse_data_file(directory, name[1:-4], 0) is not None
            if is_data and owner not in seen.objects:
                yield warning(
                    NAME,
                    "a checksum whose file is gone",
                    path=path,
                    repair=Repair(RepairKind.DELETE_FILE, path),
                )
