"""Tables that keep a metadata table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.testing.small_table import SmallTable, batch


@pytest.fixture(params=[6, 8, 9])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    """Six rows in a table of each version that has one."""
    table = SmallTable.in_memory(
        table_version=request.param,
        table_type=TableType.MERGE_ON_READ,
        properties={"hoodie.metadata.enable": "true"},
    )
    table.write("insert", batch(range(6), 1))
    yield table
    table.forget()
