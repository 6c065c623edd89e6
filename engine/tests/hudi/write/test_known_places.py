"""Keys that are looked up by the record index: what it says is looked at, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION, KeyPlace
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    INDEX_TYPE,
    METADATA_TABLE_PATH,
    RECORD_INDEX,
    TableType,
)
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.kept_statistics import begin_record_index, places_of_keys
from tideline.testing.small_table import QUIET, SmallTable, batch, memory_place


@pytest.fixture(params=[TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ], ids=str)
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    made = indexed(request.param)
    yield made
    made.forget()


def indexed(table_type: TableType, properties: Mapping[str, str] | None = None) -> SmallTable:
    """A table without rows that has a record index."""
    location, clock = memory_place()
    made = SmallTable.create(location, clock, properties, table_type=table_type, table_version=9)
    table = opened(made)
    bootstrap_metadata_table(table, table.timeline())
    begin_record_index(table)
    return made


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def write(small: SmallTable, keys: list[int], v: int, partitions: int = 2) -> int:
    """Upsert rows; how many calls of the store that takes."""
    store = FaultyStore(small.store())
    small.lake(store).write(batch(keys, v, partitions=partitions), "upsert", options=QUIET)
    return store.calls


def tamper(small: SmallTable, *records: MetadataRecord) -> None:
    """Let the index say something else."""
    table = opened(small)
    time = table.instants.next_time()
    completed = Instant(time, Action.DELTACOMMIT, State.COMPLETED, time)
    MetadataWriter(table).commit(completed, {RECORD_INDEX_PARTITION: records}, table.timeline())


def values(small: SmallTable) -> dict[str, int]:
    rows = small.lake().scan(columns=["id", "v"]).read_all().to_pylist()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def test_an_upsert_of_few_keys_costs_the_same_in_a_table_of_many_file_groups(
    small: SmallTable,
) -> None:
    """As many as in one of few: what it reads is what it writes to."""
    table_type = opened(small).config.table_type
    few, many = indexed(table_type), indexed(table_type)
    write(few, list(range(4)), 1, partitions=4)
    write(many, list(range(64)), 1, partitions=64)
    assert write(many, [1, 2], 2, partitions=64) == write(few, [1, 2], 2, partitions=4)
    found = values(many)
    assert [found[key] for key in ("k001", "k002", "k003", "k063")] == [2, 2, 1, 1]
    few.forget()
    many.forget()


def test_a_record_that_is_left_over_costs_a_look_and_no_row(small: SmallTable) -> None:
    write(small, [0, 1, 2], 1)
    there = next(iter(places_of_keys(opened(small)).values()))
    tamper(small, MetadataRecord("k007", datum=there.stored()))
    write(small, [2, 7], 2)
    assert values(small) == {"k000": 1, "k001": 1, "k002": 2, "k007": 2}


@pytest.mark.parametrize("partition", ["p0", "gone"])
def test_a_place_that_the_table_does_not_have_lets_all_files_be_looked_into(
    small: SmallTable, partition: str
) -> None:
    write(small, [0, 1, 2], 1)
    place = KeyPlace(FileGroupId(partition, "768e683a-88c2-4d9a-996f-272326887e97-0"), 0)
    tamper(small, MetadataRecord("k002", datum=place.stored()))
    write(small, [2, 4], 2)
    assert values(small) == {"k000": 1, "k001": 1, "k002": 2, "k004": 2}


def test_looks_into_the_index_and_into_files_instead_are_counted(small: SmallTable) -> None:
    def looks(keys: list[int]) -> tuple[int, int]:
        report = small.lake().write(batch(keys, 2), "upsert", options=QUIET)
        shown = report.to_json_object()
        assert (shown["index_lookups"], shown["index_fallbacks"]) == (
            report.index_lookups,
            report.index_fallbacks,
        )
        return report.index_lookups, report.index_fallbacks

    write(small, [0, 1, 2], 1)
    assert looks([2, 4]) == (1, 0)
    place = KeyPlace(FileGroupId("p0", "768e683a-88c2-4d9a-996f-272326887e97-0"), 0)
    tamper(small, MetadataRecord("k002", datum=place.stored()))
    assert looks([2, 4]) == (0, 1)
    for info in small.store().list(f"{METADATA_TABLE_PATH}/{RECORD_INDEX}"):
        small.store().put(info.path, b"nothing")
    assert looks([2, 4]) == (0, 1)
    small.lake().indexes().drop(RECORD_INDEX)
    assert looks([2, 4]) == (0, 0)


def test_an_index_that_cannot_be_read_is_passed_over(small: SmallTable) -> None:
    write(small, [0, 1, 2], 1)
    for info in small.store().list(f"{METADATA_TABLE_PATH}/{RECORD_INDEX}"):
        small.store().put(info.path, b"nothing")
    write(small, [2, 4], 2)
    assert values(small) == {"k000": 1, "k001": 1, "k002": 2, "k004": 2}
    assert any(
        finding.check == "record index" and "cannot be read" in finding.message
        for finding in check_table(opened(small))
    )


def test_a_key_that_was_deleted_is_new(small: SmallTable) -> None:
    write(small, [0, 1, 2], 1)
    small.lake().write(batch([2], 2), "delete", options=QUIET)
    assert (None, "k002") not in places_of_keys(opened(small))
    write(small, [2], 3)
    assert values(small) == {"k000": 1, "k001": 1, "k002": 3}
    assert {key for _, key in places_of_keys(opened(small))} == values(small).keys()


def test_more_keys_than_a_file_has_are_found_in_it(small: SmallTable) -> None:
    """Each once, whether the index says where they are or, without it, files do."""
    write(small, [0, 1, 2, 3], 1)
    write(small, list(range(2, 40)), 2)
    small.lake().indexes().drop(RECORD_INDEX)
    write(small, list(range(1, 60)), 3)
    assert values(small) == {"k000": 1, **{f"k{key:03}": 3 for key in range(1, 60)}}


def test_many_keys_are_looked_up_where_it_costs_less(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """New keys by the index, which leaves all files out; keys of all files in these."""
    monkeypatch.setattr("tideline.hudi.write.known_places.KEYS_SAMPLED", 8)
    # What is small here costs what is large elsewhere.
    monkeypatch.setattr("tideline.hudi.placement.lookup_plan._KEY_S", 0.0)
    caplog.set_level("INFO", "tideline.hudi.write.known_places")
    sampled: list[int] = []

    def lookups(keys: list[int], v: int) -> int:
        caplog.clear()
        rows = batch(keys, v, partitions=40)
        report = small.lake().write(rows, "upsert", options=QUIET)
        sampled.append(sum("looked up in files" in record.message for record in caplog.records))
        return report.index_lookups

    assert lookups(list(range(40)), 1) == 0
    assert lookups(list(range(40)), 2) == 0
    assert lookups(list(range(100, 140)), 3) == 1
    assert lookups([0, 1, *range(200, 250)], 4) == 1
    assert sampled == [1, 1, 0, 0]
    found = values(small)
    assert [found[key] for key in ("k000", "k001", "k002", "k100", "k200")] == [4, 4, 2, 3, 4]
    assert len(found) == 40 + 40 + 50


def test_all_files_are_not_listed_for_a_look_that_takes_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a table whose keys are unique in all of it."""
    monkeypatch.setattr("tideline.hudi.write.known_places.KEYS_SAMPLED", 2)
    small = indexed(TableType.COPY_ON_WRITE, {INDEX_TYPE: "RECORD_INDEX"})
    write(small, list(range(64)), 1, partitions=64)
    monkeypatch.setattr("tideline.hudi.write.known_places.listing_seconds", lambda _: 100.0)
    without = write(small, [1, 2, 3, 4], 2, partitions=64)
    monkeypatch.setattr("tideline.hudi.write.known_places.listing_seconds", lambda _: 0.0)
    assert write(small, [5, 6, 7, 8], 2, partitions=64) > without
    assert sum(values(small).values()) == 64 + 8
    small.forget()


def test_more_keys_than_are_gathered_are_looked_up_in_files(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(small, [0, 1, 2], 1)
    monkeypatch.setattr("tideline.hudi.write.known_places.KEYS_MAX", 2)
    report = small.lake().write(batch([1, 2, 3], 2), "upsert", options=QUIET)
    assert (report.index_lookups, report.index_fallbacks) == (0, 0)
    assert values(small) == {"k000": 1, "k001": 2, "k002": 2, "k003": 2}
