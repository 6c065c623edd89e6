"""Tables that the operator finds are examined before anything is done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.formats.avro import encode_container
from tideline.hudi.open_table import open_table
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    CDC_ENABLED,
    INDEX_TYPE,
    PAYLOAD_CLASS,
    TIMELINE_TIMEZONE,
    TableType,
)
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.storage.location import StoreLocation
from tideline_operator.decide.actions import Blocked, PlannedAction
from tideline_operator.decide.planned_operation import create_operation
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_settings import spec_name
from tideline_operator.observe.observation import Observer
from tideline_operator.report.status import (
    observed_status,
    operation_finished,
    operation_started,
    with_entry,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
    OperationPhase,
)
from tideline_operator.testing.table_states import EMPTY, resolved, starts, with_landing

CLOCK = SystemClock()
LOCAL = {TIMELINE_TIMEZONE: "LOCAL"}


class Turns:
    """A location with or without a table, and what the operator decides about it turn by turn."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.location = StoreLocation.of(f"file://{folder}/table")
        self.declared = replace(resolved(**spec), location=Location(self.location.uri))
        self.declared = with_landing(self.declared, Location(f"file://{folder}/landing"))
        self.observer = Observer(CLOCK)
        self.status = EMPTY
        self.actions: tuple[PlannedAction, ...] = ()

    def make(
        self,
        changes: Mapping[str, str] | None = None,
        *,
        type: TableType = TableType.COPY_ON_WRITE,
    ) -> HoodieTable:
        definition = TableDefinition(
            "people", ("id",), ("city",), ordering=("ts",), table_type=type, table_version=6
        )
        create_table(self.location.open(), definition, CLOCK)
        table = open_table(self.location, CLOCK)
        table.properties.update(dict(changes or {}))
        return table

    def turn(self) -> Condition:
        now_ms = CLOCK.now_ms()
        observed = self.observer.observe(self.declared, self.status)
        self.actions = plan(self.declared, self.status, observed, now_ms)
        self.status = observed_status(self.declared, self.status, observed, self.actions, now_ms)
        return adopted(self.status)

    def restart(self) -> None:
        self.observer = Observer(CLOCK)


def condition(status: LakeTableStatus, kind: ConditionType) -> Condition:
    return next(item for item in status.conditions if item.type is kind)


def adopted(status: LakeTableStatus) -> Condition:
    return condition(status, ConditionType.ADOPTED)


def services_started(actions: tuple[PlannedAction, ...]) -> list[RunService]:
    works = [start.operation.work for start in starts(actions)]
    return [work for work in works if isinstance(work, RunService)]


def leave_a_dead_write(table: HoodieTable, time: str) -> None:
    instant = table.timelines.create_requested(InstantTime(time), Action.COMMIT)
    table.timelines.to_inflight(instant)


