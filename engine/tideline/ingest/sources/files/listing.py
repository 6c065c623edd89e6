"""What lies in a landing prefix: files to take in, files set aside, files that are none of ours.

A file is known by path, time and size together: a file that is replaced or touched is a new
arrival. Names beginning with `.` or `_`, at any depth, and empty files are not looked at; files
whose name does not end as the format asks are counted and left alone, and so are names that no
object of a store can have: those with a control character, or that are not Unicode. So are links
out of a local folder, fifos, sockets and devices: nothing outside of the folder is read.

A file that could not be taken in stays where it is. A small note next to it,
`_quarantine/<path>.<identity>.json`, says why and keeps it out; deleting the note, or replacing the
file, has it tried again. Of a file that was taken in but for some rows
`_quarantine/<path>.<identity>.<number>.rows.jsonl` holds these rows, one JSON object a line, until
a user deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from tideline.storage.local.listing import list_regular
from tideline.storage.object_store import ObjectInfo, ObjectStore, is_possible_path
from tideline.wording import counted

QUARANTINE = "_quarantine"
ROWS_ENDING = ".rows.jsonl"
IDENTITY_BYTES = 8
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


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a file stands in the order of arrival: its time, then its path."""

    modified_ms: int
    path: str


@dataclass(frozen=True, slots=True)
class ArrivedFile:
    """One file; `path` is relative to the landing prefix."""

    path: str
    size_bytes: int
    modified_ms: int

    @property
    def position(self) -> Position:
        return Position(self.modified_ms, self.path)

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that change with path, time or size."""
        text = f"{self.modified_ms}\0{self.size_bytes}\0{self.path}"
        return blake2b(text.encode(), digest_size=IDENTITY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class RowsSetAside:
    """An object that holds `rows` rows of the file of that identity; `path` is its own."""

    path: str
    identity: str
    rows: int


@dataclass(frozen=True, slots=True)
class FileListing:
    """One listing: `files` in order of arrival, `quarantined` kept out by a note, and the rows of
    files that were set aside one by one.

    A listing that is not whole has only what sorts after the path `after`.
    """

    files: tuple[ArrivedFile, ...] = ()
    quarantined: tuple[ArrivedFile, ...] = ()
    strangers: tuple[str, ...] = ()
    unnamable: tuple[str, ...] = ()
    irregular: tuple[str, ...] = ()
    rows_set_aside: tuple[RowsSetAside, ...] = ()
    after: str = ""

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
        for found in objects:
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
        files.sort(key=lambda file: file.position)
        return cls(
            tuple(file for file in files if file.identity not in noted),
            tuple(file for file in files if file.identity in noted),
            tuple(sorted(strangers)),
            tuple(sorted(unnamable)),
            tuple(sorted(ascii(path) for path in irregular if not _is_hidden(path))),
            tuple(sorted(rows, key=lambda item: item.path)),
            after,
        )

    @property
    def is_whole(self) -> bool:
        """Whether it has everything that lies in the landing prefix."""
        return not self.after

    @property
    def bad_rows(self) -> int:
        """How many rows wait in the quarantine."""
        return sum(item.rows for item in self.rows_set_aside)

    def describe_quarantine(self) -> str | None:
        """A sentence about what waits in the quarantine; None when nothing does."""
        return _quarantine_text(len(self.quarantined), self.rows_set_aside)

    def describe_strangers(self, file_format: FileFormat) -> str | None:
        """A sentence about files left alone because of their name; None when there are none."""
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
        return f"left alone {'; '.join(said)}" if said else None


def list_arrived(store: ObjectStore, file_format: FileFormat) -> FileListing:
    """List the landing prefix that is the root of `store`; empty when it does not exist.

    Raises StorageUnavailableError.
    """
    found, irregular = list_regular(store)
    return FileListing.of(found, file_format, irregular)


def list_arrived_after(
    store: ObjectStore, file_format: FileFormat, after: str, is_known: Callable[[ArrivedFile], bool]
) -> FileListing:
    """List what sorts after the path `after`; everything where that is empty.

    One request where nothing is new: notes about files in the quarantine are only looked for when
    there is a file that is not known. Raises StorageUnavailableError.
    """
    if not after:
        return list_arrived(store, file_format)
    found, irregular = list_regular(store, after)
    landing = FileListing.of(found, file_format, irregular, after=after)
    has_notes = after < f"{QUARANTINE}/"
    if has_notes or all(map(is_known, landing.files)):
        return landing
    noted = (*found, *store.list(QUARANTINE))
    return FileListing.of(noted, file_format, irregular, after=after)


def _rows_set_aside(path: str) -> list[RowsSetAside]:
    """What the name of an object says; nothing where another program named it."""
    named = re.fullmatch(r".+\.([0-9a-f]+)\.(\d{1,9})", path.removesuffix(ROWS_ENDING), re.DOTALL)
    return [RowsSetAside(path, named[1], int(named[2]))] if named else []


def describe_noted(objects: Iterable[ObjectInfo]) -> str | None:
    """What a quarantine holds, from its listing alone; None when it is empty."""
    paths = [found.path for found in objects]
    rows = [one for path in paths if path.endswith(ROWS_ENDING) for one in _rows_set_aside(path)]
    return _quarantine_text(sum(path.endswith(".json") for path in paths), rows)


def _quarantine_text(files: int, rows: Sequence[RowsSetAside]) -> str | None:
    waiting = [counted(files, "file")] if files else []
    if rows:
        others = counted(len(rows), "other file" if files else "file")
        waiting.append(f"{counted(sum(item.rows for item in rows), 'row')} of {others}")
    return f"{' and '.join(waiting)} set aside in {QUARANTINE}/" if waiting else None


def _is_hidden(path: str) -> bool:
    return any(segment.startswith((".", "_")) for segment in path.split("/"))


_ENDINGS = {
    FileFormat.PARQUET: (".parquet",),
    FileFormat.CSV: tuple(f".csv{ending}" for ending in _COMPRESSIONS),
    FileFormat.JSON: tuple(
        f"{name}{ending}" for name in (".json", ".jsonl", ".ndjson") for ending in _COMPRESSIONS
    ),
}
