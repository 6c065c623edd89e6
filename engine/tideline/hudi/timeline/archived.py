"""The archived timeline of layout 1: instants that left the active one, in `.hoodie/archived`.

An archive file `.commits_.archive.<N>_<token>` holds log blocks of HoodieArchivedMetaEntry, one
entry per state of an instant. Files are never changed; the numbers count up, so that later files
hold later instants of the same action. Some instants occur twice: a process died after it had
archived them and before they left the active timeline, or in the middle of merging small archives.
Readers count each once.

Nothing is read before it is asked for, newest file first: opening a table never reads the archive.
Source: Hudi's ArchivedTimelineV1, ArchivedTimelineLoaderV1, MetadataConversionUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.archive_block import decode_archive_block, read_archive_frames
from tideline.formats.log_block import BlockFrame, BlockKind
from tideline.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.storage.object_store import ObjectStore

ARCHIVE_WRITE_TOKEN = "1-0-1"
MERGE_PLAN_NAME = "mergeArchivePlan"

UNREADABLE = (CorruptTableError, UnsupportedTableError)
"""What reading an archive raises that is damaged, or of a format that is not read."""
_FILE_NAME = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_[0-9]+-[0-9]+-[0-9]+)?")
_ROLLING_STATS = "ROLLING_STAT"


@dataclass(frozen=True, slots=True, order=True)
class ArchiveFile:
    """One archive file; its path is relative to the table base."""

    number: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ArchivePosition:
    """Up to where a reader has read the archive: the newest file and its size then.

    Where later files may hold earlier instants, `paths` are all files that were read.
    """

    number: int = 0
    size_bytes: int = 0
    paths: frozenset[str] = frozenset()

    def covers(self, file: ArchiveFile) -> bool:
        """Whether the file was read already; some engines append to their newest file."""
        if self.paths:
            return file.path in self.paths
        known = (self.number, self.size_bytes)
        return file.number < self.number or (file.number, file.size_bytes) == known

    def to_json(self) -> dict[str, Any]:
        """What is remembered of it."""
        found = {"archive_number": self.number, "archive_size_bytes": self.size_bytes}
        return found | ({"archive_paths": sorted(self.paths)} if self.paths else {})

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ArchivePosition:
        """Raises KeyError, TypeError and ValueError for what `to_json` did not write."""
        return cls(
            int(content["archive_number"]),
            int(content["archive_size_bytes"]),
            frozenset(map(str, content.get("archive_paths") or ())),
        )


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """One state of an archived instant, with its HoodieArchivedMetaEntry record."""

    instant: Instant
    record: Mapping[str, Any]

    def commit_metadata(self) -> CommitMetadata:
        """What the commit was known by; empty when the entry carries none.

        Raises CorruptTableError.
        """
        content = {**self._commit(), "extraMetadata": self.extra_metadata()}
        return CommitMetadata.from_record(content, path="archive", instant=self.instant)

    def extra_metadata(self) -> dict[str, str]:
        """The extra metadata of the commit alone, which is much cheaper to have."""
        extra = dict(self._commit().get("extraMetadata") or {})
        extra.pop(_ROLLING_STATS, None)
        return extra

    def clean_metadata(self) -> Mapping[str, Any]:
        """The HoodieCleanMetadata of a completed clean; empty when the entry carries none.

        Raises CorruptTableError.
        """
        return self.record.get("hoodieCleanMetadata") or {}

    def rollback_metadata(self) -> Mapping[str, Any]:
        """The HoodieRollbackMetadata of a completed rollback, likewise."""
        return self.record.get("hoodieRollbackMetadata") or {}

    def _commit(self) -> Mapping[str, Any]:
        names = ("hoodieReplaceCommitMetadata", "hoodieCommitMetadata")
        return next((self.record[name] for name in names if self.record.get(name)), {})


@dataclass(frozen=True, slots=True)
class ArchiveContent:
    """What one archive file holds: its entries in file order, and the frames that are damaged."""

    entries: tuple[ArchivedEntry, ...]
    damaged: tuple[BlockFrame, ...] = ()

    @property
    def instants(self) -> frozenset[Instant]:
        """The states of instants it holds."""
        return frozenset(entry.instant for entry in self.entries)


class ArchivedTimeline:
    """The archive of one table, in `.hoodie/<folder>`. Every call reads the store again.

    Another form of archive has `files`, `read` and `completions_around` of its own
    (tideline.hudi.timeline.lsm_history); callers use both in the same way.
    """

    def __init__(self, store: ObjectStore, folder: str = "archived") -> None:
        self.store = store
        self.directory = f".hoodie/{folder}"

    def files(self) -> tuple[ArchiveFile, ...]:
        """The archive files, newest first. One listing."""
        found = (
            (_FILE_NAME.fullmatch(info.path.rpartition("/")[2]), info)
            for info in self.store.list_directory(self.directory).objects
        )
        return tuple(
            sorted(
                (
                    ArchiveFile(int(name[1]), info.path, info.size_bytes)
                    for name, info in found
                    if name is not None
                ),
                reverse=True,
            )
        )

    def owns(self, name: str) -> bool:
        """Whether a file of this name in its folder is the archive's."""
        return _FILE_NAME.fullmatch(name) is not None or name == MERGE_PLAN_NAME

    def position(self, files: Sequence[ArchiveFile]) -> ArchivePosition:
        """Of a reader that has read these files, newest first."""
        newest = files[0]
        return ArchivePosition(newest.number, newest.size_bytes)

    def path(self, number: int) -> str:
        """Where the archive file of this number is written."""
        return f"{self.directory}/.commits_.archive.{number}_{ARCHIVE_WRITE_TOKEN}"

    def read(self, file: ArchiveFile) -> ArchiveContent:
        """All of one file. Damaged blocks are set apart, as Hudi skips them.

        Raises ObjectNotFoundError when the file was merged into another in between,
        CorruptTableError for a block that cannot be understood.
        """
        body = self.store.get(file.path)
        frames = read_archive_frames(body, path=file.path)
        entries = tuple(
            _entry(record, file.path)
            for frame in frames
            for record in decode_archive_block(body, frame, path=file.path)
        )
        damaged = tuple(frame for frame in frames if frame.kind is BlockKind.CORRUPT)
        return ArchiveContent(entries, damaged)

    def entries(self) -> Iterator[ArchivedEntry]:
        """Entries of all states, each once: newest file first, newest instant first in a file.

        A file that vanishes while we look was merged into a newer one, so the walk starts over;
        what was given already is not given again.
        """
        given: set[Instant] = set()
        walked: set[str] = set()
        while True:
            files = [file for file in self.files() if file.path not in walked]
            for file in files:
                try:
                    content = self.read(file)
                except ObjectNotFoundError:
                    break
                walked.add(file.path)
                for entry in sorted(content.entries, key=_newest_first, reverse=True):
                    if entry.instant not in given:
                        given.add(entry.instant)
                        yield entry
            else:
                return

    def completed(self) -> Iterator[ArchivedEntry]:
        """Entries of completed instants alone, otherwise as `entries`."""
        return (entry for entry in self.entries() if entry.instant.is_completed)

    def commits(self) -> Iterator[ArchivedEntry]:
        """Entries of completed commits of all kinds, otherwise as `entries`."""
        return (entry for entry in self.completed() if entry.instant.action in COMMIT_ACTIONS)

    def newest_schema(self) -> str | None:
        """The table's schema as the newest commit has it that names one."""
        schemas = (entry.extra_metadata().get(SCHEMA_KEY) for entry in self.commits())
        return next(filter(None, schemas), None)

    def find(self, times: frozenset[InstantTime]) -> dict[InstantTime, ArchivedEntry]:
        """The completed commits of these times; reads only as far back as needed to find all."""
        found: dict[InstantTime, ArchivedEntry] = {}
        if not times:
            return found
        for entry in self.commits():
            if entry.instant.time in times:
                found[entry.instant.time] = entry
                if len(found) == len(times):
                    break
        return found

    def completions_around(self, time: InstantTime) -> Mapping[InstantTime, InstantTime]:
        """When archived commits completed: the one of this time, if there is one, and what else
        is read on the way."""
        found = self.find(frozenset({time})).values()
        return {entry.instant.time: entry.instant.completed_at or time for entry in found}

    def lacks(self, time: InstantTime) -> bool:
        """Whether no commit of this time was ever archived.

        Only an archive that is readable as a whole and reaches back further can show it; else
        False. Reads all of it. Raises CorruptTableError.
        """
        reaches_back = False
        for file in self.files():
            content = self.read(file)
            if content.damaged:
                return False
            for entry in content.entries:
                if entry.instant.is_completed and entry.instant.action in COMMIT_ACTIONS:
                    if entry.instant.time == time:
                        return False
                    reaches_back = reaches_back or entry.instant.time < time
        return reaches_back


def _newest_first(entry: ArchivedEntry) -> Instant:
    return entry.instant


def _entry(record: Mapping[str, Any], path: str) -> ArchivedEntry:
    time, word = record.get("commitTime") or "", record.get("actionType") or ""
    state = record.get("actionState") or State.COMPLETED.value
    try:
        if not is_instant_time(time):
            raise ValueError(time)
        # Very old archives have upper case words.
        instant = Instant(InstantTime(time), Action(word.lower()), State(state.upper()))
    except ValueError as error:
        raise CorruptTableError(
            "archived instant is not understood", path=path, value=f"{time} {word} {state}"
        ) from error
    return ArchivedEntry(instant, record)
