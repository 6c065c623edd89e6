"""The simulations run with tables of the version that new ones have, and of version 9 in slow.

Those of version 9 have a metadata table, which is to be kept, never given up.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.metadata import keep
from tideline.hudi.metadata.disable import disable_metadata_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.storage.lock import Guard, unguarded
from tideline.testing.small_table import NEW_TABLES

VERSIONS = (TABLE_VERSION, pytest.param(9, marks=pytest.mark.slow))


@pytest.fixture(scope="module", autouse=True, params=VERSIONS, ids="v{}".format)
def table_version(request: pytest.FixtureRequest) -> Iterator[int]:
    """The version of the tables that a test makes."""
    before = NEW_TABLES.version, NEW_TABLES.keeps_metadata_table
    NEW_TABLES.version, NEW_TABLES.keeps_metadata_table = request.param, request.param == 9
    with pytest.MonkeyPatch.context() as patched:
        if NEW_TABLES.keeps_metadata_table:
            patched.setattr(keep, "disable_metadata_table", _never)
        yield request.param
    NEW_TABLES.version, NEW_TABLES.keeps_metadata_table = before


def _never(table: HoodieTable, guard: Guard = unguarded) -> bool:
    is_wanted = table.config.properties.get("hoodie.metadata.enable") != "false"
    if is_wanted and table.config.metadata_partitions:
        raise AssertionError("the metadata table was given up")
    return disable_metadata_table(table, guard)
