"""Indexes that say something else than the table: reads leave out nothing by them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import fastavro
import pyarrow.compute as pc
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.read.snapshot import plan_read_optimized, plan_snapshot
from tideline.hudi.table.table_config import METADATA_PARTITIONS, RECORD_INDEX, TableType
from tideline.hudi.timeline.instant import Action
from tideline.index_lookups import lookups_so_far
from tideline.testing.altered_schema import alter, rename, retype
from tideline.testing.kept_statistics import begin_secondary_index
from tideline.testing.keyed_table import PARTITIONS, KeyedTable, id_of, opened_by, row_of
from tideline.testing.reads_by_statistics import statistics_always_used
from tideline.testing.stepping_store import Step, SteppingStore

INDEX_PLAN = {
    "type": "record",
    "name": "HoodieIndexPlan",
    "fields": [
        {
            "name": "indexPartitionInfos",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieIndexPartitionInfo",
                    "fields": [{"name": "metadataPartitionPath", "type": "string"}],
                },
            },
        }
    ],
}


@pytest.fixture(autouse=True)
def whatever_it_costs() -> Iterator[None]:
    """Tables here are small."""
    with statistics_always_used():
        yield


@pytest.fixture
def indexed() -> KeyedTable:
    made = KeyedTable()
    made.write(range(60), operation="insert")
    return made


def test_a_timeline_of_before_the_last_commit_uses_no_index() -> None:
    """The key has moved on; its old file has it still."""
    indexed = KeyedTable(TableType.MERGE_ON_READ)
    indexed.write(range(60), operation="insert")
    table = indexed.table()
    scan = plan_snapshot(table)
    condition = f"id = '{id_of(3)}'"
    assert opened_by(table, scan, condition) == 1
    indexed.write([3], operation="delete")
    assert opened_by(table, scan, condition) == PARTITIONS
    assert opened_by(table, plan_snapshot(table), condition) == 0
    then = plan_snapshot(table, as_of=str(scan.timeline.newest_time()))
    assert opened_by(table, then, condition) == PARTITIONS


def test_a_timeline_from_before_the_metadata_table_uses_no_index(
    indexed: KeyedTable,
) -> None:
    table = indexed.table()
    scan = plan_snapshot(table)
    indexed.write([3], operation="delete")
    disable_metadata_table(indexed.table())
    bootstrap_metadata_table(indexed.table(), table.timeline())
    indexed.lake().indexes().create(RECORD_INDEX)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    table = indexed.table()
    assert opened_by(table, plan_snapshot(table), f"id = '{id_of(3)}'") == 0


def test_a_commit_that_only_the_metadata_table_has_is_not_believed(indexed: KeyedTable) -> None:
    """Its writer died before the commit."""
    indexed.write([3], operation="delete")
    last = indexed.table().timeline().completed().last()
    assert last is not None
    before = indexed.read(f"id = '{id_of(3)}'")
    assert before == ([], 0)
    table = indexed.table()
    table.store.delete(table.timelines.path(last))
    assert indexed.read(f"id = '{id_of(3)}'") == ([id_of(3)], PARTITIONS)


def test_an_index_that_goes_while_it_is_read_is_not_believed(indexed: KeyedTable) -> None:
    table = indexed.table()
    scan = plan_snapshot(table)
    without = {METADATA_PARTITIONS: "files"}
    indexed.table().properties.update(without)
    assert opened_by(table, scan, f"id = '{id_of(3)}'") == PARTITIONS
    assert opened_by(table, scan, "n = 22") == PARTITIONS


def test_an_index_that_hudi_is_building_is_not_believed(indexed: KeyedTable) -> None:
    """It is listed before it has the commits that came since its build began; then Hudi dies."""
    listed = ",".join(indexed.table().config.metadata_partitions)
    indexed.table().properties.update({METADATA_PARTITIONS: "files"})
    indexed.write([61], operation="insert")
    table = indexed.table()
    table.properties.update({METADATA_PARTITIONS: listed})
    build = table.timelines.create_requested(table.instants.next_time(), Action.INDEXING)
    condition = f"id = '{id_of(61)}'"
    # As one that is only requested, which reads what is there when it begins.
    assert indexed.read(condition) == ([], 0)
    table.timelines.to_inflight(build)
    every_file = PARTITIONS + 1
    assert indexed.read(condition) == ([id_of(61)], every_file)
    for name, opened in (("column_stats", 0), (RECORD_INDEX, every_file)):
        plan = {"indexPartitionInfos": [{"metadataPartitionPath": name}]}
        body = io.BytesIO()
        fastavro.writer(body, INDEX_PLAN, [plan])
        table.store.put(table.timelines.path(build), body.getvalue())
        assert indexed.read(condition)[1] == opened


def test_an_index_that_cannot_be_read_hides_nothing(
    indexed: KeyedTable, caplog: pytest.LogCaptureFixture
) -> None:
    store = indexed.location.open()
    for info in store.list_directory(".hoodie/metadata/record_index").objects:
        store.put(info.path, b"no index")
    _, passed_over = lookups_so_far()
    assert indexed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, PARTITIONS)
    assert lookups_so_far()[1] == passed_over + 1
    assert "no file is left out by keys, for the indexes are not read" in caplog.text


def test_a_key_that_is_stored_twice_is_not_changed_once(indexed: KeyedTable) -> None:
    """One of both has a record. Both are found, as without an index."""
    indexed.write([3], operation="insert")
    condition = f"id = '{id_of(3)}'"
    with pytest.raises(UnsupportedTableError, match="stored twice"):
        indexed.lake().update(condition, {"n": 777})
    assert indexed.lake().delete(condition).rows_deleted == 2
    assert indexed.read(condition)[0] == []


@pytest.mark.parametrize("partition", ["record_index", "secondary_index_n"])
def test_an_index_without_files_is_not_believed(indexed: KeyedTable, partition: str) -> None:
    indexed.location.open().delete_prefix(f".hoodie/metadata/{partition}/")
    assert indexed.compare("n = 22") == (PARTITIONS, PARTITIONS)
    named = PARTITIONS if partition == RECORD_INDEX else 1
    assert indexed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, named)


def test_an_index_without_its_definition_or_a_shard_is_not_believed() -> None:
    condition = f"id = '{id_of(3)}'"
    indexed = KeyedTable(is_partitioned=True)
    indexed.write(range(60), operation="insert")
    store = indexed.location.open()
    shard = next(
        info.path
        for info in store.list_directory(".hoodie/metadata/record_index").objects
        if "-p1-" in info.path
    )
    body = store.get(shard)
    store.delete(shard)
    assert indexed.compare(condition) == (PARTITIONS, PARTITIONS)
    store.put(shard, body)
    store.delete(".hoodie/.index_defs/index.json")
    assert indexed.compare(condition) == (PARTITIONS, PARTITIONS)


def test_an_index_that_is_made_again_while_it_is_read_is_not_believed(indexed: KeyedTable) -> None:
    """It was listed while half of its file groups were gone: keys were looked for in others."""
    inner, folder = indexed.location.open(), ".hoodie/metadata/record_index"
    calls: list[Step] = []

    def before(step: Step) -> None:
        if len(calls) == 1 and step.path == ".hoodie/hoodie.properties":
            calls.append(step)
            indexed.lake().indexes().drop(RECORD_INDEX)
            indexed.lake().indexes().create(RECORD_INDEX)
        if not calls and (step.method, step.path) == ("list_directory", folder):
            calls.append(step)
            for info in inner.list_directory(folder).objects:
                if any(f"record-index-000{number}" in info.path for number in range(5, 10)):
                    inner.delete(info.path)

    keys = [id_of(number) for number in range(10)]
    condition = pc.field("id").isin(keys)
    found = indexed.lake(SteppingStore(inner, before)).to_arrow(["id"], condition)
    assert sorted(found["id"].to_pylist()) == sorted(keys)
    assert len(calls) == 2


def test_a_commit_that_is_undone_meanwhile_is_not_believed(
    indexed: KeyedTable,
) -> None:
    """Only the metadata table had it when the lookup began."""
    indexed.write([3], operation="delete")
    table = indexed.table()
    last = table.timeline().completed().last()
    assert last is not None
    table.store.delete(table.timelines.path(last))
    inner = indexed.location.open()
    folder = ".hoodie/metadata/.hoodie/timeline"
    seen: list[Step] = []

    def before(step: Step) -> None:
        if step.path == ".hoodie/metadata/record_index":
            seen.append(step)
        elif seen and step.path == folder:
            for info in inner.list_directory(folder).objects:
                if last.time.value in info.path and info.path.endswith("deltacommit"):
                    inner.delete(info.path)

    found = indexed.lake(SteppingStore(inner, before)).to_arrow(["id"], f"id = '{id_of(3)}'")
    assert found["id"].to_pylist() == [id_of(3)]


def test_a_lookup_that_takes_more_than_the_files_is_left_out(
    indexed: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.hudi.read.key_lookup.COST_MAX", 1.0)
    few = f"id = '{id_of(3)}'"
    many = " or ".join(f"id = '{id_of(number)}'" for number in range(20))
    assert indexed.compare(few) == (PARTITIONS, 1)
    for start in range(20, 56, 6):
        indexed.write(range(start, start + 6), operation="delete")
    assert indexed.compare(many) == (PARTITIONS, PARTITIONS), "of several logs in each file group"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_index_that_commits_do_not_keep_is_not_believed(version: int) -> None:
    """In version 6 one of values may be there that Hudi made. This one lacks all of them."""
    keyed = KeyedTable(version=version)
    keyed.write(range(60), operation="insert")
    if not keyed.has_values:
        begin_secondary_index(keyed.table(), "n")
    table = keyed.table()
    assert "secondary_index_n" in table.config.metadata_partitions
    found = opened_by(table, plan_snapshot(table), "n = 22")
    assert found == (PARTITIONS if version == 6 else 1)


@pytest.mark.parametrize("table_type", TableType, ids=str)
def test_columns_that_were_altered_are_left_to_statistics(table_type: TableType) -> None:
    """The index has numbers as they were spelled, and columns by their names of then."""
    keyed = KeyedTable(table_type)
    keyed.write(range(60), operation="insert")
    number = row_of(3)["n"]
    assert keyed.compare(f"n = {number}") == (PARTITIONS, 1)
    alter(keyed.table(), retype("n", "double"))
    alter(keyed.table(), rename("city", "town"))
    assert keyed.compare(f"n = {number}.0") == (PARTITIONS, PARTITIONS)
    assert keyed.read(f"n = {number}.0")[0] == [id_of(3)]
    assert keyed.compare("town = 'B$rn1'") == (PARTITIONS, PARTITIONS)
    assert keyed.compare(f"_hoodie_record_key = '{id_of(3)}'") == (PARTITIONS, 1)
    assert keyed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, PARTITIONS)


def test_reads_of_base_files_alone_use_no_index() -> None:
    """The base file has what the log deleted."""
    indexed = KeyedTable(TableType.MERGE_ON_READ)
    indexed.write(range(60), operation="insert")
    indexed.write([3], operation="delete")
    table, condition = indexed.table(), f"id = '{id_of(3)}'"
    assert opened_by(table, plan_snapshot(table), condition) == 0
    assert opened_by(table, plan_read_optimized(table), condition) == PARTITIONS
