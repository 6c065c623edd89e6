"""Tables that others wrote read to their expected rows without Spark."""

from __future__ import annotations

import pytest

from tideline.lake_table import LakeTable
from tideline.testing.fixtures import canonical_rows, expected, fixture_table, tables_of_versions

pytestmark = pytest.mark.fixtures

TABLES = tables_of_versions("3", "4", "5", "6", "8", "9")
WITH_ANOTHER_ANSWER = ("bootstrap",)
"""The recorded answer of hudi-rs lacks the columns of the sources."""
WITH_AN_EXTRA = ("lance",)


def test_there_are_real_tables_to_read() -> None:
    fixture_table("hudi-rs.cow.v6_nonpartitioned/data/v6_nonpartitioned")
    assert len(TABLES) >= 70


@pytest.mark.parametrize("path", TABLES)
def test_the_rows_are_the_expected_ones(path: str) -> None:
    if any(word in path for word in (*WITH_ANOTHER_ANSWER, *WITH_AN_EXTRA)):
        pytest.skip("tested with its own kind")
    answer = expected(path)["expected"]
    rows = LakeTable.open(str(fixture_table(path))).to_arrow()
    assert rows.num_rows == answer["rows"]
    if answer["sha256_user_columns"]:
        _, lines = canonical_rows().rows(rows)
        assert canonical_rows().digest(lines) == answer["sha256_user_columns"]
