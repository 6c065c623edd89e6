"""Statistics of columns after writes and services: bounds hold the values, whatever was done."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.column_row import ColumnRow
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION, key_of
from tideline.hudi.metadata_table.early_bounds import with_room
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.hash_id import column_id, partition_id, xxh64
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS, IndexedColumns
from tideline.hudi.metadata_table.measured_files import typed_ranges
from tideline.hudi.metadata_table.partition import CannotFollow, MetadataPartition, file_group
from tideline.hudi.metadata_table.partition_stats import (
    PARTITION_STATS_PARTITION,
    key_of_partition,
)
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.registry import PARTITIONS
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    KEPT_IN_METADATA_TABLE,
    PARTITION_STATS,
    TableType,
)
from tideline.hudi.timeline.column_range import (
    ColumnRange,
    ValueKind,
    ValueType,
    ordered,
    retyped,
)
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.kept_statistics import (
    begin_statistics,
    statistics_of_files,
    statistics_of_partitions,
)
from tideline.testing.small_table import QUIET, SmallTable, memory_place
from tideline.testing.table_audit import stale_listing

COLUMNS = ("v", "n", "d", "amount", "s")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("v", pa.int64()),
        ("n", pa.int32()),
        ("d", pa.float64()),
        ("amount", pa.decimal128(12, 3)),
        ("s", pa.string()),
    ]
)


def rows(keys: Iterable[int], v: int, chance: random.Random) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "part": [f"p{key % 3}" for key in wanted],
            "v": [key * 100 + v for key in wanted],
            "n": [None if chance.random() < 0.4 else chance.randrange(-50, 50) for _ in wanted],
            "d": [chance.uniform(-9, 9) for _ in wanted],
            "amount": [Decimal(chance.randrange(-9999, 9999)).scaleb(-3) for _ in wanted],
            "s": [chance.choice("aáz\U0010ffff") * chance.choice((1, 30, 1500)) for _ in wanted],
        },
        schema=SCHEMA,
    )


@pytest.fixture(params=[TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ], ids=str)
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = with_statistics(request.param)
    yield table
    table.forget()


def with_statistics(
    table_type: TableType, version: int = 9, index: str = "V2", columns: tuple[str, ...] = COLUMNS
) -> SmallTable:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_type=table_type, table_version=version)
    begin_statistics(opened(small), columns, index)
    return small


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def assert_right(small: SmallTable) -> None:
    """Every live file, and every partition with rows, has bounds that hold its values."""
    table = opened(small)
    assert table.config.metadata_partitions == (
        BLOOM_FILTERS,
        COLUMN_STATS,
        FILES,
        PARTITION_STATS,
    )
    found = small.lake().scan().read_all()
    of_files, of_partitions = (
        statistics_of_files(opened(small)),
        statistics_of_partitions(opened(small)),
    )
    view = table.files.view(table.timeline())
    live = {
        file.name: file_slice.partition
        for file_slice in view.all_latest_slices()
        for file in file_slice.files
    }
    for column in COLUMNS:
        assert {name for name, of in of_files if of == column} >= live.keys()
        ranges: dict[str, list[Any]] = {}
        for name, partition in live.items():
            ranges.setdefault(partition, []).append(of_files[name, column].range)
        for partition, those in ranges.items():
            whole = of_partitions[partition, column].range
            assert whole.nulls == sum(item.nulls for item in those)
            assert whole.values == sum(item.values for item in those)
            bounds = [item.least for item in those if item.least is not None]
            assert whole.least == min(bounds, key=ordered, default=None)
    for row in found.to_pylist():
        for column in COLUMNS:
            whole = of_partitions[row["part"], column].range
            if (value := row[column]) is not None:
                if column == "amount":
                    value = int(value.scaleb(whole.type.scale))
                assert whole.least is not None
                assert whole.greatest is not None
                assert ordered(whole.least) <= ordered(value) <= ordered(whole.greatest), column
    there = set(found["part"].to_pylist())
    assert {partition for partition, _ in of_partitions} >= there


@pytest.mark.parametrize("seed", range(4))
def test_they_hold_all_values_after_random_work(small: SmallTable, seed: int) -> None:
    chance = random.Random(seed)
    lake = small.lake()
    lake.write(rows(range(12), 0, chance), "insert")
    for v in range(1, 16):
        keys = chance.sample(range(20), chance.randrange(1, 6))
        work = chance.choice(("upsert", "upsert", "delete", "insert_overwrite", "service"))
        if work == "service":
            service = chance.choice(("cleaning", "clustering", "compaction", "log_compaction"))
            asked = {
                "hoodie.clean.commits.retained": "1",
                "hoodie.clustering.inline.max.commits": "1",
                "hoodie.compact.inline.max.delta.commits": "1",
                "hoodie.log.compaction.blocks.threshold": "2",
            }
            small.lake().run(service, options=asked)
        else:
            small.lake().write(rows(keys, v, chance), work)
        assert_right(small)
    lake.delete_partitions(["p1"])
    assert not [1 for partition, _ in statistics_of_partitions(opened(small)) if partition == "p1"]
    assert not [finding for finding in check_table(opened(small)) if finding.check == "statistics"]


def test_a_clean_takes_the_rows_of_the_files_that_it_deletes(small: SmallTable) -> None:
    for v in range(5):
        small.lake().write(rows(range(6), v, random.Random(v)), "insert_overwrite")
    small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    named = {info.path.rpartition("/")[2] for info in small.store().list()}
    assert {name for name, _ in statistics_of_files(opened(small))} <= named


@pytest.mark.parametrize("writes", range(1, 40, 3))
def test_what_a_death_leaves_is_taken_back(small: SmallTable, writes: int) -> None:
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    dying = FaultyStore(small.store(), FaultPlan(crash_after_write=writes))
    with contextlib.suppress(SimulatedCrash):
        small.lake(dying).write(rows(range(9), 1, random.Random(1)), "upsert")
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
    small.lake().write(rows([3], 2, random.Random(2)), "upsert")
    assert_right(small)
    assert stale_listing(opened(small)) == []


def test_long_text_has_cut_bounds_and_none_is_missing(small: SmallTable) -> None:
    long = rows([1], 0, random.Random(0)).set_column(6, "s", pa.array(["m" * 9000]))
    small.lake().write(long, "insert")
    found = statistics_of_partitions(opened(small))["p1", "s"].range
    assert (found.least, found.greatest) == ("m" * 1024, "m" * 1023 + "n")


def test_nan_ends_them_and_the_report_says_why(small: SmallTable) -> None:
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    with_nan = rows([1], 1, random.Random(0)).set_column(4, "d", pa.array([float("nan")]))
    report = small.lake().write(with_nan, "upsert")
    assert opened(small).config.metadata_partitions == (BLOOM_FILTERS, FILES)
    assert any("column_stats, partition_stats" in note and "NaN" in note for note in report.notes)


def test_a_column_that_is_added_has_rows_and_is_not_listed() -> None:
    small = with_statistics(TableType.COPY_ON_WRITE, columns=("id", "part", *COLUMNS))
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    wider = rows([1, 2], 1, random.Random(0)).append_column("w", pa.array([7, 8]))
    small.lake().write(
        wider, "upsert", options={"hoodie.write.set.null.for.missing.columns": "true"}
    )
    files = statistics_of_files(opened(small))
    assert [row.range.greatest for (_, column), row in files.items() if column == "w"]
    assert statistics_of_partitions(opened(small))["p1", "w"].range.greatest == 7
    assert b'"w"' not in small.store().get(INDEX_DEFINITIONS_PATH)


@pytest.mark.parametrize("version", [8, 9])
def test_the_first_version_of_the_index_has_its_own_form(version: int) -> None:
    small = with_statistics(TableType.COPY_ON_WRITE, version, "V1")
    small.lake().write(rows(range(3), 0, random.Random(0)), "insert")
    records = MetadataTable(small.store(), small.clock).read(COLUMN_STATS_PARTITION)
    said = [record.content["ColumnStatsMetadata"] for record in records if record.content]
    amounts = [item for item in said if item["columnName"] == "amount"]
    assert amounts
    for item in amounts:
        name, content = item["minValue"]
        assert name.endswith("DecimalWrapper")
        assert content["value"].as_tuple().exponent == -15
        assert item["valueType"] is None
    row = statistics_of_partitions(opened(small))["p0", "amount"].range
    assert row.type.kind is ValueKind.DECIMAL


def test_a_definition_that_is_gone_ends_them(small: SmallTable) -> None:
    small.lake().write(rows(range(3), 0, random.Random(0)), "insert")
    small.store().delete(INDEX_DEFINITIONS_PATH)
    small.lake().write(rows(range(3), 1, random.Random(0)), "upsert")
    assert opened(small).config.metadata_partitions == (BLOOM_FILTERS, FILES)


@pytest.mark.parametrize("lost", ["column_stats", "partition_stats"])
def test_statistics_that_cannot_be_read_end_without_the_list_of_files(
    small: SmallTable, lost: str
) -> None:
    small.lake().write(rows(range(3), 0, random.Random(0)), "insert")
    small.store().delete_prefix(f".hoodie/metadata/{lost}")
    report = small.lake().write(rows(range(3), 1, random.Random(0)), "upsert")
    assert opened(small).config.metadata_partitions == (FILES,)
    assert any("cannot be read" in note for note in report.notes)
    assert stale_listing(opened(small)) == []


def test_a_column_that_came_while_a_task_ran_may_be_missing_of_its_file() -> None:
    known = ColumnRange(ValueType(ValueKind.LONG), 1, 2, values=2, nulls=0)
    path, ranges = "p0/a.parquet", {"v": known}
    types = {"v": known.type, "w": known.type}
    assert typed_ranges(path, ranges, IndexedColumns(types, listed=("v",))) == ranges
    both = IndexedColumns(types, listed=("v", "w"))
    assert isinstance(typed_ranges(path, ranges, both), CannotFollow)


def test_rows_that_are_added_up_are_so_in_a_compaction_too(small: SmallTable) -> None:
    """Hudi's rows of one file and column, where it wrote several."""
    name, column = "x.parquet", "v"
    key = key_of(column, "p0", name)
    for second, bound in enumerate((5, 9, 2, 7), start=1):
        counted = ColumnRange(ValueType(ValueKind.LONG), bound, bound, values=10, nulls=1)
        row = ColumnRow(name, column, counted, is_tight=False).stored(key, 3, has_types=True)
        table = opened(small)
        time = InstantTime(f"202507010000{second:02}000")
        completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
        changes: dict[MetadataPartition, tuple[MetadataRecord, ...]] = {
            FILES_PARTITION: (),
            COLUMN_STATS_PARTITION: (row,),
        }
        MetadataWriter(table, commits_per_compaction=1).commit(completed, changes, table.timeline())
    whole = statistics_of_files(opened(small))[name, column].range
    assert (whole.least, whole.greatest, whole.values, whole.nulls) == (2, 9, 40, 4)


