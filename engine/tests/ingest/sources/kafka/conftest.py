"""The schema registry of a test of values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.testing.schema_registry import SchemaRegistry, schema_registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """One for the test."""
    with schema_registry() as found:
        yield found
