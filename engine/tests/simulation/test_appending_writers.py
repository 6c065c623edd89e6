"""Two writers of a merge-on-read table, and writers alongside pending compaction and clustering."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tideline.errors import ConflictError
from tideline.formats.avro import encode_container
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

APPENDS = {"hoodie.parquet.small.file.limit": "0"}
STRATEGY = "hoodie.clustering.updates.strategy"
PACKAGE = "org.apache.hudi.client.clustering.update.strategy"
ALLOW = {STRATEGY: f"{PACKAGE}.SparkAllowUpdateStrategy"}
WITHDRAW = {**ALLOW, "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(APPENDS, table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0], 2))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    yield table
    table.forget()


@pytest.fixture
def store(table: SmallTable) -> ObjectStore:
    return table.store()


def hoodie(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


def slice_of(table: SmallTable, partition: str = "p0") -> FileSlice:
    opened = hoodie(table)
    (file_slice,) = opened.files.view(opened.timeline()).latest_slices(partition)
    return file_slice


def schedule_compaction(table: SmallTable, partition: str = "p0") -> InstantTime:
    """A pending compaction of the partition's only file group."""
    file_slice, opened = slice_of(table, partition), hoodie(table)
    operation = {
        "baseInstantTime": str(file_slice.base_instant),
        "deltaFilePaths": [log.name for log in file_slice.log_files],
        "dataFilePath": file_slice.base_file.name if file_slice.base_file else None,
        "fileId": file_slice.file_id,
        "partitionPath": partition,
    }
    body = encode_container("HoodieCompactionPlan", {"operations": [operation], "version": 2})
    time = opened.instants.next_time()
    opened.timelines.create_requested(time, Action.COMPACTION, body)
    return time


def schedule_clustering(table: SmallTable, partition: str = "p0") -> InstantTime:
    """A pending clustering of the partition's only file group, another process at work on it."""
    file_slice, opened = slice_of(table, partition), hoodie(table)
    info: dict[str, Any] = {"dataFilePath": "x", "deltaFilePaths": [], "fileId": file_slice.file_id}
    info |= {"partitionPath": partition, "bootstrapFilePath": "", "version": 1}
    group = {"slices": [info], "metrics": {}, "numOutputFileGroups": 1, "version": 1}
    plan = {"inputGroups": [group], "strategy": None, "version": 1}
    record = {"operationType": "CLUSTER", "clusteringPlan": plan, "version": 1}
    time = opened.instants.next_time()
    body = encode_container("HoodieRequestedReplaceMetadata", record)
    requested = opened.timelines.create_requested(time, Action.REPLACECOMMIT, body)
    opened.timelines.to_inflight(requested)
    return time


def assert_sound(table: SmallTable) -> None:
    assert unexplained_objects(hoodie(table)) == []


# Two writers


def test_of_two_appends_to_one_file_group_the_later_one_loses(table: SmallTable) -> None:
    def other() -> None:
        table.write("upsert", batch([2], 5))

    with pytest.raises(ConflictError, match="a concurrent write conflicts"):
        table.write("upsert", batch([0, 2], 3), before_files=other)
    assert dict(table.values())["k000"] == 2
    assert dict(table.values())["k002"] == 5
    assert_sound(table)
    table.write("upsert", batch([0, 2], 3))
    assert (dict(table.values())["k000"], dict(table.values())["k002"]) == (3, 3)


def test_appends_to_different_file_groups_get_along(table: SmallTable) -> None:
    def other() -> None:
        table.write("upsert", batch([1], 5))

    table.write("upsert", batch([0], 3), before_files=other)
    assert (dict(table.values())["k000"], dict(table.values())["k001"]) == (3, 5)


def test_two_first_writes_of_one_bucket_conflict() -> None:
    table = SmallTable.in_memory(BUCKETS, table_type=TableType.MERGE_ON_READ)

    def other() -> None:
        table.write("upsert", batch([0], 5))

    with pytest.raises(ConflictError):
        table.write("upsert", batch([2], 3), before_files=other)
    table.write("upsert", batch([2], 3))
    table.write("delete", batch([0], 3))
    assert table.values() == [("k002", 3)]
    assert_sound(table)
    table.forget()