def test_check_takes_any_bounds_of_nulls_alone(small: SmallTable) -> None:
    """Hudi's are 0 where a column is one of numbers; of a file with values they are wrong."""
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    nothing = rows(range(6), 1, random.Random(0)).set_column(3, "n", pa.nulls(6, pa.int32()))
    small.lake().write(nothing, "insert_overwrite_table")
    table = opened(small)
    view = table.files.view(table.timeline())
    zero = ColumnRange(ValueType(ValueKind.INT), 0, 0, values=2, nulls=2)
    changes: dict[MetadataPartition, list[MetadataRecord]] = {
        FILES_PARTITION: [],
        COLUMN_STATS_PARTITION: [
            ColumnRow(file.name, "n", zero).stored(
                key_of("n", file.partition, file.name), 3, has_types=True
            )
            for file_slice in view.all_latest_slices()
            for file in file_slice.files
        ],
        PARTITION_STATS_PARTITION: [
            ColumnRow(partition, "n", zero, is_tight=True).stored(
                key_of_partition("n", partition), 6, has_types=True
            )
            for partition in view.partitions
        ],
    }
    time = InstantTime("20250701000009000")
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
    MetadataWriter(table).commit(completed, changes, table.timeline())
    assert [str(item) for item in check_table(opened(small)) if item.check == "statistics"] == []


