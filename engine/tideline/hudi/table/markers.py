"""Markers: one tiny object per data file, made before the file, so that a rollback finds it.

They lie in `.hoodie/.temp/<instant>/`. A direct marker is the object
`<partition>/<data file>.marker.<CREATE|MERGE|APPEND>`; Hudi's timeline server instead batches
such lines into `MARKERS0` ... `MARKERS19` next to a `MARKERS.type`. Tideline writes direct ones and
no type file (Hudi fails on a type file that says DIRECT) and reads both.
Source: Hudi's DirectWriteMarkers, MarkerUtils, IOType.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tideline.errors import CorruptTableError
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, join_path, split_path
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.object_store import ObjectStore

MARKER_DIRECTORY = ".hoodie/.temp"
# Hudi's are empty, and no process reads them. In S3 an empty object may be a placeholder for a
# directory, and telling the two apart takes a listing of each directory.
_BODY = b"\n"

_TYPE_FILE = "MARKERS.type"
_KNOWN_TYPES = frozenset({"TIMELINE_SERVER_BASED", "DIRECT"})
_SERVER_FILE = re.compile(r"MARKERS[0-9]+")


class MarkerKind(Enum):
    """What is done to the marked file (Hudi: IOType)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker. `file_name` is the data file's name.

    In an APPEND marker of Hudi 0.14 it is a base file's name though a log file is meant; with
    later versions the log file written may have another version and token than the one named.
    """

    partition: str
    file_name: str
    kind: MarkerKind

    @classmethod
    def parse(cls, path: str) -> Marker | None:
        """Read `<partition>/<data file>.marker.<KIND>`; None when `path` is not of that form."""
        partition, name = split_path(path)
        file_name, separator, kind = name.rpartition(".marker.")
        if not separator or not file_name or kind not in MarkerKind.__members__:
            return None
        return cls(partition, file_name, MarkerKind(kind))

    @property
    def path(self) -> str:
        """The data file's path relative to the table base."""
        return join_path(self.partition, self.file_name)

    @property
    def appended_slice(self) -> tuple[FileGroupId, InstantTime] | None:
        """What an APPEND marker stands for: a file group, and the instant in its logs' names.

        None when the file name is neither a log file's nor a base file's.
        """
        parse = LogFile.parse if self.file_name.startswith(".") else BaseFile.parse
        file = parse(self.partition, self.file_name)
        return None if file is None else (file.group, file.instant)

    @property
    def is_cdc(self) -> bool:
        """Whether the marked file is a log of changes, which one instant writes whole."""
        log = LogFile.parse(self.partition, self.file_name)
        return log is not None and log.is_cdc

    @property
    def marker_path(self) -> str:
        """The marker's own path, relative to the instant's marker directory."""
        return f"{self.path}.marker.{self.kind}"


def create_marker(store: ObjectStore, instant: InstantTime | str, marker: Marker) -> None:
    """Make the marker durable. Call before the first byte of the data file is written."""
    store.put(f"{_directory(instant)}/{marker.marker_path}", _BODY)


def has_marker(store: ObjectStore, instant: InstantTime | str, marker: Marker) -> bool:
    """Whether a direct marker is still there."""
    return store.head(f"{_directory(instant)}/{marker.marker_path}") is not None


def delete_marker(store: ObjectStore, instant: InstantTime | str, marker: Marker) -> None:
    """Take back a direct marker whose file is not going to be written."""
    _scope(store, instant).remove(f"{_directory(instant)}/{marker.marker_path}")


def list_markers(store: ObjectStore, instant: InstantTime | str) -> tuple[Marker, ...]:
    """All markers of an instant, direct and batched, sorted by path.

    Raises CorruptTableError for a marker type or a line that is not understood, so that no rollback
    works from half a list. The unfinished last line of a batch is skipped: its data file was
    never begun, because the writer waits until its marker is durable.
    """
    directory = _directory(instant)
    found: set[Marker] = set()
    for info in store.list(directory):
        name = info.path.removeprefix(f"{directory}/")
        if name == _TYPE_FILE:
            _check_type(store.get(info.path), info.path)
        elif _SERVER_FILE.fullmatch(name):
            found.update(_read_batch(store.get(info.path), info.path))
        elif (marker := Marker.parse(name)) is not None:
            found.add(marker)
    return tuple(sorted(found, key=lambda marker: (marker.path, marker.kind.value)))


def marked_names(store: ObjectStore) -> frozenset[str]:
    """The names of the marker folders: of instants that wrote files, or are writing them."""
    directories = store.list_directory(MARKER_DIRECTORY).directories
    return frozenset(directory.rpartition("/")[2] for directory in directories)


def delete_markers(store: ObjectStore, instant: InstantTime | str) -> None:
    """Delete the instant's marker directory; fine if there is none.

    Call only once the instant is completed or its rollback is: after a crash in the middle the
    rest lies there unused until it is called again.
    """
    _scope(store, instant).remove_below(_directory(instant))


def _scope(store: ObjectStore, instant: InstantTime | str) -> DeleteScope:
    return DeleteScope(store, f"removing markers of {instant}", control=(_directory(instant),))


def _directory(instant: InstantTime | str) -> str:
    return f"{MARKER_DIRECTORY}/{instant}"


def _check_type(body: bytes, path: str) -> None:
    # Hudi writes the type without a newline; an empty file is one whose writer died.
    text = body.decode("utf-8", errors="replace").strip()
    if text and text not in _KNOWN_TYPES:
        raise CorruptTableError("unknown marker type", path=path, value=text)


def _read_batch(body: bytes, path: str) -> Iterator[Marker]:
    lines = body.split(b"\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            marker = Marker.parse(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError:
            marker = None
        if marker is not None:
            yield marker
        elif number != len(lines) - 1:
            raise CorruptTableError("unreadable marker line", path=path, value=line)