# Alongside a compaction


def test_an_append_after_a_pending_compaction_begins_its_slice(table: SmallTable) -> None:
    compaction = schedule_compaction(table)
    table.write("upsert", batch([0, 1], 3))
    table.write("upsert", batch([0], 4))
    layout = open_fresh(table.location).layout
    if layout.names.logs_name_slice:
        names = [log.name for log in slice_of(table).log_files if log.instant == compaction]
        assert [name.split(".log.")[1].split("_")[0] for name in names] == ["1", "2"]
    else:
        later = [log for log in slice_of(table).log_files if log.instant > compaction]
        assert [log.version for log in later] == [1, 1]
    assert (dict(table.values())["k000"], dict(table.values())["k001"]) == (4, 3)


def test_an_append_loses_to_a_compaction_scheduled_concurrently(table: SmallTable) -> None:
    """The compaction may not have seen it, and would hide the slice it was appended to."""

    def other() -> None:
        schedule_compaction(table)

    with pytest.raises(ConflictError):
        table.write("upsert", batch([0], 3), after_files=other)
    table.write("upsert", batch([0], 3))
    assert dict(table.values())["k000"] == 3


def test_a_file_group_under_compaction_takes_no_inserts(table: SmallTable) -> None:
    schedule_compaction(table, "p1")
    before = slice_of(table, "p1").file_id
    options = {"hoodie.parquet.small.file.limit": "1000000"}
    table.write("insert", batch([101], 3), options=options)
    opened = hoodie(table)
    slices = opened.files.view(opened.timeline()).latest_slices("p1")
    assert len(slices) == 2
    assert before in {file_slice.file_id for file_slice in slices}


def test_a_partition_under_compaction_is_not_deleted(table: SmallTable) -> None:
    compaction = schedule_compaction(table)
    with pytest.raises(ConflictError, match="pending compaction") as raised:
        table.write("delete_partition", batch([0], 0))
    assert str(compaction) in str(raised.value)
    table.write("delete_partition", batch([1], 0))
    assert {key for key, _ in table.values()} == {"k000", "k002", "k004", "k006"}


# Alongside a clustering


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert_overwrite", "delete_partition"])
def test_a_write_on_what_a_pending_clustering_holds_is_refused(
    table: SmallTable, operation: str
) -> None:
    clustering = schedule_clustering(table)
    before = table.values()
    with pytest.raises(ConflictError, match="pending clustering") as raised:
        table.write(operation, batch([0], 3))
    assert str(clustering) in str(raised.value)
    assert table.values() == before
    table.write("upsert", batch([1], 3))
    assert hoodie(table).timeline().find(clustering) is not None


def test_an_update_may_be_allowed_to_win(table: SmallTable) -> None:
    """The clustering stays, to find out about it when it wants to complete."""
    clustering = schedule_clustering(table)
    table.write("upsert", batch([0], 3), options=ALLOW)
    assert dict(table.values())["k000"] == 3
    pending = hoodie(table).timeline().find(clustering)
    assert pending is not None
    assert pending.state is State.INFLIGHT


def test_an_update_may_withdraw_the_clustering(table: SmallTable, store: ObjectStore) -> None:
    clustering = schedule_clustering(table)
    path = f"p0/44444444-4444-4444-4444-444444444444-0_0-0-0_{clustering}.parquet"
    store.put(path, b"what it has written so far")
    report = table.write("upsert", batch([0], 3), options=WITHDRAW)
    assert report.rolled_back == (str(clustering),)
    assert dict(table.values())["k000"] == 3
    assert hoodie(table).timeline().find(clustering) is None
    assert store.head(path) is None
    assert_sound(table)


def test_a_clustering_scheduled_concurrently_makes_the_update_lose_unless_allowed(
    table: SmallTable,
) -> None:
    def other() -> None:
        schedule_clustering(table)

    with pytest.raises(ConflictError):
        table.write("upsert", batch([0], 3), after_files=other)
    table.write("upsert", batch([1], 3), options=ALLOW)
    table.write("upsert", batch([0], 4), options=ALLOW)
    assert dict(table.values())["k000"] == 4
