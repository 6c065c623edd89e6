"""The operator reads no folder of its own machine."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.storage.memory.store import MemoryStore
from tideline_operator.reading.access import Access


@pytest.mark.parametrize("place", ["file:///etc", "/proc/self", "file:/dev", "memory://x/t"])
def test_a_place_that_a_catalog_has_answered_is_not_opened(place: str) -> None:
    with pytest.raises(ConfigError, match="no folders of its own machine"):
        Access().open_store(Location(place))


def test_tests_open_what_they_name() -> None:
    opened = Access(allows_local=True).open_store(Location("memory://x/t"))
    assert isinstance(opened, MemoryStore)
