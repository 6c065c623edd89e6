"""Where recorded files really are: one spelling per file, so that files can be compared."""

from __future__ import annotations

import os
import posixpath

from tideline.iceberg.table.file_io import FileIO
from tideline.storage.named_places import normalised

_LOCAL = "file:///"


class FilePlaces:
    """Places of one table's files, as absolute URIs without aliases (`s3a`, `file:/`)."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._recorded = f"{io.recorded.rstrip('/')}/"
        self._root = f"{io.location.uri.rstrip('/')}/"
        self._directories: dict[str, str] = {}
        self.is_moved = normalised(io.recorded) != normalised(io.location.uri)

    def of(self, uri: str) -> str:
        """The place of a recorded location. Raises CorruptTableError for what is none."""
        if uri.startswith(self._recorded):
            below = uri[len(self._recorded) :]
            if "//" not in (path := f"/{below}") and "/." not in path:
                return self._root + below
        place = self._io.actual_uri(uri)
        if place.startswith(_LOCAL) and "/." in place:
            # The system of files takes `.` and `..` out, as it does empty names.
            return _LOCAL + posixpath.normpath(place[len(_LOCAL) - 1 :]).lstrip("/")
        return place

    def real(self, place: str) -> str:
        """The same place by the real names of its directories, links resolved, on this machine."""
        if not place.startswith(_LOCAL):
            return place
        directory, _, name = place[len(_LOCAL) - 1 :].rpartition("/")
        if directory not in self._directories:
            self._directories[directory] = os.path.realpath(directory or "/").lstrip("/")
        real = self._directories[directory]
        return f"{_LOCAL}{real}/{name}" if real else _LOCAL + name

    def is_own(self, place: str) -> bool:
        """Whether a file may be deleted as this table's.

        A table that was copied elsewhere still names files of the original, which lie outside its
        folder and are not its own.
        """
        return not self.is_moved or place.startswith(self._root)

    def is_below_table(self, place: str) -> bool:
        """Whether a place lies in the table's folder."""
        return place.startswith(self._root)
