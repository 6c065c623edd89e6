"""A table that writers died on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.testing.small_table import SmallTable, batch


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    """Eight rows; a test takes a copy."""
    table = SmallTable.in_memory()
    table.write("insert", batch(range(8), 1))
    yield table
    table.forget()
