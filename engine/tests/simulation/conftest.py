"""The simulations run with tables of the version that new ones have, and of other ones in slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.testing.small_table import NEW_TABLES

VERSIONS = (TABLE_VERSION, pytest.param(9, marks=pytest.mark.slow))


@pytest.fixture(scope="module", autouse=True, params=VERSIONS, ids="v{}".format)
def table_version(request: pytest.FixtureRequest) -> Iterator[int]:
    """The version of the tables that a test makes."""
    before, NEW_TABLES.version = NEW_TABLES.version, request.param
    yield request.param
    NEW_TABLES.version = before