def test_check_looks_into_a_file_without_rows_for_what_its_partition_says(
    small: SmallTable,
) -> None:
    """Hudi's bulk insert leaves out a file with a small integer, and partitions say less then."""
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    table = opened(small)
    (file_slice, *_) = table.files.view(table.timeline()).latest_slices("p0")
    (file,) = file_slice.files
    indexed = (*META_COLUMNS, *COLUMNS)
    gone = [MetadataRecord(key_of(column, "p0", file.name), None) for column in indexed]
    narrow = ColumnRange(ValueType(ValueKind.LONG), 7, 8, values=1, nulls=0)
    row = ColumnRow("p0", "v", narrow, is_tight=True)
    changes: dict[MetadataPartition, list[MetadataRecord]] = {
        FILES_PARTITION: [],
        COLUMN_STATS_PARTITION: gone,
        PARTITION_STATS_PARTITION: [row.stored(key_of_partition("v", "p0"), 6, has_types=True)],
    }
    time = InstantTime("20250701000009000")
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
    MetadataWriter(table).commit(completed, changes, table.timeline())
    said = [item.message for item in check_table(opened(small)) if item.check == "statistics"]
    assert said == ["the bounds of v of the partition do not hold those of its files"]


def test_a_file_that_a_delete_left_empty_ends_no_statistics() -> None:
    """Hudi has no rows of it, as its footer has no row groups."""
    small = with_statistics(TableType.COPY_ON_WRITE)
    small.lake().write(rows(range(6), 0, random.Random(0)), "insert")
    small.lake().write(rows([0, 3], 1, random.Random(0)), "delete")
    table = opened(small)
    (file_slice,) = table.files.view(table.timeline()).latest_slices("p0")
    (file,) = file_slice.files
    indexed = (*META_COLUMNS, *COLUMNS)
    changes: dict[MetadataPartition, list[MetadataRecord]] = {
        FILES_PARTITION: [],
        COLUMN_STATS_PARTITION: [
            MetadataRecord(key_of(column, "p0", file.name), None) for column in indexed
        ],
        PARTITION_STATS_PARTITION: [
            MetadataRecord(key_of_partition(column, "p0"), None) for column in indexed
        ],
    }
    time = InstantTime(str(max(instant.time.value for instant in table.timeline()))[:-3] + "999")
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
    MetadataWriter(table).commit(completed, changes, table.timeline())
    assert [str(item) for item in check_table(opened(small)) if item.check == "statistics"] == []
    small.fake_clock.advance(60)
    small.lake().write(rows([6, 9], 1, random.Random(0)), "insert", options=QUIET)
    assert_right(small)


