"""The simulations run with tables of version 9, in slow also with tables of version 6, and with
tables of both that have a metadata table, which is to be kept, never given up.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.metadata_table import keep
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.storage.lock import Guard, unguarded
from tideline.testing.small_table import new_tables

TABLES = (
    pytest.param((9, False), id="v9"),
    pytest.param((9, True), id="v9-listed", marks=pytest.mark.slow),
    pytest.param((6, False), id="v6", marks=pytest.mark.slow),
    pytest.param((6, True), id="v6-listed", marks=pytest.mark.slow),
)


@pytest.fixture(scope="module", autouse=True, params=TABLES)
def table_version(request: pytest.FixtureRequest) -> Iterator[int]:
    """The version of the tables that a test makes."""
    version, keeps = request.param
    with new_tables(version, keep_metadata_table=keeps), pytest.MonkeyPatch.context() as patched:
        if keeps:
            patched.setattr(keep, "disable_metadata_table", _never)
        yield version


def _never(table: HoodieTable, guard: Guard = unguarded, *, is_current: bool = False) -> bool:
    is_wanted = table.config.properties.get("hoodie.metadata.enable") != "false"
    if is_wanted and table.config.metadata_partitions:
        raise AssertionError("the metadata table was given up")
    return disable_metadata_table(table, guard, is_current=is_current)
