"""From the value of a location to the store there."""

from __future__ import annotations

from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation


def locate(place: Location) -> StoreLocation:
    """The store at `place`. Raises ConfigError when it cannot be one."""
    return StoreLocation.of(place.uri, dict(place.options))
