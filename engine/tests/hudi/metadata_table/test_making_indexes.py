"""Statistics that are made here: of what is committed, beside live writers, whoever dies."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.indexes.table_indexes import TableIndexes
from tideline.hudi.metadata_table.index_definitions import (
    DEFINITIONS_PATH_PROPERTY,
    read_definitions,
)
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    FILES,
    KEPT_IN_METADATA_TABLE,
    PARTITION_STATS,
    TableType,
)
from tideline.hudi.timeline.column_range import ordered
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.kept_statistics import statistics_of_files, statistics_of_partitions
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

BOTH = (COLUMN_STATS, PARTITION_STATS)
COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"


@pytest.fixture(
    params=[
        (9, TableType.COPY_ON_WRITE),
        (9, TableType.MERGE_ON_READ),
        (8, TableType.COPY_ON_WRITE),
        (8, TableType.MERGE_ON_READ),
    ],
    ids="v{0[0]} {0[1]}".format,
)
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    """A table with a metadata table that lists files alone, written several times."""
    version, table_type = request.param
    table = SmallTable.in_memory(
        table_version=version,
        table_type=table_type,
        properties={"hoodie.metadata.enable": "true"},
    )
    table.write("insert", batch(range(6), 1))
    table.write("upsert", batch([1, 2, 3], 5), options=QUIET)
    table.write("delete", batch([4], 5), options=QUIET)
    yield table
    table.forget()


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def indexes(small: SmallTable, store: Any = None, **options: str) -> TableIndexes:
    return small.lake(store).indexes(options)


def make_both(small: SmallTable, store: Any = None) -> None:
    for name in BOTH:
        indexes(small, store).create(name)


def assert_right(small: SmallTable) -> None:
    """Every file of the newest slices has rows of all listed columns, and bounds hold all rows."""
    table = opened(small)
    assert table.config.metadata_partitions == KEPT_IN_METADATA_TABLE
    files, partitions = statistics_of_files(table), statistics_of_partitions(table)
    listed = read_definitions(table)[COLUMN_STATS]["sourceFields"]
    slices = table.files.view(table.timeline()).all_latest_slices()
    names = {file.name for piece in slices for file in piece.files}
    assert {(name, column) for name in names for column in listed} <= files.keys()
    for row in small.rows():
        for column in ("v", "id"):
            of_partition = partitions[row["part"], column].range
            assert of_partition.least is not None
            assert of_partition.greatest is not None
            value = ordered(row[column])
            assert ordered(of_partition.least) <= value <= ordered(of_partition.greatest)
    found = [finding for finding in check_table(table) if finding.check == "statistics"]
    assert not found
    assert stale_listing(table) == []


def test_they_hold_what_is_committed_and_are_kept(small: SmallTable) -> None:
    make_both(small)
    assert_right(small)
    small.write("upsert", batch([0, 5, 7], 9))
    small.write("insert_overwrite", batch([8, 9], 2))
    assert_right(small)
    has_types = small.lake().hoodie_table.layout.table_version >= 9
    assert read_definitions(opened(small))[COLUMN_STATS]["version"] == ("V2" if has_types else "V1")
    properties = opened(small).config.properties
    assert properties[DEFINITIONS_PATH_PROPERTY] == ".hoodie/.index_defs/index.json"


def test_bounds_are_those_of_the_values(small: SmallTable) -> None:
    make_both(small)
    rows = statistics_of_partitions(opened(small))
    assert (rows["p1", "v"].range.least, rows["p1", "v"].range.greatest) == (1, 5)
    assert rows["p0", "id"].range.least == "k000"
