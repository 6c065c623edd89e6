"""Files that arrived, and the range of those that one commit takes in.

A file is known by path, time and size together: a file that is replaced or touched is a new
arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

IDENTITY_BYTES = 8


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
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
    def arrival(self) -> Arrival:
        return Arrival(self.modified_ms, self.path)

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that change with path, time or size."""
        text = f"{self.modified_ms}\0{self.size_bytes}\0{self.path}"
        return blake2b(text.encode(), digest_size=IDENTITY_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class FileRange:
    """Files in order of arrival; what was listed for the plan sorts after the path `start`."""

    files: tuple[ArrivedFile, ...] = ()
    start: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def only(self, names: Collection[str]) -> FileRange:
        return replace(self, files=tuple(file for file in self.files if file.path in names))

    def limited(self, bytes_max: int) -> FileRange:
        kept: list[ArrivedFile] = []
        for file in self.files:
            if kept and sum(one.size_bytes for one in kept) + file.size_bytes > bytes_max:
                break
            kept.append(file)
        return replace(self, files=tuple(kept))

    def file(self, name: str) -> ArrivedFile:
        """The file of that path."""
        return next(file for file in self.files if file.path == name)

    def stored(self) -> dict[str, Any]:
        files = [[file.path, file.size_bytes, file.modified_ms] for file in self.files]
        return {"files": files, "listedAfter": self.start}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> FileRange:
        files = tuple(
            ArrivedFile(str(path), int(size), int(modified))
            for path, size, modified in content["files"]
        )
        return cls(files, str(content.get("listedAfter", "")))