def test_a_table_of_the_operator_is_known(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    assert (place.turn().status, place.turn().reason) == (ConditionStatus.UNKNOWN, "NoTable")
    operation = create_operation(place.declared)
    place.status = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    place.make()
    made = place.turn()
    assert (made.status, made.reason) == (ConditionStatus.TRUE, "TableMade")
    place.restart()
    place.status = replace(place.status, operations=())
    assert place.turn().reason == "TableMade"


def test_a_table_that_another_engine_created_is_examined(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    place.turn()
    operation = create_operation(place.declared)
    started = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    lost = replace(started.operations[-1], phase=OperationPhase.FAILED)
    place.status = with_entry(started, lost)
    place.make()
    assert place.turn().reason == "Verified"


def test_a_table_of_an_earlier_version_is_examined_and_goes_on(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make()
    place.turn()
    # As left by an operator without this condition.
    kept = tuple(
        candidate
        for candidate in place.status.conditions
        if candidate.type is not ConditionType.ADOPTED
    )
    place.status = replace(place.status, conditions=kept)
    place.restart()
    leave_a_dead_write(table, "20260101000000000")
    assert place.turn().reason == "Verified"
    assert [start.operation.kind.value for start in starts(place.actions)] == ["rollback"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({CDC_ENABLED: "true"}, "CDC"),
        ({PAYLOAD_CLASS: "com.acme.OurPayload"}, "merged in a custom way"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "not supported"),
    ],
)
def test_a_table_that_the_spec_asks_too_much_of_is_left_alone(
    tmp_path: Path, changes: Mapping[str, str], says: str
) -> None:
    place = Turns(tmp_path)
    leave_a_dead_write(place.make(changes), "20260101000000000")
    refused = place.turn()
    assert (refused.status, refused.reason) == (ConditionStatus.FALSE, "Refused")
    assert says in refused.message
    assert not starts(place.actions)
    assert [action.reason for action in place.actions if isinstance(action, Blocked)] == [
        "NotAdopted"
    ]
    assert place.status.owned is None
    # Services alone do not write: what dead writers left is rolled back.
    alone = replace(place.declared.resource, spec=replace(place.declared.spec, ingest=()))
    place.declared = ResolvedTable(alone, place.declared.location, {})
    assert place.turn().reason == "Verified"
    assert len(starts(place.actions)) == 1


LOGS = {"type": "MERGE_ON_READ", "ingest": []}
PLAN: dict[str, Any] = {
    "operations": [], "extraMetadata": {}, "version": 2, "strategy": None,
    "preserveHoodieMetadata": False, "missingSchedulePartitions": None,
}  # fmt: skip
LOG_COMPACTION = {"logCompaction": {"enabled": True}, "clustering": {"enabled": True}}


@pytest.mark.parametrize(
    ("changes", "refused", "says"),
    [
        ({CDC_ENABLED: "true"}, {"compaction", "logCompaction"}, "CDC"),
        ({PAYLOAD_CLASS: "com.acme.OurPayload"}, {"compaction", "logCompaction"}, "custom way"),
        (
            {"hoodie.datasource.write.drop.partition.columns": "true"},
            {"compaction", "logCompaction", "clustering"},
            "not supported",
        ),
        ({INDEX_TYPE: "BUCKET"}, {"clustering"}, "bucket index"),
        ({}, set(), ""),
    ],
)
@pytest.mark.parametrize("is_ours", [True, False])
def test_a_service_that_the_table_does_not_support_is_left_out_and_the_others_run(
    tmp_path: Path, changes: Mapping[str, str], refused: set[str], says: str, *, is_ours: bool
) -> None:
    numbers = dict.fromkeys(("compaction", "logCompaction", "clustering", "cleaning"), 1)
    place = Turns(tmp_path, **LOGS, services=LOG_COMPACTION, rerun=numbers)
    if is_ours:
        place.turn()
        operation = create_operation(place.declared)
        place.status = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    table = place.make(changes, type=TableType.MERGE_ON_READ)
    plan_of_others = table.timelines.create_requested(
        InstantTime("20260101000000000"),
        Action.COMPACTION,
        encode_container("HoodieCompactionPlan", PLAN),
    )
    adopted = place.turn()
    assert (adopted.status, adopted.reason) == (
        ConditionStatus.TRUE,
        "TableMade" if is_ours else "Verified",
    )
    assert says in adopted.message and all(name in adopted.message for name in refused)
    started = {spec_name(work.service) for work in services_started(place.actions)}
    assert started == set(numbers) - refused
    for name, seen in place.status.services.items():
        assert seen.reason.startswith("left out: ") is (name in refused), seen
        assert name not in refused or (says in seen.reason and not seen.is_due)
    assert table.timeline().find(plan_of_others.time) is not None


def test_where_others_gave_our_table_a_bucket_index_nothing_is_clustered(tmp_path: Path) -> None:
    place = Turns(tmp_path, ingest=[], services=LOG_COMPACTION, rerun={"clustering": 1})
    place.turn()
    operation = create_operation(place.declared)
    place.status = operation_started(place.status, operation, 1, CLOCK.now_ms() + 1)
    table = place.make()
    assert place.turn().reason == "TableMade"
    assert [run_service.service for run_service in services_started(place.actions)] == [CLUSTERING]
    instant = table.timelines.create_requested(InstantTime("20260101000000000"), Action.COMMIT)
    stats = []
    for bucket in range(3):
        file_id = f"{bucket:08d}-1111-4111-8111-111111111111-0"
        path = f"rome/{file_id}_0-1-1_{instant.time}.parquet"
        table.store.put(path, b"rows")
        stats.append(WriteStat(file_id=file_id, path=path, partition_path="rome"))
    metadata = CommitMetadata.of_stats(stats, operation_type="UPSERT", extra_metadata={})
    table.timelines.complete(table.timelines.to_inflight(instant), metadata.encode())
    assert "bucket index" in place.turn().message
    assert not services_started(place.actions)


def test_an_earlier_failure_of_a_service_that_is_left_out_blocks_nothing(
    tmp_path: Path,
) -> None:
    place = Turns(tmp_path, **LOGS, rerun={"compaction": 1})
    table = place.make(type=TableType.MERGE_ON_READ)
    place.turn()
    (start,) = starts(place.actions)
    started = operation_started(place.status, start.operation, 1, CLOCK.now_ms())
    result = OperationResult(start.operation.id, Outcome.FAILED, "refused", exit_code=2)
    place.status = operation_finished(started, result, CLOCK.now_ms())
    place.turn()
    assert condition(place.status, ConditionType.READY).reason == "OperationFailed"
    table.properties.update({CDC_ENABLED: "true"})
    place.turn()
    assert not starts(place.actions)
    for kind in (ConditionType.READY, ConditionType.SERVICES_CURRENT):
        assert condition(place.status, kind).status is ConditionStatus.TRUE


def test_a_zone_is_declared_in_the_spec_and_then_the_table_is_adopted(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make(LOCAL)
    table.instants.declare_zone("Asia/Karachi")
    instant = table.timelines.create_requested(table.instants.next_time(), Action.COMMIT)
    table.timelines.complete(table.timelines.to_inflight(instant), CommitMetadata({}).encode())
    refused = place.turn()
    assert (refused.status, refused.reason) == (ConditionStatus.FALSE, "Refused")
    assert refused.message.endswith("declare spec.timezone")
    zoned = resolved(timezone="Asia/Karachi").resource
    place.declared = ResolvedTable(zoned, place.declared.location, place.declared.sources)
    assert place.turn().reason == "Verified"


def test_an_unsure_zone_is_reported_and_work_goes_on(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    leave_a_dead_write(place.make(LOCAL), "20260101000000000")
    unsure = place.turn()
    assert (unsure.status, unsure.reason) == (ConditionStatus.TRUE, "Unsure")
    assert "tideline.timezone" in unsure.message
    assert starts(place.actions)


def test_a_table_that_others_change_is_checked_again(tmp_path: Path) -> None:
    place = Turns(tmp_path)
    table = place.make()
    instant = table.timelines.create_requested(InstantTime("20260101000000000"), Action.COMMIT)
    stats = CommitMetadata({}, "UPSERT", {"schema": "{}"})
    table.timelines.complete(table.timelines.to_inflight(instant), stats.encode())
    assert place.turn().reason == "Verified"
    table.properties.update({CDC_ENABLED: "true"})
    assert place.turn().reason == "Refused"
    table.properties.update({CDC_ENABLED: "false"})
    assert place.turn().reason == "Verified"
