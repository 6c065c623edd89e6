"""Hudi's own validator finds nothing wrong with metadata tables of version 6 that we keep."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tideline.hudi.metadata_table.record_index import KeyPlace
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    RECORD_INDEX,
    TableType,
)
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_validator import STATISTICS, validate
from tideline.testing.small_table import COMPACTED_OFTEN, ONCE, SmallTable, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RIGHT = {
    ("latest file slices", "p0"),
    ("latest base files", "p0"),
    ("all file groups", "p0"),
    ("bloom filters", "p0"),
    ("record index content", ""),
}
ALONE = {"hoodie.metadata.compact.max.delta.commits": "1", "hoodie.clean.automatic": "false"}
"""Its Spark cannot merge two records of a key in the record index: all older ones are compacted."""


@pytest.fixture(params=list(TableType), ids=str)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> SmallTable:
    table = SmallTable.create(
        StoreLocation.of(tmp_path / "t"),
        properties=COMPACTED_OFTEN,
        table_type=request.param,
        table_version=6,
    )
    table.write("insert", batch(range(12), 0, partitions=1))
    for name in (BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX):
        table.lake().indexes().create(name)
    return table


def work(small: SmallTable) -> None:
    """Writes of all kinds, deletes that leave file groups of indexes empty among them, and
    services; in the end rows with new keys."""
    chosen = random.Random(str(small.lake().hoodie_table.config.table_type))
    for v in range(1, 15):
        operation = chosen.choice(["upsert", "upsert", "delete", "insert_overwrite"])
        small.write(operation, batch(chosen.sample(range(40), 4), v, partitions=1))
        if v % 5 == 0:
            small.lake().run("clustering", options=ONCE)
        elif v % 6 == 0:
            small.lake().run("compaction", options=ONCE)
    small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "2"})
    small.write("bulk_insert", batch(range(100, 106), 50, partitions=1), options=ALONE)


def test_it_finds_nothing(small: SmallTable, tmp_path: Path) -> None:
    work(small)
    listed = small.lake().hoodie_table.config.metadata_partitions
    assert listed == (BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX)
    found = validate(tmp_path / "t")
    assert (set(found.right), set(found.wrong)) == (RIGHT, set()), found.printed[-5000:]
    statistics = validate(tmp_path / "t", STATISTICS)
    assert statistics.right == {("column stats", "p0")}, statistics.printed[-5000:]


def test_it_finds_a_wrong_place(
    small: SmallTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its silence says something."""
    stored = KeyPlace.stored

    def elsewhere(place: KeyPlace) -> bytes:
        other = f"{place.group.file_id[:-3]}f-0"
        return stored(KeyPlace(FileGroupId(place.group.partition, other), place.since_ms))

    work(small)
    monkeypatch.setattr(KeyPlace, "stored", elsewhere)
    small.write("bulk_insert", batch([200], 51, partitions=1), options=ALONE)
    found = validate(tmp_path / "t")
    assert ("record index content", "") not in found.right
    assert RIGHT - found.right == {("record index content", "")}, found.printed[-5000:]
