"""The files that a table has taken in, as far as they are still in the landing prefix.

1. The commits of the ingest, the newest first, say which files each took in, and by their positions
   which version of a file of that name. One that is not as it was is gone, or was replaced.
2. A file whose commit is not known any more is of the table where its position says so. In which
   order such files came is not known.
3. Where late files are among those below the floor, which of them are in the table is not known
   either: none of them is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tideline.ingest.sources.files.arrived import ArrivedFile, FileRange
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileListing, files_of
from tideline.ingest.sources.files.position import FilesPosition
from tideline.ingest.sources.replay import History, Replay, ReplayRange, TakenIn
from tideline.ingest.sources.source import Available, Declared, Limits, Lost, Position, Range
from tideline.wording import counted

FILES_MAX = 500
"""Of one range, and so many bytes of them."""
_BYTES_MAX = 64 * 1024 * 1024
_ROW_BYTES = 16
"""Rows are counted by their bytes, before any is read: buckets may be smaller than they need be."""
_NAMES_SHOWN = 3
_UNKNOWN = "~"
"""Behind every instant."""


def replay_files(
    declared: Declared, available: Available, until: Position, history: History
) -> Replay | Lost:
    """Ranges of files of one commit each, by what is known of the commits."""
    assert isinstance(declared, DeclaredFiles)
    assert isinstance(available, FileListing)
    assert isinstance(until, FilesPosition)
    found = _Found.of(available, until)
    for taken, before in _pairs(history()):
        found.note(taken, before)
    found.note_rest(available, until)
    ranges = [ReplayRange(part) for file in found.unknown for part in _ranges([file])]
    ranges += [
        ReplayRange(part, instant)
        for instant, files in sorted(found.by_commit.items())
        for part in _ranges(files)
    ]
    size_bytes = sum(item.range.size_bytes for item in ranges)
    return Replay(
        tuple(ranges),
        tuple(found.words()),
        lambda _: False,
        size_bytes // _ROW_BYTES,
        is_counted=False,
        whole=frozenset(found.whole),
        gone_until=found.gone_until,
        joined=_joined,
    )


@dataclass(slots=True)
class _Found:
    """What the commits say of the files that are there: `by_path` those that the position has."""

    by_path: dict[str, ArrivedFile]
    by_identity: dict[str, ArrivedFile]
    paths: frozenset[str]
    by_commit: dict[str, list[ArrivedFile]] = field(default_factory=dict)
    unknown: list[ArrivedFile] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    gone: int = 0
    replaced: int = 0
    names: list[str] = field(default_factory=list)
    gone_until: str = ""
    since: str = _UNKNOWN
    is_complete: bool = False
    late: int = 0

    @classmethod
    def of(cls, available: FileListing, until: FilesPosition) -> _Found:
        files = [file for file in available.files if until.has_taken(file)]
        files += [file for file in available.quarantined if until.remembers(file)]
        every = (*available.files, *available.quarantined)
        return cls(
            {file.path: file for file in files},
            {file.identity: file for file in files},
            frozenset(file.path for file in every),
        )

    def note(self, taken: TakenIn, before: TakenIn | None) -> None:
        """What one commit took in, given the commit before it where that is known."""
        files, gone = [], 0
        for name in taken.names:
            file = self.by_path.get(name)
            if file is not None and _took(taken, before, file):
                files.append(file)
                continue
            gone += 1
            self.replaced += name in self.paths
            if len(self.names) < _NAMES_SHOWN:
                self.names.append(name)
        is_whole = not gone
        if taken.is_cut:
            named = {file.path for file in files}
            files += [file for file in self._others(taken, before) if file.path not in named]
            files.sort(key=lambda file: file.arrival)
            others = self._others_gone(taken, before)
            gone, is_whole = gone + others, False
        self.by_commit[taken.instant] = files
        self.since = min(self.since, taken.instant)
        self.is_complete = taken.generation == 1
        self.gone += gone
        if is_whole:
            self.whole.add(taken.instant)
        else:
            self.gone_until = max(self.gone_until, taken.instant)

    def note_rest(self, available: FileListing, until: FilesPosition) -> None:
        """What no commit that is known took in."""
        known = {file.identity for files in self.by_commit.values() for file in files}
        rest = [file for identity, file in self.by_identity.items() if identity not in known]
        if self.is_complete:
            # What is below the floor without a commit came late, and is in no table.
            rest = []
        late = available.backlog(until, Limits(1, 0)).late
        if rest and late:
            self.late = sum(1 for file in rest if not until.remembers(file))
            rest = [file for file in rest if until.remembers(file)]
        self.unknown = sorted(rest, key=lambda file: file.arrival)
        if not self.is_complete:
            self.gone_until = max(self.gone_until, "0")

    def words(self) -> Iterator[str]:
        if self.gone:
            others = ", ..." if self.gone > len(self.names) else ""
            names = f": {', '.join(self.names)}{others}" if self.names else ""
            again = f", {self.replaced:,} of them replaced" if self.replaced else ""
            yield f"{counted(self.gone, 'file')}{again}{names}"
        if not self.is_complete:
            since = "" if self.since == _UNKNOWN else f" before {self.since}"
            yield f"what was taken in{since}: no commit says what that was"
        if self.late:
            yield f"{counted(self.late, 'file')} that may have come late"

    def _others(self, taken: TakenIn, before: TakenIn | None) -> list[ArrivedFile]:
        """The files of a commit that does not name them all."""
        if before is None and taken.generation > 1:
            return []
        return [file for file in self.by_identity.values() if _took(taken, before, file)]

    def _others_gone(self, taken: TakenIn, before: TakenIn | None) -> int:
        """How many that it did not name are gone, as far as the position still has them."""
        then = frozenset[str]() if before is None else _position(before).taken
        more = len((_position(taken).taken - then) - self.by_identity.keys())
        return max(0, more - sum(name not in self.by_path for name in taken.names))


def _took(taken: TakenIn, before: TakenIn | None, file: ArrivedFile) -> bool:
    """Whether a commit that names the file took in this version of it."""
    if not _position(taken).has_taken(file):
        return False
    return before is None or not _position(before).has_taken(file)


def _position(taken: TakenIn) -> FilesPosition:
    assert isinstance(taken.position, FilesPosition)
    return taken.position


def _pairs(commits: Iterator[TakenIn]) -> Iterator[tuple[TakenIn, TakenIn | None]]:
    """Each commit, and the one before it where that is known. What comes behind a gap is left."""
    newer: TakenIn | None = None
    for commit in commits:
        if newer is not None:
            if commit.generation != newer.generation - 1:
                break
            yield newer, commit
        newer = commit
    if newer is not None:
        yield newer, None


def _ranges(files: Sequence[ArrivedFile]) -> Iterator[FileRange]:
    """The files in ranges of a bounded size."""
    chosen: list[ArrivedFile] = []
    size_bytes = 0
    for file in files:
        size_bytes += file.size_bytes
        if chosen and (size_bytes > _BYTES_MAX or len(chosen) == FILES_MAX):
            yield FileRange(tuple(chosen))
            chosen, size_bytes = [], file.size_bytes
        chosen.append(file)
    if chosen:
        yield FileRange(tuple(chosen))


def _joined(ranges: Sequence[Range]) -> FileRange | None:
    """All files of these, where they are not too many for one range and each is there once."""
    files = tuple(file for item in ranges for file in files_of(item).files)
    is_small = sum(file.size_bytes for file in files) <= _BYTES_MAX and len(files) <= FILES_MAX
    is_once = len({file.path for file in files}) == len(files)
    return FileRange(files) if is_small and is_once else None
