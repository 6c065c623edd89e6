"""What lies in a landing prefix: files to take in, files set aside, files that are none of ours.

A file is known by path, time and size together: a file that is replaced or touched is a new
arrival. Names beginning with `.` or `_`, at any depth, and empty files are not looked at; files
whose name does not end as the format asks are counted and left alone.

A file that could not be read stays where it is. A small note beside it,
`_quarantine/<path>.<identity>.json`, says why and keeps it out; deleting the note, or replacing the
file, has it tried again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from tideline.storage.object_store import ObjectInfo, ObjectStore

QUARANTINE = "_quarantine"
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
class LandingFile:
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
class Landing:
    """One listing: `files` in order of arrival, `quarantined` kept out by a note."""

    files: tuple[LandingFile, ...] = ()
    quarantined: tuple[LandingFile, ...] = ()
    strangers: tuple[str, ...] = ()

    @classmethod
    def of(cls, objects: Iterable[ObjectInfo], file_format: FileFormat) -> Landing:
        """Sort a listing's objects."""
        files, strangers, noted = [], [], set()
        for found in objects:
            if found.path.startswith(f"{QUARANTINE}/"):
                noted.add(found.path.removesuffix(".json")[-_IDENTITY_DIGITS:])
            elif found.size_bytes == 0 or _is_hidden(found.path):
                continue
            elif found.path.lower().endswith(file_format.endings):
                files.append(LandingFile(found.path, found.size_bytes, found.modified_ms))
            else:
                strangers.append(found.path)
        files.sort(key=lambda file: file.position)
        return cls(
            tuple(file for file in files if file.identity not in noted),
            tuple(file for file in files if file.identity in noted),
            tuple(sorted(strangers)),
        )

    def describe_strangers(self, file_format: FileFormat) -> str | None:
        """A sentence about files left alone because of their name; None when there are none."""
        if not self.strangers:
            return None
        shown = ", ".join(self.strangers[:_NAMES_SHOWN])
        more = ", ..." if len(self.strangers) > _NAMES_SHOWN else ""
        endings = " or ".join(file_format.endings)
        return f"{len(self.strangers)} files are left alone, not ending in {endings}: {shown}{more}"


def list_landing(store: ObjectStore, file_format: FileFormat) -> Landing:
    """List the landing prefix that is the root of `store`; empty when it does not exist.

    Raises StorageUnavailable.
    """
    return Landing.of(store.list(), file_format)


def note_path(file: LandingFile) -> str:
    """Where the note about a quarantined file lies."""
    return f"{QUARANTINE}/{file.path}.{file.identity}.json"


def quarantine(store: ObjectStore, file: LandingFile, *, reason: str, now_ms: int) -> None:
    """Keep `file` out from now on, saying why. Repeating it is harmless."""
    note = {
        "file": file.path,
        "sizeBytes": file.size_bytes,
        "modifiedMs": file.modified_ms,
        "notedMs": now_ms,
        "reason": reason,
        "hint": "Delete this note, or replace the file, to have it tried again.",
    }
    store.put(note_path(file), json.dumps(note, indent=2, ensure_ascii=False).encode() + b"\n")


def _is_hidden(path: str) -> bool:
    return any(segment.startswith((".", "_")) for segment in path.split("/"))


_ENDINGS = {
    FileFormat.PARQUET: (".parquet",),
    FileFormat.CSV: tuple(f".csv{ending}" for ending in _COMPRESSIONS),
    FileFormat.JSON: tuple(
        f"{name}{ending}" for name in (".json", ".jsonl", ".ndjson") for ending in _COMPRESSIONS
    ),
}
