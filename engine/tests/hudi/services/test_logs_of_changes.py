"""Logs of changes (CDC): no rows to read, gone with the file version they were written with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.recovery.plan import plan_rollback
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.plan import ClusteringPlan, plan_clustering
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.file_group import BaseFile, LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.layout.table_layout import RollbackForm
from tideline.hudi.table.markers import Marker, MarkerKind
from tideline.hudi.table.properties import update_table_properties
from tideline.hudi.table.table_config import CDC_ENABLED, TableType
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.services.explanation import NotDue
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

FORM = RollbackForm.COMMAND_BLOCKS
T = InstantTime("20250615160000000")
OLD = InstantTime("20250615150000000")
BASE = BaseFile("p", "f-0", "0-1-2", T, 10)
CHANGES = LogFile("p", "f-0", T, 1, "0-1-2", 10, is_cdc=True)
ROLLED = LogFile("p", "f-0", T, 2, "0-1-2", 10, is_cdc=True)
APPENDED = LogFile("p", "f-0", T, 1, "7-7-7", 10)
OLDER = LogFile("p", "f-0", OLD, 1, "0-0-1", 10, is_cdc=True)


@pytest.fixture
def logged() -> Iterator[SmallTable]:
    """Three versions of each file group; the last two have logs of changes."""
    table = SmallTable.in_memory()
    for version in (1, 2, 3):
        table.write("upsert", batch(range(4), version))
        table.fake_clock.advance(60)
    store = table.store()
    for base in hoodie(table).files.base_files():
        if base.instant != hoodie(table).timeline().instants[0].time:
            log = LogFile(base.partition, base.file_id, base.instant, 1, base.write_token, 3, True)
            store.put(log.path, b"cdc")
    update_table_properties(store, {CDC_ENABLED: "true"})
    yield table
    table.forget()


def hoodie(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


def lake(table: SmallTable) -> LakeTable:
    return LakeTable(hoodie(table))


def logs(table: SmallTable) -> list[LogFile]:
    return [log for log in hoodie(table).files.log_files() if log.is_cdc]


def test_they_are_no_logs_to_merge(logged: SmallTable) -> None:
    opened = hoodie(logged)
    view = opened.files.read_view(opened.timeline())
    slices = [
        file_slice for partition in view.partitions for file_slice in view.latest_slices(partition)
    ]
    assert [len(file_slice.log_files) for file_slice in slices] == [0, 0]
    assert [len(file_slice.cdc_files) for file_slice in slices] == [1, 1]
    assert all(file_slice.files[-1].path.endswith(".cdc") for file_slice in slices)
    assert logged.values() == [(f"k{n:03d}", 3) for n in range(4)]


def test_cleaning_takes_them_with_their_version(logged: SmallTable) -> None:
    newest = max(log.instant for log in logs(logged))
    assert len(logs(logged)) == 4
    options = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
               "hoodie.clean.fileversions.retained": "1"}  # fmt: skip
    assert lake(logged).run("cleaning", options=options).done
    assert [log.instant for log in logs(logged)] == [newest, newest]
    assert logged.values() == [(f"k{n:03d}", 3) for n in range(4)]
    assert [finding for finding in lake(logged).check() if str(finding.severity) != "note"] == []


def test_cleaning_takes_those_that_are_left_alone(logged: SmallTable) -> None:
    """An earlier clean took the base files of the second version and left the logs."""
    versions = sorted({log.instant for log in logs(logged)})
    for base in hoodie(logged).files.base_files():
        if base.instant == versions[0]:
            logged.store().delete(base.path)
    assert lake(logged).run("cleaning", options={"hoodie.clean.commits.retained": "1"}).done
    assert [log.instant for log in logs(logged)] == [versions[1]] * 2
    assert logged.values() == [(f"k{n:03d}", 3) for n in range(4)]


def test_a_savepoint_keeps_them(logged: SmallTable) -> None:
    names = {name for kept in create_savepoint(hoodie(logged)).files.values() for name in kept}
    newest = max(log.instant for log in logs(logged))
    assert {log.name for log in logs(logged) if log.instant == newest} <= names


def test_a_dead_writers_are_rolled_back(logged: SmallTable) -> None:
    store = logged.store()
    before = {info.path for info in store.list() if ".hoodie/" not in info.path}
    (group, *_) = sorted({base.group for base in hoodie(logged).files.base_files()})
    time = InstantTime(str(hoodie(logged).instants.next_time()))
    for file in (
        BaseFile(group.partition, group.file_id, "0-9-9", time, 1),
        LogFile(group.partition, group.file_id, time, 1, "0-9-9", 1, is_cdc=True),
    ):
        store.put(file.path, b"x")
    store.put(f".hoodie/{time}.commit.requested", b"")
    store.put(f".hoodie/{time}.inflight", b"")
    (undone,) = lake(logged).recover()
    assert undone.instant == time
    assert {info.path for info in store.list() if ".hoodie/" not in info.path} == before


@pytest.mark.parametrize(
    "own", [{}, {"hoodie.compaction.payload.class": "com.acme.Own"}], ids=["logged", "own payload"]
)
def test_what_moves_no_row_goes_on(logged: SmallTable, own: dict[str, str]) -> None:
    update_table_properties(logged.store(), own)
    archived = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    options = archived | {"hoodie.clean.commits.retained": "1"}
    lake(logged).run("cleaning", options=options)
    lake(logged).run("archival", options=options)
    lake(logged).delete_partitions("p0", options={"hoodie.clean.automatic": "false"})
    assert logged.values() == [("k001", 3), ("k003", 3)]
    logged.fake_clock.advance(3 * 86_400)
    ttl = {"hoodie.partition.ttl.strategy.days.retain": "1"}
    assert lake(logged).run("partition_ttl", options=ttl).done
    assert logged.values() == []
    assert lake(logged).repair() == ()


def test_a_compactions_go_and_what_was_appended_next_to_them_stays() -> None:
    compaction = Instant(T, Action.COMPACTION, State.INFLIGHT)
    markers = (
        Marker("p", BASE.name, MarkerKind.MERGE),
        Marker("p", CHANGES.name, MarkerKind.APPEND),
    )
    files = (BASE, CHANGES, ROLLED, APPENDED, OLDER)
    plan = plan_rollback(compaction, markers=markers, files=files, form=FORM)
    assert set(plan.deleted_paths) == {BASE.path, CHANGES.path, ROLLED.path}
    assert plan.log_rollbacks == ()
    listed = plan_rollback(compaction, files=files, by_listing=True, form=FORM)
    assert set(listed.deleted_paths) == {BASE.path, CHANGES.path, ROLLED.path}


def test_a_marker_of_another_instants_is_refused() -> None:
    marker = Marker("p", OLDER.name, MarkerKind.APPEND)
    with pytest.raises(CorruptTableError, match="did not write"):
        plan_rollback(Instant(T, Action.COMMIT, State.INFLIGHT), markers=(marker,), form=FORM)


def test_a_clustering_reads_past_them() -> None:
    record = {
        "slices": [
            {"dataFilePath": BASE.path, "deltaFilePaths": [CHANGES.path], "fileId": "f-0",
             "partitionPath": "p"}
        ]
    }  # fmt: skip
    plan = ClusteringPlan.from_avro({"clusteringPlan": {"inputGroups": [record]}}, path="plan")
    (file_slice,) = plan.slices
    assert (file_slice.log_files, [log.name for log in file_slice.cdc_files]) == (
        (),
        [CHANGES.name],
    )


def test_rows_that_are_not_merged_here_are_clustered_where_they_have_no_logs() -> None:
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    table.write("insert", batch(range(4), 1))
    table.write("upsert", batch([0], 2))
    update_table_properties(table.store(), {"hoodie.compaction.payload.class": "com.acme.Own"})
    opened = hoodie(table)
    view = opened.files.view(opened.timeline())
    config = ClusteringConfig(single_groups=True)
    plan = plan_clustering(view, config, reason="now", merges_logs=False)
    assert isinstance(plan, ClusteringPlan)
    assert plan.partitions == ("p1",)
    logs_only = opened.files.view(opened.timeline(), ["p0"])
    left = plan_clustering(logs_only, config, reason="now", merges_logs=False)
    assert isinstance(left, NotDue)
    assert "left alone" in left.reason
    with pytest.raises(UnsupportedTableError, match="no log is merged"):
        table.merged_values()
    table.forget()
