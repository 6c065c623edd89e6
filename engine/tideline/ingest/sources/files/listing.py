"""What lies in a landing prefix: files to take in, files set aside, files that are none of ours;
and which of them come next. Values in, values out.

Names beginning with `.` or `_`, at any depth, and empty files are not looked at; files
whose name does not end as the format asks are counted and left alone, and so are names that no
object of a store can have: those with a control character, or that are not Unicode. So are links
out of a local folder, fifos, sockets and devices: nothing outside of the folder is read. Parquet
files of a table below the prefix are left alone: which of them hold its rows, the table says.

A file that could not be taken in stays where it is. A small note next to it,
`_quarantine/<path>.<identity>.json`, says why and keeps it out; deleting the note, or replacing the
file, has it tried again. Of a file that was taken in but for some rows
`_quarantine/<path>.<identity>.<number>.rows.jsonl` holds these rows, one JSON object a line, until
a user deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tideline.ingest.sources.files.arrived import IDENTITY_BYTES, Arrival, ArrivedFile, FileRange
from tideline.ingest.sources.files.position import (
    FLOOR_DISTANCE_MS,
    NAMES_OVERLAP,
    TAKEN_MAX,
    FilesPosition,
)
from tideline.ingest.sources.source import (
    Backlog,
    Limits,
    Lost,
    Nothing,
    NothingHeldUp,
    Position,
    Range,
    SetAside,
)
from tideline.storage.nested_tables import nested_tables, root_around
from tideline.storage.object_store import ObjectInfo, is_possible_path
from tideline.wording import counted

QUARANTINE = "_quarantine"
ROWS_ENDING = ".rows.jsonl"
_IDENTITY_DIGITS = 2 * IDENTITY_BYTES
_COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
_NAMES_SHOWN = 3


class FileFormat(Enum):
    """Formats that can be taken in; the value is Spark's name."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"

    @property
    def endings(self) -> tuple[str, ...]:
        """How names of this format end, in lower case."""
        return _ENDINGS[self]

    @property
    def is_text(self) -> bool:
        """Whether the files carry no types of their own."""
        return self is not FileFormat.PARQUET

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class RowsSetAside:
    """An object that holds `rows` rows of the file of that identity; `path` is its own."""

    path: str
    identity: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileListing(NothingHeldUp):
    """One listing: `files` in order of arrival, `quarantined` kept out by a note, and the rows of
    files that were set aside one by one.

    `tables` are folders of tables with their formats, "" for the prefix itself.
    A listing that is not whole has only what sorts after the path `after`. A file younger than
    `settle_ms` may still be being written.
    """

    files: tuple[ArrivedFile, ...] = ()
    quarantined: tuple[ArrivedFile, ...] = ()
    strangers: tuple[str, ...] = ()
    unnamable: tuple[str, ...] = ()
    irregular: tuple[str, ...] = ()
    tables: tuple[tuple[str, str], ...] = ()
    rows_set_aside: tuple[RowsSetAside, ...] = ()
    after: str = ""
    file_format: FileFormat = FileFormat.PARQUET
    settle_ms: int = 0
    exists: bool = True

    @classmethod
    def of(
        cls,
        objects: Iterable[ObjectInfo],
        file_format: FileFormat,
        irregular: Iterable[str] = (),
        *,
        after: str = "",
    ) -> FileListing:
        """Sort a listing's objects; `irregular` are paths of what is no file of the folder."""
        files, strangers, unnamable, noted = [], [], [], set()
        rows: list[RowsSetAside] = []
        listed = list(objects)
        tables = tables_among(listed) if file_format is FileFormat.PARQUET else {}
        for found in listed:
            if root_around(found.path, tables) is not None:
                continue
            if found.path.startswith(f"{QUARANTINE}/") and found.path.endswith(ROWS_ENDING):
                rows += _rows_set_aside(found.path)
            elif found.path.startswith(f"{QUARANTINE}/"):
                noted.add(found.path.removesuffix(".json")[-_IDENTITY_DIGITS:])
            elif found.size_bytes == 0 or _is_hidden(found.path):
                continue
            elif not is_possible_path(found.path):
                unnamable.append(ascii(found.path))
            elif found.path.lower().endswith(file_format.endings):
                files.append(ArrivedFile(found.path, found.size_bytes, found.modified_ms))
            else:
                strangers.append(found.path)
        files.sort(key=lambda file: file.arrival)
        return cls(
            tuple(file for file in files if file.identity not in noted),
            tuple(file for file in files if file.identity in noted),
            tuple(sorted(strangers)),
            tuple(sorted(unnamable)),
            tuple(sorted(ascii(path) for path in irregular if not _is_hidden(path))),
            tuple(sorted(tables.items())),
            tuple(sorted(rows, key=lambda item: item.path)),
            after,
            file_format,
        )

    @property
    def is_whole(self) -> bool:
        """Whether it has everything that lies in the landing prefix."""
        return not self.after

    @property
    def set_aside(self) -> SetAside:
        """What waits in the quarantine."""
        rows = sum(item.rows for item in self.rows_set_aside)
        words = _quarantine_text(len(self.quarantined), self.rows_set_aside)
        return SetAside(len(self.quarantined), rows, words)

    @property
    def retained(self) -> None:
        return None

    def at_once(self) -> FileListing:
        return replace(self, settle_ms=0)

    def plan(self, after: Position | None, limits: Limits) -> FileRange | Nothing:
        """The next files by (time, path). One that may still be being written waits."""
        pending = self._pending(after)
        ready = [file for file in pending if not self._is_unsettled(file, limits.now_ms)]
        if ready:
            return FileRange(tuple(ready[: limits.parts_max]), self.after)
        if not pending:
            return Nothing()
        reason = f"{counted(len(pending), 'file')} may not be completely written yet"
        return Nothing(max(file.modified_ms for file in pending) + self.settle_ms, reason)

    def plan_again(self, after: Position, *, inserts: bool) -> Lost:  # noqa: ARG002
        """Files have no order in which they could be."""
        what = "files are not read again into the same rows"
        return Lost(what, "give the ingest a new name to have everything there taken in")

    def backlog(self, after: Position | None, limits: Limits) -> Backlog:
        """What waits."""
        known, pending = _of_files(after), self._pending(after)
        ready = [file for file in pending if not self._is_unsettled(file, limits.now_ms)]
        return Backlog(
            parts=len(ready),
            size_bytes=sum(file.size_bytes for file in ready),
            unsettled=len(pending) - len(ready),
            late=0 if known is None else max(0, self._count_at(known.floor) - known.settled),
            remembered=0 if known is None else sum(map(known.remembers, self.files)),
            oldest_ms=min((file.modified_ms for file in pending), default=None),
        )

    def still_there(self, planned: Range, after: Position | None) -> FileRange:
        """The files of a plan that are as they were, and not taken in since."""
        known, files = _of_files(after), files_of(planned)
        present = {file.identity for file in self.files}
        kept = (file for file in files.files if file.identity in present)
        left = tuple(file for file in kept if known is None or not known.has_taken(file))
        return FileRange(left, files.start)

    def advance(
        self, after: Position | None, taken: Range, *, taken_max: int = TAKEN_MAX
    ) -> FilesPosition:
        """The position after `taken` (never empty) went in, by the landing prefix as it is now."""
        files = files_of(taken).files
        newest = max(file.arrival for file in files)
        start = _of_files(after) or FilesPosition(newest)
        if self.is_whole:
            present = {file.identity for file in (*self.files, *self.quarantined)}
            settled = min(start.settled, self._count_at(start.floor))
            start = replace(start.without_gone(present), settled=settled)
        grown = replace(
            start,
            watermark=max(start.watermark, newest),
            taken=start.taken | {file.identity for file in files},
        )
        return self._with_floor(grown, taken_max) if self.is_whole else grown

    def look_after(self, position: Position) -> str:
        """As many names as the overlap before the first file that waits, or before the end.

        Where names sort by time, a look may leave out the paths up to this one. A file that arrives
        below it later is in a whole listing alone.
        """
        first = min((file.path for file in self._pending(position)), default=None)
        settled = (file.path for file in (*self.files, *self.quarantined))
        names = sorted(path for path in settled if first is None or path < first)
        return names[-NAMES_OVERLAP - 1] if len(names) > NAMES_OVERLAP else self.after

    def is_drained(self, position: Position) -> bool:
        return not self._pending(position)

    def was_read_to(self, position: Position) -> bool:
        known = _of_files(position)
        return known is not None and any(map(known.remembers, self.files))

    def describe_others(self) -> str | None:
        """A sentence about files left alone because of their name; None when there are none."""
        file_format = self.file_format
        endings = " or ".join(file_format.endings)
        reasons = (
            (self.strangers, f"whose name does not end in {endings}"),
            (self.unnamable, "whose name has a control character or is not UTF-8, to be renamed"),
            (self.irregular, "of another kind, such as a link out of the folder or a fifo"),
        )
        said = [
            f"{counted(len(paths), 'file')} {reason}: {', '.join(paths[:_NAMES_SHOWN])}"
            + (", ..." if len(paths) > _NAMES_SHOWN else "")
            for paths, reason in reasons
            if paths
        ]
        if self.tables:
            named = [f"{kind} table {root}/" for root, kind in self.tables]
            more = ", ..." if len(named) > _NAMES_SHOWN else ""
            said.append(f"what is in the {', the '.join(named[:_NAMES_SHOWN])}{more}")
        return f"left alone {'; '.join(said)}" if said else None

    def _pending(self, after: Position | None) -> list[ArrivedFile]:
        known = _of_files(after)
        return [file for file in self.files if known is None or not known.has_taken(file)]

    def _is_unsettled(self, file: ArrivedFile, now_ms: int) -> bool:
        # A time in the future comes from another clock and says nothing about writing.
        return now_ms - self.settle_ms < file.modified_ms <= now_ms

    def _count_at(self, floor: Arrival | None) -> int:
        if floor is None:
            return 0
        return sum(1 for file in self.files if file.arrival <= floor)

    def _with_floor(self, position: FilesPosition, taken_max: int) -> FilesPosition:
        """Let the floor pass the oldest files while there are too many identities.

        It never passes a file that is not taken in yet, nor one younger than the distance allows.
        """
        excess = len(position.taken) - taken_max
        floor, settled, taken = position.floor, position.settled, set(position.taken)
        for file in self.files:
            if excess <= 0:
                break
            if floor is not None and file.arrival <= floor:
                continue
            too_young = file.modified_ms > position.watermark.modified_ms - FLOOR_DISTANCE_MS
            if too_young or file.identity not in taken:
                break
            floor, settled, excess = file.arrival, settled + 1, excess - 1
            taken.remove(file.identity)
        return replace(position, floor=floor, settled=settled, taken=frozenset(taken))


