"""Where the pages of a column chunk are in the new file that they were put into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class PagePlaces(Protocol):
    """Pages by where they began in the file they come from."""

    def start(self, at: int) -> int:
        """Where one begins now. Raises LookupError for a place where none did."""

    def size_bytes(self, at: int, stored_bytes: int) -> int:
        """How long one with its header is, which was `stored_bytes`. Raises LookupError."""


@dataclass(frozen=True, slots=True)
class CopiedPages:
    """All have moved by the same distance."""

    distance: int

    def start(self, at: int) -> int:
        return at + self.distance

    def size_bytes(self, at: int, stored_bytes: int) -> int:  # noqa: ARG002
        return stored_bytes


@dataclass(frozen=True, slots=True)
class TranscodedPages:
    """Each has a place and a size of its own; the chunk is in another codec."""

    pages: Mapping[int, tuple[int, int]]
    codec: int
    header_growth_bytes: int
    """How much longer all headers are together."""

    @property
    def chunk_bytes(self) -> int:
        """Of all pages with their headers."""
        return sum(size_bytes for _, size_bytes in self.pages.values())

    def start(self, at: int) -> int:
        return self.pages[at][0]

    def size_bytes(self, at: int, stored_bytes: int) -> int:  # noqa: ARG002
        return self.pages[at][1]