def test_keys_are_hashed_as_hudi_does() -> None:
    assert (column_id("i"), partition_id("p0")) == ("G7uSFvrozM8=", "Z+KNMU8CLlo=")
    # The test vectors of the xxHash library.
    seed, factor, buffer = 2654435761, 11400714785074694797, bytearray()
    for _ in range(222):
        buffer.append(seed >> 56)
        seed = seed * factor % 2**64
    known = {1: 0xE934A84ADB052768, 14: 0x8282DCC4994E35C8, 222: 0xB641AE8CB691C174}
    assert {length: xxh64(bytes(buffer[:length]), 0) for length in known} == known


def test_the_partitions_that_are_said_to_be_kept_are_those_of_the_registry() -> None:
    assert tuple(sorted(item.name for item in PARTITIONS)) == KEPT_IN_METADATA_TABLE
    names = [str(file_group(item, 1)) for item in PARTITIONS]
    assert names[0].endswith("files-0001-0")
    assert PARTITIONS[:3] == (FILES_PARTITION, COLUMN_STATS_PARTITION, PARTITION_STATS_PARTITION)


def test_what_completes_last_counts_whichever_began_first(small: SmallTable) -> None:
    """Two writers of one partition: the second one to complete has counted the first one's file."""
    times = [InstantTime(f"2025070100000{second}000") for second in range(4)]
    for time, completed_at, greatest in ((times[1], times[2], 5), (times[0], times[3], 9)):
        found = ColumnRange(ValueType(ValueKind.LONG), 0, greatest, values=10, nulls=0)
        row = ColumnRow("p0", "v", found, is_tight=True)
        record = row.stored(key_of_partition("v", "p0"), 6, has_types=True)
        table = opened(small)
        completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, completed_at)
        changes: dict[MetadataPartition, tuple[MetadataRecord, ...]] = {
            FILES_PARTITION: (),
            PARTITION_STATS_PARTITION: (record,),
        }
        MetadataWriter(table).commit(completed, changes, table.timeline())
    assert statistics_of_partitions(opened(small))["p0", "v"].range.greatest == 9


