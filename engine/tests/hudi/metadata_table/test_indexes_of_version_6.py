"""What version 6 has besides `files`, as made by us, is right after everything that is done."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    TableType,
)
from tideline.hudi.timeline.instant import Action
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import fixture_table, require_fixtures, tables_of_versions
from tideline.testing.kept_statistics import statistics_of_files
from tideline.testing.small_table import COMPACTED_OFTEN, SmallTable, batch
from tideline.testing.table_audit import stale_listing
from tideline.testing.work_at_random import work_at_random

ALL = (BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX)


@pytest.fixture(params=list(TableType), ids=str)
def small(request: pytest.FixtureRequest) -> SmallTable:
    table = SmallTable.in_memory(
        table_version=6, table_type=request.param, properties=COMPACTED_OFTEN
    )
    table.write("insert", batch(range(12), 0, partitions=3))
    for name in (BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX):
        table.lake().indexes().create(name)
    return table


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def assert_right(small: SmallTable) -> None:
    table = opened(small)
    assert table.config.metadata_partitions == ALL
    assert stale_listing(table) == []
    slices = table.files.view(table.timeline()).all_latest_slices()
    bases = {file_slice.base_file.name for file_slice in slices if file_slice.base_file}
    assert {(name, "v") for name in bases} <= statistics_of_files(table).keys()
    assert small.lake().check(keys=True) == ()


def test_their_definitions_are_of_the_first_version(small: SmallTable) -> None:
    assert_right(small)
    defined = read_definitions(opened(small))
    versions = {name: each["version"] for name, each in defined.items()}
    assert versions == {COLUMN_STATS: "V1", RECORD_INDEX: "V1"}
    with pytest.raises(UnsupportedTableError, match=f"{PARTITION_STATS} is not kept"):
        small.lake().indexes().create(PARTITION_STATS)


@pytest.mark.parametrize("seed", range(4))
def test_they_are_right_after_random_work(small: SmallTable, seed: int) -> None:
    chance = random.Random(seed)
    work_at_random(small, chance, assert_right, writes_max=40)
    small.forget()


@pytest.mark.fixtures
def test_our_commits_continue_metadata_tables_of_hudi(tmp_path: Path) -> None:
    """Statistics of 0.x have no definition, and end; all else stays."""
    require_fixtures()
    kept: set[str] = set()
    for number, path in enumerate(tables_of_versions("6")):
        folder = Path(shutil.copytree(fixture_table(path), tmp_path / str(number)))
        location = StoreLocation.of(folder)
        try:
            lake = LakeTable(open_table(location))
            listed = {*lake.hoodie_table.config.metadata_partitions}
            rows = lake.scan().read_all()
            values = [name for name in rows.column_names if not name.startswith("_hoodie_")]
            if FILES not in listed:
                continue
            lake.write(rows.select(values).slice(0, 1), "upsert")
        except UnsupportedTableError:
            continue
        table = open_table(location)
        assert listed.difference(table.config.metadata_partitions) <= {COLUMN_STATS}, path
        assert stale_listing(table) == [], path
        assert LakeTable(table).scan().read_all().num_rows == rows.num_rows
        kept.update(table.config.metadata_partitions)
    assert {FILES, COLUMN_STATS, RECORD_INDEX} <= kept


def test_a_restore_and_a_change_of_the_version_make_them_again(small: SmallTable) -> None:
    small.lake().savepoint()
    rows = small.values()
    small.fake_clock.advance(1)
    small.write("upsert", batch([1, 30], 2, partitions=3))
    (kept,) = opened(small).timeline().savepointed_times()
    small.lake().restore(str(kept))
    assert small.values() == rows
    assert_right(small)
    small.lake().delete_savepoint(str(kept))
    small.lake().change_version(9)
    assert opened(small).timeline().of(Action.DELTACOMMIT, Action.COMMIT)
    assert opened(small).config.metadata_partitions == ALL
    assert stale_listing(opened(small)) == []
    small.lake().change_version(6)
    assert_right(small)
