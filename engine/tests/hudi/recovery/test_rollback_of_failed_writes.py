"""What a rollback removes, from all that the dead writer left, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import open_fresh, traces_of, unexplained_objects

pytestmark = pytest.mark.usefixtures("version_6")

T = InstantTime("20250615160000000")
"""A dead writer's instant, after those of the table."""

FILE = f"22222222-2222-2222-2222-222222222222-0_0-0-0_{T}.parquet"
GROUP = "22222222-2222-2222-2222-222222222222-0"
EMPTY_REPLACE = {"operationType": None, "clusteringPlan": None, "extraMetadata": None}


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(7200)
    yield table
    table.forget()


@pytest.fixture
def store(table: SmallTable) -> ObjectStore:
    return table.store()


def hoodie(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


def lake(table: SmallTable, store: ObjectStore | None = None) -> LakeTable:
    return LakeTable(open_fresh(table.location, store, table.clock))


def leave_requested(store: ObjectStore) -> None:
    store.put(f".hoodie/{T}.commit.requested", b"")


def leave_inflight(store: ObjectStore) -> None:
    leave_requested(store)
    store.put(f".hoodie/{T}.inflight", b"")


def leave_file(store: ObjectStore, partition: str = "p0") -> str:
    store.put(f"{partition}/{FILE}", b"half a file")
    return f"{partition}/{FILE}"


def leave_marker(store: ObjectStore, kind: MarkerKind = MarkerKind.CREATE) -> None:
    create_marker(store, T, Marker("p0", FILE, kind))


def assert_nothing_left(table: SmallTable) -> None:
    assert traces_of(table.store(), T) == []
    assert unexplained_objects(hoodie(table)) == []
    assert table.values() == [(f"k{number:03d}", 1) for number in range(8)]


def clustering_plan() -> bytes:
    planned = {"dataFilePath": "x", "deltaFilePaths": [], "fileId": GROUP, "partitionPath": "p0"}
    group = {"slices": [{**planned, "bootstrapFilePath": "", "version": 1}], "metrics": {}}
    plan = {
        "inputGroups": [{**group, "numOutputFileGroups": 1, "version": 1, "extraMetadata": None}],
        "strategy": None,
        "version": 1,
        "extraMetadata": None,
        "preserveHoodieMetadata": True,
    }
    record = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": None}
    return encode_container("HoodieRequestedReplaceMetadata", {**record, "version": 1})


# Where the plan comes from


@pytest.mark.parametrize("kind", [MarkerKind.CREATE, MarkerKind.MERGE])
def test_marked_files_are_deleted(table: SmallTable, store: ObjectStore, kind: MarkerKind) -> None:
    leave_inflight(store)
    leave_marker(store, kind)
    path = leave_file(store)
    (rolled,) = lake(table).recover()
    assert (rolled.instant, rolled.action, rolled.deleted) == (T, Action.COMMIT, (path,))
    assert_nothing_left(table)


@pytest.mark.parametrize("has_instant", [True, False])
def test_a_file_that_a_task_publishes_just_before_its_marker_goes_is_deleted(
    table: SmallTable, store: ObjectStore, has_instant: bool
) -> None:
    """The task saw its marker and went away; no process would look for its file again."""
    if has_instant:
        leave_inflight(store)
    leave_marker(store)
    published: list[str] = []

    def before(step: Step) -> None:
        if step.method == "delete" and ".marker." in step.path and not published:
            published.append(leave_file(store))

    lake(table, SteppingStore(store, before)).recover()
    assert published
    assert_nothing_left(table)


def test_a_marker_whose_file_was_never_begun_is_no_trouble(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    leave_marker(store)
    lake(table).recover()
    assert_nothing_left(table)


def test_without_markers_a_listing_finds_the_files(table: SmallTable, store: ObjectStore) -> None:
    """Hudi 1.2 would leave them; in a directory that is no partition yet as well."""
    leave_inflight(store)
    paths = (leave_file(store, "new partition"), leave_file(store, "p0"))
    (rolled,) = lake(table).recover()
    assert set(rolled.deleted) == set(paths)
    assert_nothing_left(table)


def test_the_timeline_servers_markers_are_read(table: SmallTable, store: ObjectStore) -> None:
    """What a killed Spark job of Hudi leaves: no newline at the end of either file."""
    leave_inflight(store)
    path = leave_file(store)
    directory = f".hoodie/.temp/{T}"
    store.put(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    store.put(f"{directory}/MARKERS0", f"{path}.marker.MERGE".encode())
    lake(table).recover()
    assert_nothing_left(table)


def test_files_of_a_write_that_is_only_requested_are_deleted_if_marked(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_requested(store)
    leave_marker(store)
    leave_file(store)
    lake(table).recover()
    assert_nothing_left(table)


def test_a_write_that_is_only_requested_costs_no_listing(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_requested(store)
    steps: list[Step] = []
    (rolled,) = lake(table, SteppingStore(store, steps.append)).recover()
    assert rolled.deleted == ()
    assert Step("list", "") not in steps
    assert_nothing_left(table)


def test_a_file_written_by_a_task_that_outlived_its_driver_is_deleted(
    table: SmallTable, store: ObjectStore
) -> None:
    """It appears, marker first, after the plan was made."""
    leave_inflight(store)

    def before(step: Step) -> None:
        if step == Step("delete", f".hoodie/{T}.inflight"):
            leave_marker(store)
            leave_file(store)

    (rolled,) = lake(table, SteppingStore(store, before)).recover()
    assert rolled.deleted == (f"p0/{FILE}",)
    assert_nothing_left(table)


def test_several_dead_writers_are_rolled_back_newest_first(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    later = InstantTime("20250615160000005")
    store.put(f".hoodie/{later}.commit.requested", b"")
    rolled = lake(table).recover()
    assert [item.instant for item in rolled] == [later, T]
    assert_nothing_left(table)


def test_what_was_done_is_recorded_as_hudi_records_it(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    leave_marker(store)
    leave_file(store)
    lake(table).recover()
    opened = hoodie(table)
    (rollback,) = opened.timeline().of(Action.ROLLBACK)
    assert rollback.is_completed
    assert rollback.time > T
    plan = decode_container(opened.timelines.read(rollback.in_state(State.REQUESTED)))
    assert plan["instantToRollback"] == {"commitTime": str(T), "action": "commit"}
    (request,) = plan["RollbackRequests"]
    assert request["partitionPath"] == "p0"
    assert request["filesToBeDeleted"] == [f"{table.location.uri}/p0/{FILE}"]
    done = decode_container(opened.timelines.read(rollback))
    assert done["commitsRollback"] == [str(T)]
    assert done["totalFilesDeleted"] == 1
    assert done["instantsRollback"] == [{"commitTime": str(T), "action": "commit"}]


# Which writers are rolled back


def test_a_young_heartbeat_protects(table: SmallTable, store: ObjectStore) -> None:
    leave_inflight(store)
    store.put(f".hoodie/.heartbeat/{T}", b"")
    assert lake(table).recover() == ()
    table.fake_clock.advance(601)
    assert len(lake(table).recover()) == 1
    assert_nothing_left(table)


@pytest.mark.parametrize(("policy", "rolled_back"), [("EAGER", 1), ("LAZY", 0), ("NEVER", 0)])
def test_the_policy_decides_about_live_writers(
    table: SmallTable, store: ObjectStore, policy: str, rolled_back: int
) -> None:
    leave_inflight(store)
    store.put(f".hoodie/.heartbeat/{T}", b"")
    options = {"hoodie.clean.failed.writes.policy": policy}
    report = table.write("upsert", batch([0], 2), options=options)
    assert len(report.rolled_back) == rolled_back


def test_never_leaves_dead_writers_to_others(table: SmallTable, store: ObjectStore) -> None:
    leave_inflight(store)
    options = {"hoodie.clean.failed.writes.policy": "NEVER"}
    assert table.write("upsert", batch([0], 2), options=options).rolled_back == ()
    assert len(hoodie(table).timeline().pending()) == 1


def test_a_pending_clustering_is_left_alone(table: SmallTable, store: ObjectStore) -> None:
    """Its plan waits to be executed; it is no failed write, dead or alive."""
    store.put(f".hoodie/{T}.replacecommit.requested", clustering_plan())
    store.put(f".hoodie/{T}.replacecommit.inflight", b"")
    assert lake(table).recover() == ()
    assert len(traces_of(store, T)) == 2


def test_a_pending_overwrite_is_rolled_back(table: SmallTable, store: ObjectStore) -> None:
    """Its requested object is an Avro record as well, but holds no clustering plan."""
    body = encode_container("HoodieRequestedReplaceMetadata", {**EMPTY_REPLACE, "version": None})
    store.put(f".hoodie/{T}.replacecommit.requested", body)
    store.put(f".hoodie/{T}.replacecommit.inflight", b"")
    leave_marker(store)
    leave_file(store)
    (rolled,) = lake(table).recover()
    assert rolled.action is Action.REPLACECOMMIT
    assert_nothing_left(table)


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.CLEAN, Action.INDEXING])
def test_other_pending_actions_are_left_alone(
    table: SmallTable, store: ObjectStore, action: Action
) -> None:
    store.put(f".hoodie/{T}.{action.value}.requested", b"")
    assert lake(table).recover() == ()
    assert len(traces_of(store, T)) == 1


def test_savepoints_and_what_they_keep_are_left_alone(
    table: SmallTable, store: ObjectStore
) -> None:
    kept = hoodie(table).timeline().completed().first()
    assert kept is not None
    for suffix in ("savepoint.inflight", "savepoint"):
        store.put(f".hoodie/{kept.time}.{suffix}", b"x")
    pending = InstantTime("20250615150000000")
    store.put(f".hoodie/{pending}.savepoint.inflight", b"")
    before = traces_of(store, kept.time)
    leave_inflight(store)
    leave_marker(store)
    leave_file(store)
    assert len(lake(table).recover()) == 1
    assert traces_of(store, T) == []
    assert traces_of(store, kept.time) == before
    assert len(traces_of(store, pending)) == 1


def test_planning_changes_nothing(table: SmallTable, store: ObjectStore) -> None:
    leave_inflight(store)
    leave_marker(store)
    path = leave_file(store)
    before = {info.path for info in store.list()}
    (plan,) = lake(table).failed_writes()
    assert plan.paths == {"p0": (path,)}
    assert {info.path for info in store.list()} == before


# What is refused


def test_a_marker_that_names_another_writers_file_stops_the_rollback(
    table: SmallTable, store: ObjectStore
) -> None:
    leave_inflight(store)
    commit = hoodie(table).timeline().completed().first()
    assert commit is not None
    stat = hoodie(table).timelines.read_commit(commit).write_stats[0]
    name = (stat.path or "").rpartition("/")[2]
    create_marker(store, T, Marker(stat.partition_path or "", name, MarkerKind.MERGE))
    with pytest.raises(CorruptTableError, match="did not write") as raised:
        lake(table).recover()
    assert str(T) in str(raised.value)
    assert name in str(raised.value)
    assert store.head(stat.path or "") is not None


# The plan as data


def test_a_plan_survives_avro_with_any_partition_name() -> None:
    paths = {
        "": (f"{FILE}",),
        "día=1/ü b": (f"día=1/ü b/a{FILE}", f"día=1/ü b/b{FILE}"),
    }
    plan = RollbackPlan(T, Action.REPLACECOMMIT, paths)
    body = encode_container("HoodieRollbackPlan", plan.to_avro("s3a://bucket/tables/t"))
    assert RollbackPlan.from_avro(decode_container(body), path="x") == plan


def test_a_plan_of_hudis_with_its_own_address_of_the_table_is_understood() -> None:
    """Hudi writes absolute paths; the table may be mounted elsewhere here."""
    record = {
        "instantToRollback": {"commitTime": str(T), "action": "commit"},
        "RollbackRequests": [
            {
                "partitionPath": "p0",
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": [f"file:/elsewhere/t/p0/{FILE}"],
                "logBlocksToBeDeleted": {},
            },
            {"partitionPath": "p1", "filesToBeDeleted": None, "logBlocksToBeDeleted": None},
        ],
    }
    plan = RollbackPlan.from_avro(record, path="x")
    assert plan.paths == {"p0": (f"p0/{FILE}",), "p1": ()}