def files_of(taken: Range) -> FileRange:
    """A range as one of files. Raises TypeError where it is of another kind of source."""
    if not isinstance(taken, FileRange):
        raise TypeError(f"no range of files: {taken}")
    return taken


def _of_files(position: Position | None) -> FilesPosition | None:
    if position is None or isinstance(position, FilesPosition):
        return position
    raise TypeError(f"no position in files: {position}")


def _rows_set_aside(path: str) -> list[RowsSetAside]:
    """What the name of an object says; nothing where another program named it."""
    named = re.fullmatch(r".+\.([0-9a-f]+)\.(\d{1,9})", path.removesuffix(ROWS_ENDING), re.DOTALL)
    return [RowsSetAside(path, named[1], int(named[2]))] if named else []


def describe_noted(objects: Iterable[ObjectInfo]) -> str | None:
    """What a quarantine holds, from its listing alone; None when it is empty."""
    paths = [found.path for found in objects]
    rows = [
        rows_set_aside
        for path in paths
        if path.endswith(ROWS_ENDING)
        for rows_set_aside in _rows_set_aside(path)
    ]
    return _quarantine_text(sum(path.endswith(".json") for path in paths), rows)


def _quarantine_text(files: int, rows: Sequence[RowsSetAside]) -> str | None:
    waiting = [counted(files, "file")] if files else []
    if rows:
        others = counted(len(rows), "other file" if files else "file")
        waiting.append(f"{counted(sum(item.rows for item in rows), 'row')} of {others}")
    return f"{' and '.join(waiting)} set aside in {QUARANTINE}/" if waiting else None


def tables_among(objects: Iterable[ObjectInfo]) -> dict[str, str]:
    """Folders of tables with their formats, "" for the listed one."""
    roots = nested_tables(f"_/{found.path}" for found in objects)
    return {root.removeprefix("_").removeprefix("/"): kind for root, kind in roots.items()}


def _is_hidden(path: str) -> bool:
    return any(segment.startswith((".", "_")) for segment in path.split("/"))


_ENDINGS = {
    FileFormat.PARQUET: (".parquet",),
    FileFormat.CSV: tuple(f".csv{ending}" for ending in _COMPRESSIONS),
    FileFormat.JSON: tuple(
        f"{name}{ending}" for name in (".json", ".jsonl", ".ndjson") for ending in _COMPRESSIONS
    ),
}
