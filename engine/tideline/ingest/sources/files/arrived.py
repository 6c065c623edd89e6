"""Files that arrived, and the range of those that one commit takes in.

A file is known by path, time and size together: a file that is replaced or touched is a new
arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
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
    identity: str = field(init=False, repr=False, compare=False)
    """16 hexadecimal digits that change with path, time or size."""

    def __post_init__(self) -> None:
        text = f"{self.modified_ms}\0{self.size_bytes}\0{self.path}"
        digest = blake2b(text.encode(), digest_size=IDENTITY_BYTES)
        object.__setattr__(self, "identity", digest.hexdigest())

    @property
    def arrival(self) -> Arrival:
        return Arrival(self.modified_ms, self.path)


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

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def only(self, names: Collection[str]) -> FileRange:
        return replace(self, files=tuple(file for file in self.files if file.path in names))

    def limited(self, bytes_max: int) -> FileRange:
        ends = accumulate(file.size_bytes for file in self.files)
        count = sum(1 for end in ends if end <= bytes_max)
        return replace(self, files=self.files[: max(1, count)])

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
