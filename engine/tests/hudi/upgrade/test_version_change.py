"""Tables that change their version: the rows, the past and the next writer."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.table_config import FILES, TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.upgrade.execute import change_version
from tideline.hudi.upgrade.run import preview_version_change, run_version_change
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.service_process import local_services
from tideline.testing.small_table import ONCE, SmallTable, batch
from tideline.testing.table_audit import read_rows, stale_listing
from tideline.testing.version_changes import (
    ARCHIVED,
    NEXT,
    WITH_METADATA,
    assert_sound,
    change,
    opened,
    table_with_a_past,
)

pytest_plugins = ["tideline.testing.minio_fixtures"]

WAYS = [(6, 8), (6, 9), (8, 6), (8, 9), (9, 6), (9, 8)]


def objects_of(table: SmallTable) -> list[tuple[str, int]]:
    """Everything but the lock, with its time."""
    listed = ((info.path, info.modified_ms) for info in table.store().list(""))
    return [pair for pair in listed if ".locks" not in pair[0]]


def instants_of(table: SmallTable) -> list[tuple[InstantTime, Action]]:
    """All completed commits, archived ones too."""
    hoodie = opened(table)
    active = hoodie.timeline().of(*COMMIT_ACTIONS).completed()
    archived = (entry.instant for entry in hoodie.commits.archive().commits())
    return sorted({(item.time, item.action) for item in (*active, *archived)})


@pytest.mark.parametrize("table_type", TableType, ids=str)
@pytest.mark.parametrize("way", WAYS, ids="{0[0]} to {0[1]}".format)
def test_rows_and_commits_are_those_from_before(
    way: tuple[int, int], table_type: TableType
) -> None:
    before, after = way
    table = table_with_a_past(before, table_type, {})
    rows, commits = table.values(), instants_of(table)
    change(table, after)
    assert opened(table).config.version == after
    assert table.values() == rows
    assert set(commits) <= set(instants_of(table))
    assert_sound(table)
    table.write("upsert", NEXT)
    assert table.values() == sorted({**dict(rows), "k001": 30, "k040": 30}.items())
    table.write("insert_overwrite", batch([2], 31))
    local_services(table, ARCHIVED).run(ARCHIVAL)
    assert_sound(table)
    # There and back again.
    rows = table.values()
    change(table, before)
    assert opened(table).config.version == before
    assert table.values() == rows
    assert_sound(table)
    table.forget()


@pytest.mark.parametrize("way", WAYS, ids="{0[0]} to {0[1]}".format)
def test_time_travel_sees_what_it_saw(way: tuple[int, int]) -> None:
    table = table_with_a_past(way[0], TableType.COPY_ON_WRITE, {})
    past = {time: rows_as_of(table, time) for time, _ in instants_of(table)[-3:]}
    assert len({len(rows) for rows in past.values()}) > 1
    change(table, way[1])
    for time, rows in past.items():
        assert rows_as_of(table, time) == rows
    table.forget()


@pytest.mark.parametrize("way", [(6, 8), (6, 9)], ids="{0[0]} to {0[1]}".format)
def test_time_travel_among_logs_sees_what_it_saw(way: tuple[int, int]) -> None:
    """Logs of version 6 hold blocks of several commits."""
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
        table_version=way[0],
    )
    table.write("insert", batch(range(4), 1))
    for v in range(2, 5):
        table.write("upsert", batch([v - 2], v))
    past = {time: rows_as_of(table, time) for time, _ in instants_of(table)}
    assert len(set(map(str, past.values()))) == 4
    change(table, way[1])
    for time, rows in past.items():
        assert rows_as_of(table, time) == rows, time
    table.forget()


def rows_as_of(table: SmallTable, time: InstantTime) -> list[tuple[str, object]]:
    hoodie = opened(table)
    return sorted((row["id"], row["v"]) for row in read_rows(hoodie, hoodie.timeline().up_to(time)))


def test_an_open_table_goes_on_reading() -> None:
    table = table_with_a_past(6, TableType.COPY_ON_WRITE, {})
    reader, rows = opened(table), table.values()
    change(table, 9)
    assert sorted((row["id"], row["v"]) for row in read_rows(reader, reader.timeline())) == rows
    table.forget()


@pytest.mark.parametrize("way", [(6, 9), (9, 6)], ids="{0[0]} to {0[1]}".format)
def test_a_table_that_was_open_reads_one_version_or_the_other(way: tuple[int, int]) -> None:
    """Whatever of the former timeline is deleted by then."""
    prepared = table_with_a_past(way[0], TableType.COPY_ON_WRITE, {})
    rows = prepared.values()
    copy = prepared.copy()
    change(copy, way[1], rehearsal := FaultyStore(copy.store()))
    for number in range(1, len(rehearsal.writes) + 1):
        table = prepared.copy()
        reader = opened(table)
        with pytest.raises(SimulatedCrash):
            change(table, way[1], FaultyStore(table.store(), FaultPlan(crash_after_write=number)))
        found = sorted((row["id"], row["v"]) for row in read_rows(reader, reader.timeline()))
        assert found == rows, rehearsal.writes[number - 1]
        table.forget()


@pytest.mark.parametrize("folder", ["timeline", "timeline/history", ".schema", "metadata"])
def test_an_archive_in_the_way_stops_it(folder: str) -> None:
    table = table_with_a_past(6, TableType.COPY_ON_WRITE, {})
    opened(table).properties.update({"hoodie.archivelog.folder": folder})
    rows = table.values()
    with pytest.raises(UnsupportedTableError, match="folders of their own"):
        change(table, 9)
    assert table.values() == rows
    table.forget()


def test_an_archive_that_hudi_left_is_history_as_well() -> None:
    table = table_with_a_past(9, TableType.COPY_ON_WRITE, {})
    old = table_with_a_past(6, TableType.COPY_ON_WRITE, {})
    (left,) = old.store().list(".hoodie/archived")
    table.store().put(left.path, old.store().get(left.path))
    known = set(instants_of(table)) | {
        (entry.instant.time, entry.instant.action)
        for entry in opened(old).commits.archive().commits()
    }
    rows = table.values()
    change(table, 6)
    assert known <= set(instants_of(table))
    assert table.values() == rows
    table.forget()
    old.forget()


def test_a_writer_that_opened_it_before_writes_the_other_version() -> None:
    table = table_with_a_past(6, TableType.COPY_ON_WRITE, {})
    lake = table.lake()
    rows = table.values()
    change(table, 9)
    local = local_services(table, {})
    assert local.table.config.version == 9
    lake.delete_partitions(["p0"])
    assert table.values() == [(key, v) for key, v in rows if int(key[1:]) % 2]
    assert_sound(table)
    table.forget()


def test_a_metadata_table_is_made_anew() -> None:
    table = table_with_a_past(9, TableType.COPY_ON_WRITE, WITH_METADATA)
    assert opened(table).config.metadata_partitions == (FILES,)
    change(table, 8)
    assert opened(table).config.metadata_partitions == (FILES,)
    assert_sound(table)
    for version in (6, 9):
        change(table, version)
        assert opened(table).config.metadata_partitions == (FILES,)
        assert stale_listing(opened(table)) == []
        assert_sound(table)
    table.forget()


def test_what_is_pending_is_finished_first() -> None:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, table_version=6)
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([1], 2), options={"hoodie.parquet.small.file.limit": "0"})
    services = local_services(table, {"hoodie.compact.inline.max.delta.commits": "1"})
    planned = services.schedule(COMPACTION)
    with pytest.raises(ConflictError, match="nothing is pending") as caught:
        change_version(opened(table), 9)
    assert str(getattr(planned, "time", "")) in str(caught.value)
    rows = table.values()
    change(table, 9)
    assert table.values() == rows
    assert_sound(table)
    table.forget()


def test_logs_that_came_in_between_stop_it() -> None:
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
        table_version=8,
    )
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([1], 2))
    with pytest.raises(ConflictError, match="has logs"):
        change_version(opened(table), 6)
    assert opened(table).config.version == 8
    table.forget()


@pytest.mark.parametrize(("before", "after"), [(6, 9), (9, 6)])
def test_a_savepoint_with_logs_stops_it_before_anything_is_done(before: int, after: int) -> None:
    """Restored to in version 9, logs of version 6 would show rows of later commits."""
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
        table_version=before,
    )
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([1], 2))
    saved = table.lake().savepoint()
    objects = objects_of(table)
    for act in (preview_version_change, run_version_change):
        with pytest.raises(ConflictError, match="a savepoint keeps logs"):
            act(local_services(table, {}), after)
    assert objects_of(table) == objects
    table.lake().delete_savepoint(saved.instant)
    change(table, after)
    assert_sound(table)
    table.forget()


def test_a_dry_run_changes_nothing() -> None:
    table = table_with_a_past(6, TableType.COPY_ON_WRITE, {})
    before = objects_of(table)
    planned = preview_version_change(local_services(table, {}), 9)
    assert planned.plan is not None
    assert not planned.is_done
    assert planned.plan.changes["hoodie.table.version"] == "9"
    assert "write timeline and archive in the other layout" in planned.plan.steps
    assert objects_of(table) == before
    table.forget()


@pytest.mark.minio
def test_on_an_object_store(s3_location: StoreLocation) -> None:
    table = SmallTable.create(s3_location, table_version=6, table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(6), 1))
    table.write("upsert", batch([1, 2], 2), options={"hoodie.parquet.small.file.limit": "0"})
    rows = table.values()
    for version in (9, 6, 8):
        change(table, version)
        assert table.values() == rows
        assert_sound(table)
    table.write("upsert", NEXT)
    assert_sound(table)


@pytest.mark.parametrize("version", [0, 5, 7, 10])
def test_no_table_gets_such_a_version(version: int) -> None:
    table = SmallTable.in_memory()
    table.write("insert", batch([1], 1))
    with pytest.raises(ConfigError, match="6, 8, 9"):
        change(table, version)
    table.forget()


def test_a_table_that_has_the_version_stays_as_it_is() -> None:
    table = SmallTable.in_memory(table_version=9)
    table.write("insert", batch([1], 1))
    before = objects_of(table)
    done = run_version_change(local_services(table, {}), 9)
    assert done.plan is None
    assert objects_of(table) == before
    table.forget()


@pytest.mark.parametrize("before", [8, 9])
def test_logs_of_older_slices_stop_a_downgrade(before: int) -> None:
    """Version 6 takes a log for one of the slice that its name has."""
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
        table_version=before,
    )
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([1], 2))
    local_services(table, ONCE).run(COMPACTION)
    view = opened(table).files.view_of(opened(table).files.listing(), opened(table).timeline())
    newest = [
        file_slice for partition in view.partitions for file_slice in view.latest_slices(partition)
    ]
    assert not any(file_slice.log_files for file_slice in newest)
    with pytest.raises(ConflictError, match="clean older ones"):
        change_version(opened(table), 6)
    assert opened(table).config.version == before
    rows = table.values()
    change(table, 6)
    assert table.values() == rows
    assert_sound(table)
    table.forget()
