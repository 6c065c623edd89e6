"""Statistics that are made here: of what is committed, beside live writers, and after deaths."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from tideline.errors import ConfigError, ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_indexes.table_indexes import TableIndexes
from tideline.hudi.metadata_table.index_definitions import (
    DEFINITIONS_PATH_PROPERTY,
    read_definitions,
)
from tideline.hudi.metadata_table.index_making import make_partition
from tideline.hudi.metadata_table.partition import WholeTable
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION, KeyPlace
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    FILES,
    METADATA_TABLE_PATH,
    PARTITION_STATS,
    RECORD_INDEX,
    TableType,
)
from tideline.hudi.timeline.column_range import ordered
from tideline.hudi.timeline.instant import Action
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.interrupted_store import InterruptedStore
from tideline.testing.kept_statistics import statistics_of_files, statistics_of_partitions
from tideline.testing.small_table import COMPACTED_OFTEN, ONCE, QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

BOTH = (COLUMN_STATS, PARTITION_STATS)
ALL = (COLUMN_STATS, FILES, PARTITION_STATS)
IMPATIENT = {
    **QUIET,
    "hoodie.write.lock.wait_time_ms": "1",
    "hoodie.write.lock.client.num_retries": "0",
}
"""Of work that gives up at once where another process has the lock."""
ARCHIVED = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.parquet.small.file.limit": "0",
}
"""Of writes that archive all but a few instants, of the metadata table as well."""


@pytest.fixture(
    params=[(9, TableType.MERGE_ON_READ), (8, TableType.COPY_ON_WRITE)],
    ids="v{0[0]} {0[1]}".format,
)
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    """A table with a metadata table that lists files alone, written several times."""
    version, table_type = request.param
    table = SmallTable.in_memory(
        table_version=version,
        table_type=table_type,
        properties=COMPACTED_OFTEN,
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
    assert table.config.metadata_partitions == ALL
    files, partitions = statistics_of_files(table), statistics_of_partitions(table)
    listed = read_definitions(table)[COLUMN_STATS]["sourceFields"]
    slices = table.files.view(table.timeline()).all_latest_slices()
    names = {file.name for file_slice in slices for file in file_slice.files}
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


def test_they_outlast_compactions_and_archives_of_the_metadata_table(small: SmallTable) -> None:
    for v in range(10, 24):
        small.lake().write(batch([v % 7, v], v), "upsert", options=ARCHIVED)
    archived = small.store().list_directory(".hoodie/metadata/.hoodie/timeline/history").objects
    assert [info for info in archived if info.path.endswith(".parquet")]
    make_both(small)
    for v in range(24, 38):
        small.lake().write(batch([v % 7, v], v), "upsert", options=ARCHIVED)
        assert_right(small)


@pytest.mark.parametrize("moment", ["before_files", "after_files"])
def test_a_write_that_began_before_brings_its_files(small: SmallTable, moment: str) -> None:
    hooks: dict[str, Any] = {moment: lambda: make_both(small)}
    small.write("upsert", batch([1, 2, 9], 77), **hooks)
    assert_right(small)
    assert ("k009", 77) in small.values()


def test_a_write_of_hudi_that_is_under_way_is_in_the_way(small: SmallTable) -> None:
    indexes(small).create(COLUMN_STATS)
    table = opened(small)
    metadata = MetadataTable(table.store, table.clock)
    time = table.instants.reserve_time(table.timeline())
    for timelines in (table.timelines, metadata.timelines):
        requested = timelines.create_requested(time, Action.DELTACOMMIT)
    with pytest.raises(ConflictError, match="may not know of partition_stats: try again"):
        indexes(small).create(PARTITION_STATS)
    assert opened(small).config.metadata_partitions == (COLUMN_STATS, FILES)
    indexes(small).drop(COLUMN_STATS)
    indexes(small).create(COLUMN_STATS)
    metadata.timelines.remove(requested)
    indexes(small).create(PARTITION_STATS)
    assert_right(small)


@pytest.mark.parametrize("service", ["clustering", "compaction", "cleaning"])
def test_a_service_that_is_under_way_brings_its_files(small: SmallTable, service: str) -> None:
    options = {**ONCE, "hoodie.clean.commits.retained": "1"}
    rehearsed = small.copy()
    rehearsal = InterruptedStore(rehearsed.store(), 0, lambda: None)
    rehearsed.lake(rehearsal).run(service, options=options)
    moments = list(rehearsal.moments(25))
    assert moments
    for moment in moments[:: max(1, len(moments) // 12)]:
        twin = small.copy()
        store = InterruptedStore(twin.store(), moment, partial(in_turn, partial(make, twin)))
        twin.lake(store).run(service, options=options)
        make(twin)
        assert_right(twin)
        twin.forget()


def test_two_writers_beside_the_build_lose_nothing(small: SmallTable) -> None:
    rehearsed = small.copy()
    rehearsal = InterruptedStore(rehearsed.store(), 0, lambda: None)
    make_both(rehearsed, rehearsal)
    beside = 0
    for moment in range(1, len(rehearsal.steps) + 1, 5):
        twin = small.copy()
        done: list[int] = []

        def upsert(
            key: int, after: Callable[[], object], twin: SmallTable = twin, done: Any = done
        ) -> None:
            rows = batch([key], 100 + key)
            with contextlib.suppress(ConflictError):
                twin.write("upsert", rows, options=IMPATIENT, after_files=after)
                done.append(key)

        # The first one begins before the other, and completes after it.
        both = partial(upsert, 1, partial(upsert, 2, lambda: None))
        make_both(twin, InterruptedStore(twin.store(), moment, both))
        assert_right(twin)
        assert {(f"k{key:03}", 100 + key) for key in done} <= {*twin.values()}
        beside += len(done) == 2
        twin.write("upsert", batch([3], 1))
        assert_right(twin)
        twin.forget()
    assert beside


@pytest.mark.parametrize("when", ["crash_before_write", "crash_after_write"])
def test_what_a_death_leaves_is_believed_by_none(small: SmallTable, when: str) -> None:
    rehearsed = small.copy()
    rehearsal = FaultyStore(rehearsed.store())
    make_both(rehearsed, rehearsal)
    for number in range(1, len(rehearsal.writes) + 1):
        twin = small.copy()
        dying = FaultyStore(twin.store(), dying_at(when, number))
        with contextlib.suppress(SimulatedCrash):
            make_both(twin, dying)
        assert dying.is_dead
        twin.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
        assert_sound(twin)
        if number % 2:
            twin.write("upsert", batch([0, 9], number + 100))
            assert_sound(twin)
            assert stale_listing(opened(twin)) == []
        listed = opened(twin).config.metadata_partitions
        for name in BOTH:
            if name not in listed:
                indexes(twin).create(name)
        assert_right(twin)
        assert {index.is_in_use for index in indexes(twin).list()} == {True}
        twin.forget()


@pytest.mark.parametrize("when", ["crash_before_write", "crash_after_write"])
def test_a_drop_that_died_is_finished_by_another(small: SmallTable, when: str) -> None:
    make_both(small)
    rehearsed = small.copy()
    rehearsal = FaultyStore(rehearsed.store())
    indexes(rehearsed, rehearsal).drop(COLUMN_STATS)
    assert opened(rehearsed).config.metadata_partitions == (FILES,)
    for number in range(1, len(rehearsal.writes) + 1):
        twin = small.copy()
        dying = FaultyStore(twin.store(), dying_at(when, number))
        with contextlib.suppress(SimulatedCrash):
            indexes(twin, dying).drop(COLUMN_STATS)
        twin.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
        assert_sound(twin)
        for name in BOTH:
            with contextlib.suppress(ConfigError):
                indexes(twin).drop(name)
        assert not list(twin.store().list(".hoodie/metadata/column_stats"))
        assert not list(twin.store().list(".hoodie/metadata/partition_stats"))
        assert COLUMN_STATS not in read_definitions(opened(twin))
        make_both(twin)
        assert_right(twin)
        twin.forget()


@pytest.mark.parametrize("files_before", [1, 10], ids=["its logs", "its base files"])
def test_a_maker_that_lost_the_lock_writes_none_of(small: SmallTable, files_before: int) -> None:
    """The next maker may have taken the same names; encoding takes its time."""
    table = opened(small)

    def written() -> list[str]:
        inside = table.store.list(f"{METADATA_TABLE_PATH}/{RECORD_INDEX}/")
        return [info.path for info in inside if ".hoodie_partition" not in info.path]

    def lost() -> None:
        if len(written()) >= files_before:
            raise ConflictError("the lock was lost")

    place = KeyPlace(FileGroupId("p1", f"{UUID(int=1)}-0"), 0).stored()
    records = [MetadataRecord(f"k{number}", datum=place) for number in range(20)]
    assert RECORD_INDEX_PARTITION.groups_for(len(records)) == 10
    with pytest.raises(ConflictError, match="the lock was lost"):
        make_partition(RECORD_INDEX_PARTITION, records, WholeTable(table, table.timeline()), lost)
    assert len(written()) == files_before
    indexes(small).create(RECORD_INDEX)
    assert opened(small).config.metadata_partitions == (FILES, RECORD_INDEX)
    assert [finding for finding in small.lake().check() if finding.check == "record index"] == []


def dying_at(when: str, number: int) -> FaultPlan:
    if when == "crash_before_write":
        return FaultPlan(crash_before_write=number)
    return FaultPlan(crash_after_write=number)


def assert_sound(small: SmallTable) -> None:
    """What the list names is right; nothing else is looked at."""
    table = opened(small)
    assert not [finding for finding in check_table(table) if finding.check == "statistics"]
    if PARTITION_STATS in table.config.metadata_partitions:
        assert_right(small)


def make(small: SmallTable) -> None:
    """Make what is not there yet."""
    for name in BOTH:
        if name not in opened(small).config.metadata_partitions:
            indexes(small, **IMPATIENT).create(name)


def in_turn(work: Callable[[], object]) -> None:
    """Work that others may be in the way of, whose turn it is then."""
    with contextlib.suppress(ConflictError):
        work()
