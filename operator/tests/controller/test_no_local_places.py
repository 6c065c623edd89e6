"""The controller reads no folder of its own machine, whoever names it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Place
from tideline.storage.memory import MemoryStore
from tideline_operator.controller.table_source import TableSource
from tideline_operator.testing.table_states import resolved_iceberg


def source(**settings: bool) -> TableSource:
    """One that asks nothing of a cluster before it opens a store."""
    unused = cast(Any, None)
    return TableSource(unused, unused, unused, unused, unused, unused, **settings)


@pytest.mark.parametrize("place", ["file:///etc", "/proc/self", "file:/dev", "memory://x/t"])
def test_a_place_that_a_catalog_has_answered_is_not_opened(place: str) -> None:
    """The table has none of its own: its catalog says where it is."""
    with pytest.raises(ConfigError, match="no folders of its own machine"):
        source().open_store(resolved_iceberg(), Place(place))


def test_tests_open_what_they_name() -> None:
    opened = source(allows_local=True).open_store(resolved_iceberg(), Place("memory://x/t"))
    assert isinstance(opened, MemoryStore)
