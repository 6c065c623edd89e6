"""A table against what it is taken for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.check_finding import Finding
from tideline.hudi.table.properties import update_table_properties
from tideline.testing.small_table import SmallTable, batch


@pytest.fixture
def table() -> Iterator[SmallTable]:
    made = SmallTable.in_memory()
    made.write("upsert", batch(range(4), 1))
    made.fake_clock.advance(3600)
    made.write("upsert", batch(range(4), 2))
    yield made
    made.forget()


def findings(table: SmallTable) -> list[Finding]:
    return [finding for finding in table.lake().check() if finding.check == "capabilities"]


def test_a_sound_table_is_what_it_is_taken_for(table: SmallTable) -> None:
    assert findings(table) == []


def test_a_declared_zone_is_compared_with_the_times_of_objects(table: SmallTable) -> None:
    changes = {"hoodie.table.timeline.timezone": "LOCAL", "tideline.timezone": "Asia/Kolkata"}
    update_table_properties(table.store(), changes)
    (finding,) = findings(table)
    assert str(finding.severity) == "warning"
    assert "tideline.timezone may be a mistake" in finding.message


def test_a_declared_bucket_index_is_compared_with_file_ids(table: SmallTable) -> None:
    changes = {"tideline.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    update_table_properties(table.store(), changes)
    (finding,) = findings(table)
    assert str(finding.severity) == "error"
    assert "rows lie in buckets, and this file group is in none" in finding.message


def test_what_is_refused_is_noted_once_for_each_reason(table: SmallTable) -> None:
    update_table_properties(table.store(), {"hoodie.table.cdc.enabled": "true"})
    (finding,) = findings(table)
    assert str(finding.severity) == "note"
    assert "writes of rows, compaction, log compaction: the table keeps a log" in finding.message
