"""What resolves the places that a source names."""

from __future__ import annotations

from typing import Protocol

from tideline.errors import ConfigError
from tideline.ingest.location import Location

LOCATION_LENGTH_MAX = 1024


class PlaceFinder(Protocol):
    """Finds places for one ingest; `field` is the one of its source, for messages."""

    def find(self, text: str, store_ref: str | None, field: str) -> Location:
        """The place, in the ingest's own store or the table's. Raises ConfigError."""

    def keep_apart(
        self, field: str, text: str, place: Location, *others: tuple[Location, str]
    ) -> None:
        """Raise ConfigError where the place overlaps the table's location, or one of the others,
        which have names."""

    def refuse(self, field: str, message: str) -> ConfigError:
        """The error that says what is wrong with the field."""


def overlaps(left: str, right: str) -> bool:
    """Whether one of two places lies in the other, or is the other."""
    first, second = left.rstrip("/") + "/", right.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)
