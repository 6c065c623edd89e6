"""Which files of a listing a table has taken in: the position of a source of files.

- `watermark`: the latest arrival (time, path) taken in;
- `taken`: the identities of the files above `floor`, exactly. Times may go backwards: `mv` keeps
  an old one, a multi-part upload carries the time it began. Exact memory makes that harmless;
- `missed`: those of `taken` that the newest whole listing did not have;
- `floor`: everything at or below it counts as taken in. It only rises, past the oldest files, when
  more than `TAKEN_MAX` identities would be kept, and stays an hour behind the watermark;
- `settled`: how many files at or below the floor are still there. More of them in a listing mean
  that some arrived late; they cannot be distinguished from the others, so they are reported.

Identities of files that have left the landing prefix are dropped, so that a position is not larger
than the listings it is compared with. A store may leave a file out of a listing and show it in the
next: an identity is dropped when two listings in a row, each of a commit, do not have it. A listing
that is not whole shows nothing of that: no identity is dropped then, and the floor stays.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.ingest.sources.files.arrived import IDENTITY_BYTES, Arrival, ArrivedFile

KIND = "files"
TAKEN_MAX = 5_000
TAKEN_WITHOUT_LISTING_MAX = 20_000
"""With more identities than these only a whole listing will do: it lets the floor rise."""
NAMES_OVERLAP = 500
"""As many names as leave half a page of a listing to those that are new."""
FLOOR_DISTANCE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class FilesPosition:
    """See the module's text."""

    watermark: Arrival
    floor: Arrival | None = None
    settled: int = 0
    taken: frozenset[str] = frozenset()
    missed: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        return KIND

    @property
    def needs_whole_look(self) -> bool:
        return len(self.taken) >= TAKEN_WITHOUT_LISTING_MAX

    def has_taken(self, file: ArrivedFile) -> bool:
        """Whether the file's rows count as in the table already."""
        if self.floor is not None and file.arrival <= self.floor:
            return True
        return self.remembers(file)

    def remembers(self, file: ArrivedFile) -> bool:
        """Whether it is certain that the file's rows are in the table: no late file below the floor
        can be mistaken for one that was taken in."""
        return file.identity in self.taken

    def __str__(self) -> str:
        return self.watermark.path

    def without_gone(self, present: Collection[str]) -> FilesPosition:
        """The position by a whole listing with files of these identities."""
        missed = self.taken.difference(present)
        return replace(self, taken=self.taken - (missed & self.missed), missed=missed - self.missed)

    def stored(self) -> dict[str, Any]:
        missed = {"missed": _packed(self.missed)} if self.missed else {}
        return {
            "watermark": [self.watermark.modified_ms, self.watermark.path],
            "floor": None if self.floor is None else [self.floor.modified_ms, self.floor.path],
            "settled": self.settled,
            "taken": _packed(self.taken),
            **missed,
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> FilesPosition:
        """Raises ValueError, KeyError or TypeError where it is none."""
        return cls(
            watermark=_arrival(content["watermark"]),
            floor=None if content["floor"] is None else _arrival(content["floor"]),
            settled=int(content["settled"]),
            taken=_unpacked(content["taken"]),
            missed=_unpacked(content.get("missed", "")),
        )


def _packed(identities: Iterable[str]) -> str:
    packed = b"".join(bytes.fromhex(identity) for identity in sorted(identities))
    return b64encode(packed).decode("ascii")


def _unpacked(text: str) -> frozenset[str]:
    packed = b64decode(text, validate=True)
    if len(packed) % IDENTITY_BYTES:
        raise ValueError("identities are cut short")
    starts = range(0, len(packed), IDENTITY_BYTES)
    return frozenset(packed[start : start + IDENTITY_BYTES].hex() for start in starts)


def _arrival(content: list[object]) -> Arrival:
    modified_ms, path = content
    return Arrival(int(str(modified_ms)), str(path))