@pytest.mark.parametrize("value", [0.1, -0.1, 0.0, -0.0, 3.4028234663852886e38, 1e-45, -7.25])
def test_bounds_of_floats_hold_their_digits_as_doubles(value: float) -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", value))
    kind, wanted = ValueType(ValueKind.FLOAT), ValueType(ValueKind.DOUBLE)
    found = retyped(ColumnRange(kind, stored, stored, 1, 0), wanted)
    assert found is not None
    least, greatest = found.least, found.greatest
    assert isinstance(least, float)
    assert isinstance(greatest, float)
    assert least < stored < greatest
    assert least < value < greatest
    within = retyped(ColumnRange(kind, stored, stored, 1, 0), wanted, room_of_floats=-1)
    assert within is not None
    assert (within.least, within.greatest) == (greatest, least)


@pytest.mark.parametrize("bound", [float("inf"), -float("inf"), float("nan")])
def test_bounds_that_are_no_numbers_stay(bound: float) -> None:
    found = ColumnRange(ValueType(ValueKind.FLOAT), bound, bound, 1, 0)
    typed = retyped(found, ValueType(ValueKind.DOUBLE))
    assert typed is not None
    assert repr(typed.least) == repr(typed.greatest) == repr(bound)


@pytest.mark.parametrize("version", [8, 9])
def test_partitions_have_no_rows_of_another_type_than_a_column_where_rows_do_not_say_it(
    version: int,
) -> None:
    table = LakeTable.create(
        f"memory://retyped-column-{version}",
        record_key="id",
        partition_by="part",
        table_version=version,
        properties={
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": "true",
        },
    )

    def kept() -> bool:
        partitions = table.hoodie_table.properties.reload().metadata_partitions
        assert COLUMN_STATS in partitions
        return PARTITION_STATS in partitions

    numbers = pa.array([1, 2], pa.int32())
    table.write(pa.table({"id": ["a", "b"], "part": ["p0", "p1"], "n": numbers}))
    table.write(pa.table({"id": ["c"], "part": ["p0"], "n": numbers[:1], "m": numbers[:1]}))
    assert kept()
    table.write(pa.table({"id": ["c"], "part": ["p1"], "n": pa.array([1 << 40], pa.int64())}))
    assert kept() is (version == 9)
    if version == 8:
        table.indexes().create(PARTITION_STATS)
    table.write(pa.table({"id": ["d"], "part": ["p0"], "n": pa.array([3], pa.int64())}))
    assert kept()


@pytest.mark.parametrize("has_types", [False, True])
@pytest.mark.parametrize("kind", [ValueKind.DATE, ValueKind.TIMESTAMP_MICROS])
def test_early_bounds_have_room_for_another_calendar(kind: ValueKind, has_types: bool) -> None:
    day = 1 if kind is ValueKind.DATE else 86_400_000_000

    def stored(least: int, greatest: int) -> tuple[float, float]:
        found = ColumnRange(ValueType(kind), least * day, greatest * day, 2, 0)
        room = with_room(found, has_types=has_types)
        assert isinstance(room.least, int)
        assert isinstance(room.greatest, int)
        return room.least / day, room.greatest / day

    first, year_1500, year_1900 = -719_162, -171_664, -25_567
    assert stored(year_1900, 0) == (year_1900, 0)
    assert stored(year_1500, 0) == (year_1500 - 30, 0)
    assert stored(year_1500, year_1500) == (year_1500 - 30, year_1500 + 30)
    assert stored(first, 0) == (first - 30 if has_types else first, 0)
    assert stored(first - 400, 0)[0] <= first - 400
