"""Syncing a metastore: what is sent, what is refused, deaths on the way, and others at the same
time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.registration.definition import SPARK_SCHEMA
from tideline.registration.metastore import RegisteredColumn, RegisteredTable
from tideline.registration.outcome import Synced
from tideline.registration.sync import SETTLED_UNTIL, sync_table
from tideline.registration.table_name import TableName
from tideline.testing.memory_metastore import MemoryMetastore, MetastoreDiedError
from tideline.testing.small_table import QUIET, SmallTable, batch

NAME = TableName("lake", "trips")


def made(**more: Any) -> SmallTable:
    table = SmallTable.in_memory(**more)
    write(table, range(4), 1)
    return table


def write(table: SmallTable, keys: Any, v: int, operation: str = "upsert", **more: Any) -> None:
    table.fake_clock.advance(1)
    table.write(operation, batch(keys, v, **more), options=QUIET)


def sync(table: SmallTable, metastore: MemoryMetastore, **more: Any) -> Synced:
    return sync_table(table.lake().hoodie_table, metastore, NAME, **more)


def registered(metastore: MemoryMetastore, name: TableName = NAME) -> list[str]:
    """The partitions of a table, and where each lies below it."""
    location = metastore.tables[name].location
    assert all(place.startswith(location) for place in metastore.kept[name].values())
    return sorted(values[0] for values in metastore.kept[name])


def test_a_table_is_created_with_its_partitions_and_then_only_what_changed_is_sent() -> None:
    table, metastore = made(), MemoryMetastore()
    assert sync(table, metastore, dry_run=True).tables[0].is_created
    assert not metastore.calls
    done = sync(table, metastore)
    assert (done.tables[0].is_created, done.tables[0].partitions_added) == (True, 2)
    assert registered(metastore) == ["p0", "p1"]
    assert metastore.tables[NAME].last_commit == done.instant
    assert metastore.tables[NAME].parameters["of"] == table.lake().hoodie_table.config.name
    metastore.calls.clear()
    assert not sync(table, metastore).is_changed
    assert not metastore.calls
    metastore.listed.clear()
    write(table, [2, 5], 2, partitions=3)
    assert sync(table, metastore).tables[0].partitions_added == 1
    assert registered(metastore) == ["p0", "p1", "p2"]
    assert metastore.listed == [0]
    assert metastore.calls == ["add 1 to lake.trips", "alter lake.trips"]
    metastore.calls.clear()
    write(table, [2, 5], 3, partitions=3)
    assert not sync(table, metastore).is_changed
    assert metastore.calls == ["alter lake.trips"]


def test_partitions_without_files_go_and_come_again() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    write(table, [0], 1, "delete_partition")
    assert sync(table, metastore).tables[0].partitions_dropped == 1
    assert registered(metastore) == ["p1"]
    write(table, [0], 2)
    sync(table, metastore)
    assert registered(metastore) == ["p0", "p1"]
    write(table, [1], 3, "insert_overwrite_table")
    sync(table, metastore)
    assert registered(metastore) == ["p1"]


def test_a_restore_is_followed() -> None:
    table, metastore = made(), MemoryMetastore()
    opened = table.lake().hoodie_table
    saved = create_savepoint(opened)
    write(table, [2], 2, partitions=3)
    sync(table, metastore)
    assert registered(metastore) == ["p0", "p1", "p2"]
    table.fake_clock.advance(60)
    restore_table(table.lake().hoodie_table, saved.instant)
    assert sync(table, metastore).tables[0].partitions_dropped == 1
    assert registered(metastore) == ["p0", "p1"]
    assert metastore.tables[NAME].last_commit == str(saved.instant)


def test_partitions_of_a_table_that_was_here_before_go() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    store = table.store()
    for info in list(store.list()):
        store.delete(info.path)
    table.fake_clock.advance(60)
    table = SmallTable.create(table.location, table.fake_clock)
    write(table, [2, 3], 1, partitions=4)
    assert sync(table, metastore).tables[0].partitions_dropped == 2
    assert registered(metastore) == ["p2", "p3"]


def test_everything_is_compared_where_it_is_not_known_what_was_synced() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    whole = metastore.tables[NAME]
    for forgotten in (SETTLED_UNTIL, "last_commit_time_sync"):
        kept = {name: text for name, text in whole.parameters.items() if name != forgotten}
        metastore.tables[NAME] = replace(whole, parameters=kept)
        metastore.kept[NAME] = {("p0",): f"{whole.location}/p0", ("gone",): "elsewhere"}
        sync(table, metastore)
        assert registered(metastore) == ["p0", "p1"]
    metastore.kept[NAME] = {}
    assert not sync(table, metastore).is_changed
    assert sync(table, metastore, everything=True).tables[0].partitions_added == 2


def test_a_commit_that_completes_late_is_not_missed() -> None:
    table, metastore = made(), MemoryMetastore()

    def later() -> None:
        write(table, [5], 2)
        sync(table, metastore)

    table.fake_clock.advance(1)
    table.write("upsert", batch([2], 3, partitions=3), options=QUIET, after_files=later)
    assert registered(metastore) == ["p0", "p1"]
    sync(table, metastore)
    assert registered(metastore) == ["p0", "p1", "p2"]


def test_archived_commits_are_not_missed() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    for number in (2, 3, 4, 5, 6, 7, 8):
        write(table, [number], number, partitions=9)
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    options |= {"hoodie.clean.commits.retained": "1"}
    table.lake().run("archival", options=options)
    assert table.lake().timeline().has_archive
    sync(table, metastore)
    assert registered(metastore) == [f"p{number}" for number in range(9)]


def test_columns_come_and_widen_and_what_others_put_there_stays() -> None:
    table = SmallTable.in_memory()
    rows = pa.table({"id": ["a"], "part": ["p0"], "v": [1]})
    lake = table.lake()
    lake.write(rows, options=QUIET)
    metastore = MemoryMetastore()
    sync(table, metastore)
    before = metastore.tables[NAME]
    metastore.tables[NAME] = replace(
        before,
        columns=tuple(replace(column, comment="theirs") for column in before.columns),
        parameters={**before.parameters, "owner.note": "kept", SPARK_SCHEMA: "{}"},
    )
    table.fake_clock.advance(1)
    wider = rows.append_column("w", pa.array([1.5]))
    table.lake().write(wider, options=QUIET)
    assert sync(table, metastore).tables[0].is_altered
    now = metastore.tables[NAME]
    assert now.columns[-1] == RegisteredColumn("w", "double")
    assert now.columns[-2] == RegisteredColumn("v", "bigint", "theirs")
    assert now.parameters["owner.note"] == "kept"
    assert SPARK_SCHEMA not in now.parameters
    assert '"w"' in now.parameters[f"{SPARK_SCHEMA}.part.0"]


def test_columns_keep_their_order_and_new_ones_come_behind() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    whole = metastore.tables[NAME].columns
    there = (whole[-1], *whole[1:-2])
    metastore.tables[NAME] = replace(metastore.tables[NAME], columns=there)
    sync(table, metastore)
    assert metastore.tables[NAME].columns == (*there, whole[0], whole[-2])
    assert not sync(table, metastore).is_changed


def test_a_merge_on_read_table_is_registered_three_times() -> None:
    table, metastore = made(table_type=TableType.MERGE_ON_READ), MemoryMetastore()
    done = sync(table, metastore)
    assert [synced.name for synced in done.tables] == [
        "lake.trips_ro",
        "lake.trips_rt",
        "lake.trips",
    ]
    for name in metastore.tables:
        assert registered(metastore, name) == ["p0", "p1"]


def test_a_table_without_commits_is_not_registered() -> None:
    metastore = MemoryMetastore()
    assert sync(SmallTable.in_memory(), metastore) == Synced("memory", None)
    assert not metastore.calls


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"location": "s3://elsewhere/trips"}, "another table of this name, at s3://elsewhere"),
        ({"kind": "VIRTUAL_VIEW"}, "a view of this name"),
        ({"parameters": {"table_type": "ICEBERG"}}, "a table of ICEBERG of this name"),
        ({"parameters": {"spark.sql.sources.provider": "parquet"}}, "a table of parquet"),
        ({"partition_columns": ()}, "partitioned by nothing, and it is partitioned by part"),
    ],
)
def test_another_table_of_the_name_is_left_alone(change: dict[str, Any], words: str) -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    other = replace(metastore.tables[NAME], **change)
    metastore.tables[NAME] = other
    metastore.calls.clear()
    with pytest.raises(ConfigError, match=words):
        sync(table, metastore)
    assert metastore.tables[NAME] == other
    assert not metastore.calls


def test_two_folders_of_the_same_values_are_refused() -> None:
    table = made()
    source = table.store()
    for info in list(source.list("p0")):
        source.put(f"part=p0/{info.path.rpartition('/')[2]}", source.get(info.path))
    with pytest.raises(UnsupportedTableError, match="have the same values"):
        sync(table, MemoryMetastore())


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_sync_that_died_is_finished_by_the_next(after: bool) -> None:
    """Just before and just after each of its calls."""
    table = made()
    write(table, [1], 2, "delete_partition")
    write(table, [2], 2, partitions=3)
    calls = len(_synced_twice(table, MemoryMetastore()).calls)
    assert calls == 9
    for number in range(1, calls + 1):
        metastore = MemoryMetastore(dies_at=number, after=after)
        with pytest.raises(MetastoreDiedError):
            _synced_twice(table, metastore)
        metastore.dies_at = 0
        sync(table, metastore)
        assert registered(metastore) == ["p0", "p2"], number
        assert metastore.tables[NAME].columns[-1].name == "v"
        assert not sync(table, metastore).is_changed, number
        assert not sync(table, metastore, everything=True).is_changed, number


def _synced_twice(table: SmallTable, metastore: MemoryMetastore) -> MemoryMetastore:
    """Registered, then as of another state: a column missing, partitions too many, too few, and
    one at another place."""
    sync(table, metastore)
    now = metastore.tables[NAME]
    location = now.location
    parameters = {name: text for name, text in now.parameters.items() if name != SETTLED_UNTIL}
    metastore.tables[NAME] = replace(now, columns=now.columns[:-1], parameters=parameters)
    metastore.kept[NAME] = {("p0",): "elsewhere", ("p1",): f"{location}/p1"}
    sync(table, metastore)
    return metastore


def test_a_sync_at_the_same_time_is_seen_and_partitions_of_both_are_right() -> None:
    """The other one syncs before each call in turn, with a commit that takes a partition back."""
    for number in range(2):
        table, metastore = made(), MemoryMetastore()
        sync(table, metastore)
        write(table, [0], 1, "delete_partition")
        metastore.between = _once_before(number, lambda: _other(table, metastore))  # noqa: B023
        sync(table, metastore)
        assert registered(metastore) == ["p0", "p1"], number
        newest = table.lake().timeline().completed().last()
        assert newest is not None
        assert metastore.tables[NAME].last_commit == str(newest.time)


def _other(table: SmallTable, metastore: MemoryMetastore) -> None:
    write(table, [0], 5)
    sync(table, metastore)


def _once_before(number: int, act: Callable[[], object]) -> Callable[[], object]:
    left = [number]

    def between() -> None:
        left[0] -= 1
        if left[0] == -1:
            act()

    return between


def test_one_that_is_never_first_says_so() -> None:
    table, metastore = made(), MemoryMetastore()
    sync(table, metastore)
    write(table, [2], 2, partitions=3)

    def touched() -> None:
        now: RegisteredTable = metastore.tables[NAME]
        metastore.tables[NAME] = replace(
            now, parameters={**now.parameters, "seen": f"{now.parameters.get('seen')}x"}
        )

    metastore.between = touched
    with pytest.raises(ConflictError, match="always first to sync"):
        sync(table, metastore)


def test_partitions_by_a_time_are_times_and_numbers_in_a_column_of_numbers() -> None:
    metastore = MemoryMetastore()
    table = LakeTable.create(
        "memory://partitions-by-a-time", record_key="id", partition_by="at", name="trips"
    )
    moments = pa.array([1_704_424_305_000_000], pa.timestamp("us", tz="UTC"))
    table.write(pa.table({"id": ["a"], "at": moments}), options=QUIET)

    def synced(**more: Any) -> dict[tuple[str, ...], str]:
        sync_table(table.hoodie_table, metastore, NAME, **more)
        return metastore.kept[NAME]

    location = table.uri + "/1704424305000000"
    assert synced() == {("2024-01-05 03:11:45",): location}
    numbers = (RegisteredColumn("at", "bigint"),)
    metastore.tables[NAME] = replace(metastore.tables[NAME], partition_columns=numbers)
    metastore.kept[NAME] = {("1704424305000000",): location}
    metastore.calls.clear()
    assert synced(everything=True) == {("1704424305000000",): location}
    assert not metastore.calls
