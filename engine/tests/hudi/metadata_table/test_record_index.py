"""A record index after writes and services: each key has one place, and it is there."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.file_group.key_changes import index_texts
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.metadata_table.partition import group_number
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    KeyPlace,
    has_global_record_index,
    has_partitioned_record_index,
    shard_name,
)
from tideline.hudi.metadata_table.secondary_index import (
    SecondaryIndexPartition,
    secondary_indexes,
    secondary_key,
    value_part,
)
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import FILES, METADATA_TABLE_PATH, RECORD_INDEX, TableType
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.kept_statistics import (
    begin_record_index,
    begin_secondary_index,
    places_of_keys,
)
from tideline.testing.small_table import SmallTable, memory_place
from tideline.testing.table_audit import stale_listing

KINDS = {
    "cow": (TableType.COPY_ON_WRITE, (), False),
    "mor": (TableType.MERGE_ON_READ, (), False),
    "cow-by-event-time": (TableType.COPY_ON_WRITE, ("v",), False),
    "mor-by-event-time": (TableType.MERGE_ON_READ, ("v",), False),
    "cow-partitioned": (TableType.COPY_ON_WRITE, (), True),
    "mor-partitioned": (TableType.MERGE_ON_READ, ("v",), True),
}
SECONDARY = ("secondary_index_n", "secondary_index_s")
SERVICES = ("cleaning", "clustering", "compaction", "log_compaction")
OFTEN = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "2",
}
MOVES = {"hoodie.record.index.update.partition.path": "true"}


def rows(keys: Iterable[int], v: int, shift: int = 0) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "part": [f"p{(key + shift) % 3}" for key in wanted],
            "v": [v] * len(wanted),
            "s": ["a$b\\"[: (key + v) % 5] if key % 4 else None for key in wanted],
            "n": [v // 3 for _ in wanted],
        }
    )


@pytest.fixture(params=[*KINDS])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = with_record_index(*KINDS[request.param])
    yield table
    table.forget()


def with_record_index(
    table_type: TableType, ordering: tuple[str, ...], is_partitioned: bool
) -> SmallTable:
    location, clock = memory_place()
    small = SmallTable.create(
        location,
        clock,
        table_type=table_type,
        ordering=ordering,
        table_version=9,
        properties={"hoodie.metadata.compact.max.delta.commits": "4"},
    )
    table = opened(small)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table, is_partitioned=is_partitioned)
    if not is_partitioned:
        begin_secondary_index(table, "s")
        begin_secondary_index(table, "n", "V1")
    return small


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def keys_by_place(table: HoodieTable) -> dict[tuple[str | None, str], FileGroupId]:
    """Where each live key is, by the files; in its partition where these are apart."""
    timeline = table.timeline()
    schema = table.schemas.newest(timeline)
    assert schema is not None
    reading = SliceContext.of(table, timeline, schema)
    is_partitioned = has_partitioned_record_index(table)
    found: dict[tuple[str | None, str], FileGroupId] = {}
    for file_slice in table.files.view_of(table.files.listing(), timeline).all_latest_slices():
        for batch in read_file_slice(table.store, file_slice, reading, ["_hoodie_record_key"]):
            for key in batch.column(0).to_pylist():
                at = shard_name(file_slice.partition) if is_partitioned else None, key
                assert at not in found
                found[at] = file_slice.group
    return found


def assert_right(small: SmallTable) -> None:
    table = opened(small)
    is_partitioned = has_partitioned_record_index(table)
    assert table.config.metadata_partitions == (
        (FILES, RECORD_INDEX) if is_partitioned else (FILES, RECORD_INDEX, *SECONDARY)
    )
    said = {key: place.group for key, place in places_of_keys(table).items()}
    assert said == keys_by_place(table)
    rows_now = small.lake().scan(columns=["id", "s", "n"]).read_all().to_pylist()
    metadata = MetadataTable(table.store, table.clock)
    for index in secondary_indexes(table):
        column = str(index.column)
        values = ((row[column], row["id"]) for row in rows_now)
        expected = {secondary_key(None if v is None else str(v), key) for v, key in values}
        found = {record.key for record in index.merged(metadata.read(index))}
        assert found == expected
        looked_up = index.merged(metadata.look_up(index, expected))
        assert {record.key for record in looked_up} == expected


@pytest.mark.parametrize("seed", range(3))
def test_each_key_has_its_place_after_random_work(small: SmallTable, seed: int) -> None:
    chance = random.Random(seed)
    small.lake().write(rows(range(12), 20), "insert")
    for v in range(21, 40):
        keys = chance.sample(range(20), chance.randrange(1, 6))
        work = chance.choice(("upsert", "upsert", "late", "move", "delete", "over", *SERVICES))
        lake = small.lake()
        if work in SERVICES:
            lake.run(work, options=OFTEN)
        elif work == "over":
            # Keys of other partitions would be there twice: an overwrite looks no key up.
            there = lake.scan(columns=["id", "part"]).read_all().to_pylist()
            is_global = has_global_record_index(opened(small))
            elsewhere = {row["id"] for row in there if row["part"] != "p1" and is_global}
            new = [key for key in range(1, 20, 3) if f"k{key:03}" not in elsewhere]
            lake.write(rows(new, v), "insert_overwrite")
        elif work == "move":
            lake.write(rows(keys, v, shift=v), "upsert", options=MOVES)
        elif work == "late":
            lake.write(rows(keys, chance.randrange(20)), "upsert")
        else:
            lake.write(rows(keys, v), work)
        assert_right(small)
    small.lake().delete_partitions(["p1"])
    assert_right(small)
    assert stale_listing(opened(small)) == []


@pytest.mark.parametrize("writes", range(1, 40, 6))
def test_what_a_death_leaves_is_taken_back(small: SmallTable, writes: int) -> None:
    small.lake().write(rows(range(6), 0), "insert")
    dying = FaultyStore(small.store(), FaultPlan(crash_after_write=writes))
    with contextlib.suppress(SimulatedCrash):
        small.lake(dying).write(rows(range(9), 1), "upsert")
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
    small.lake().write(rows([3], 2), "upsert")
    assert_right(small)
    assert stale_listing(opened(small)) == []


def test_ids_of_file_groups_are_stored_as_numbers_or_as_text() -> None:
    uuid = "768e683a-88c2-4d9a-996f-272326887e97"
    for file_id in (f"{uuid}-0", f"{uuid}-12", uuid, f"{uuid}-007", f"{uuid.upper()}-0", "bucket"):
        place = KeyPlace(FileGroupId("p1", file_id), 1795645886385)
        assert KeyPlace.parse(MetadataRecord("k", datum=place.stored())) == place
    # A record that Hudi 1.2 wrote.
    place = KeyPlace(FileGroupId("p1", f"{uuid}-0"), 1795645886385)
    assert place.stored() == bytes.fromhex(
        "000000000000 0a 000000 02 02047031 02b4b6928cd18eb48eed01 02d185bc979bb7ec90cd01"
        "0200 0200 02e2beaecdc268 00 00 00"
    )


def test_a_partition_that_gets_no_key_has_a_shard() -> None:
    """Hudi makes none for a partition that it finds among the files."""
    small = with_record_index(TableType.COPY_ON_WRITE, (), True)
    small.lake().write(rows([0], 1), "insert")
    gone = rows([1], 1).append_column("_hoodie_is_deleted", pa.array([True]))
    small.lake().write(gone, "upsert")
    table = opened(small)
    metadata = MetadataTable(table.store, table.clock)
    partitions = set(table.files.view(table.timeline()).partitions)
    assert metadata.shards(RECORD_INDEX_PARTITION) == {shard_name(name) for name in partitions}
    assert "p1" in partitions
    small.lake().write(rows([1, 4], 2), "insert")
    assert_right(small)


def test_names_of_shards_have_no_hyphen() -> None:
    assert shard_name("2024-01-01") == "2024%2D01%2D01"
    assert shard_name("a_b/c=d") == "a%5Fb%2Fc%3Dd"
    assert shard_name("") == ""
    assert shard_name('é"\\{x}') == "é%22%5C%7Bx}"


def test_keys_of_a_secondary_index_hold_values_and_record_keys_apart() -> None:
    assert secondary_key("w34", "k4") == "w34$k4"
    assert secondary_key(None, "TXN-003") == "\0$TXN-003"
    assert secondary_key("a$b\\", "k$") == "a\\$b\\\\$k\\$"
    for value in ("", "a", "a$", "$", "\\", "\\$", "\0", None):
        for key in ("k", "$k", "\\"):
            assert value_part(secondary_key(value, key)) == secondary_key(value, "")
    rows_of_two = pa.table({"key": ["k$\\", "b"], "s": ["\0a$\\", None]}).to_batches()[0]
    texts = index_texts(rows_of_two).to_pylist()
    assert texts == [secondary_key("\0a$\\", "k$\\"), secondary_key(None, "b")]


def test_an_index_of_dates_is_dropped_and_the_record_index_stays() -> None:
    small = with_record_index(TableType.COPY_ON_WRITE, (), False)
    begin_secondary_index(opened(small), "day")
    days = rows([1, 2], 1).append_column("day", pa.array([1, 2], pa.date32()))
    report = small.lake().write(days, "insert")
    assert any("secondary_index_day" in note and "spellings" in note for note in report.notes)
    assert_right(small)
    assert "secondary_index_day" not in read_definitions(opened(small))


def test_a_secondary_index_goes_with_the_record_index() -> None:
    """Queries find its keys by the record index."""
    small = with_record_index(TableType.COPY_ON_WRITE, (), False)
    small.lake().write(rows([1, 2], 1), "insert")
    table = opened(small)
    listed = ",".join((FILES, *SECONDARY))
    table.properties.update({"hoodie.table.metadata.partitions": listed})
    small.lake().write(rows([1, 3], 2), "upsert")
    assert opened(small).config.metadata_partitions == (FILES,)
    assert not [name for name in read_definitions(opened(small)) if name in SECONDARY]


@pytest.mark.parametrize(("version", "number"), [("V1", 1), ("V2", 5)])
def test_file_groups_of_a_secondary_index_are_those_of_hudi(version: str, number: int) -> None:
    """Seen in tables that Hudi 1.2 wrote, with ten file groups."""
    name = "secondary_index_s"
    defined = {name: {"sourceFields": ["s"], "version": version}}
    index = SecondaryIndexPartition.defined(name, defined)
    assert group_number(index.hashed("n1$k1"), 10) == number


@pytest.mark.parametrize("table_type", list(TableType), ids=str)
@pytest.mark.parametrize("version", [8, 9])
def test_indexes_that_are_made_of_a_table_are_kept(table_type: TableType, version: int) -> None:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_type=table_type, table_version=version)
    for v in (1, 2):
        small.lake().write(rows(range(v, 9), v), "upsert")
    small.lake().write(rows([4], 3), "delete")
    indexes = small.lake().indexes()
    with pytest.raises(ConfigError, match="secondary_index_s is made of record_index"):
        indexes.create("secondary_index_s")
    made = indexes.create(RECORD_INDEX)
    assert made.records == 7
    assert made.advice is not None
    assert made.advice.startswith("keys are unique in the whole table from now on")
    for name in SECONDARY:
        assert indexes.create(name).records == 7
    assert read_definitions(opened(small))["secondary_index_s"]["version"] == f"V{version - 7}"
    assert_right(small)
    assert [(index.name, index.is_kept) for index in indexes.list()] == [
        (name, True) for name in (FILES, RECORD_INDEX, *SECONDARY)
    ]
    small.lake().write(rows([1, 20], 5, shift=1), "upsert", options=MOVES)
    small.lake().write(rows([2], 6), "delete")
    assert_right(small)
    assert indexes.drop(RECORD_INDEX) == (RECORD_INDEX, *SECONDARY)
    assert opened(small).config.metadata_partitions == (FILES,)
    small.forget()


def test_a_key_that_is_stored_twice_gets_no_record_index() -> None:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_version=9)
    small.lake().write(rows([1, 2], 1), "insert")
    small.lake().write(rows([2], 1, shift=1), "insert")
    with pytest.raises(UnsupportedTableError, match="key 'k002' is stored twice"):
        small.lake().indexes().create(RECORD_INDEX)
    assert opened(small).config.metadata_partitions == ()


@pytest.mark.parametrize("writes", range(1, 60, 7))
def test_a_build_that_dies_is_taken_up_again(writes: int) -> None:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_version=9)
    small.lake().write(rows(range(9), 1), "insert")
    dying = FaultyStore(small.store(), FaultPlan(crash_after_write=writes))
    with contextlib.suppress(SimulatedCrash):
        for name in (RECORD_INDEX, *SECONDARY):
            small.lake(dying).indexes().create(name)
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
    small.lake().write(rows([3, 12], 2), "upsert")
    assert stale_listing(opened(small)) == []
    indexes = small.lake().indexes()
    there = opened(small).config.metadata_partitions
    for name in (RECORD_INDEX, *SECONDARY):
        if name not in there:
            indexes.create(name)
    small.lake().write(rows([4, 13], 3), "upsert")
    assert_right(small)
    small.forget()


def test_indexes_are_made_again_with_the_metadata_table() -> None:
    small = with_record_index(*KINDS["cow"])
    small.lake().write(rows(range(6), 1), "insert")
    small.lake().savepoint()
    small.lake().write(rows([1, 2, 30], 2, shift=1), "upsert", options=MOVES)
    savepoint = small.lake().savepoints()[0].instant
    small.lake().restore(savepoint)
    assert_right(small)
    assert small.lake().to_arrow().num_rows == 6
    small.lake().write(rows([2, 31], 3), "upsert")
    assert_right(small)
    for info in small.store().list(f"{METADATA_TABLE_PATH}/{RECORD_INDEX}"):
        small.store().put(info.path, b"nothing")
    small.lake().repair()
    assert_right(small)


@pytest.mark.parametrize("version", [8, 9])
def test_indexes_are_made_again_in_another_version(version: int) -> None:
    location, clock = memory_place()
    small = SmallTable.create(location, clock, table_version=17 - version)
    small.lake().write(rows(range(6), 1), "insert")
    for name in (RECORD_INDEX, *SECONDARY):
        small.lake().indexes().create(name)
    small.lake().change_version(version)
    assert opened(small).config.version == version
    assert read_definitions(opened(small))["secondary_index_s"]["version"] == f"V{version - 7}"
    small.lake().write(rows([2, 31], 3), "upsert")
    assert_right(small)
    small.forget()


def test_new_keys_in_the_logs_of_buckets_have_places() -> None:
    location, clock = memory_place()
    small = SmallTable.create(
        location,
        clock,
        table_type=TableType.MERGE_ON_READ,
        table_version=9,
        properties={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    )
    small.lake().write(rows(range(6), 1), "insert")
    for name in (RECORD_INDEX, *SECONDARY):
        small.lake().indexes().create(name)
    small.lake().write(rows(range(3, 12), 2), "upsert")
    small.lake().write(rows([4, 9], 3), "delete")
    assert_right(small)
    small.lake().run("compaction", options=OFTEN)
    small.lake().write(rows([4, 20], 4), "upsert")
    assert_right(small)
    small.forget()


def test_a_value_that_no_index_takes_ends_its_index_alone() -> None:
    small = with_record_index(*KINDS["cow"])
    small.lake().write(rows([1, 2], 1), "insert")
    long = rows([3], 2).set_column(3, "s", pa.array(["ü" * 17_000]))
    report = small.lake().write(long, "upsert")
    assert any("32,767 bytes" in note for note in report.notes)
    kept = (FILES, RECORD_INDEX, "secondary_index_n")
    assert opened(small).config.metadata_partitions == kept
    with pytest.raises(UnsupportedTableError, match="more than 32,767 bytes"):
        small.lake().indexes().create("secondary_index_s")
    assert stale_listing(opened(small)) == []
