"""Iceberg tables in the planner: what is started, advised, waited for, and the status."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tideline.errors import ConfigError
from tideline.iceberg.services.due_facts import IcebergFiles, RewriteOutlook
from tideline.iceberg.services.expire_snapshots.service import EXPIRE_SNAPSHOTS
from tideline.iceberg.services.remove_orphan_files.service import REMOVE_ORPHAN_FILES
from tideline.iceberg.services.rewrite_data_files.service import REWRITE_DATA_FILES
from tideline.iceberg.services.rewrite_manifests.service import REWRITE_MANIFESTS
from tideline.iceberg.services.rewrite_position_deletes.service import REWRITE_POSITION_DELETES
from tideline.iceberg.services.service import DRY_RUN
from tideline.ingest.operation.operation import (
    CatalogEntry,
    Operation,
    RunService,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.services.benefit import Benefit
from tideline.services.service import Service
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.decide.actions import Advise, Blocked, PlannedAction, Wait, WaitKind
from tideline_operator.decide.observed import Observed, Problem
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.planner import OBSERVE_RETRY_MS, plan
from tideline_operator.report.status import observed_status, operation_finished, operation_started
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
    RunCounts,
    RunSaving,
    ServiceStatus,
    TableStatus,
)
from tideline_operator.testing.table_states import EMPTY, resolved_iceberg, starts

DAY_MS = 86_400_000
MODEL = IcebergModel.create()
for _number in range(3):
    MODEL.append([_number])
NOW_MS = MODEL.clock.now_ms()
OUTLOOK = RewriteOutlook(24, 3, 1_200_000, reasons=("enough files",))
NOTHING_DUE = IcebergFiles(files=2, size_bytes=900, small_files=1, manifests=2)


def gaining(*services: Service, outlook: RewriteOutlook = OUTLOOK) -> IcebergFiles:
    return replace(NOTHING_DUE, outlooks={service.name: outlook for service in services})


LOOKED_FOR_ORPHANS = LakeTableStatus(
    services={"removeOrphanFiles": ServiceStatus(last_run=Timestamp(NOW_MS - 1_000))}
)
SEVERAL = gaining(REWRITE_DATA_FILES, REWRITE_POSITION_DELETES, REWRITE_MANIFESTS)
DELETES_AND_MANIFESTS = gaining(REWRITE_POSITION_DELETES, REWRITE_MANIFESTS)


def table(files: IcebergFiles | None = NOTHING_DUE, **fields: Any) -> Observed:
    metadata = MODEL.metadata()
    return Observed(iceberg=ObservedIceberg(metadata, "metadata/v4.metadata.json", files, **fields))


def planned(
    observed: Observed,
    status: LakeTableStatus = LOOKED_FOR_ORPHANS,
    now_ms: int = NOW_MS,
    **spec: Any,
) -> tuple[PlannedAction, ...]:
    return plan(resolved_iceberg(**spec), status, observed, now_ms)


def kinds(actions: tuple[PlannedAction, ...]) -> list[Service]:
    return [work.service for work in works(actions)]


def works(actions: tuple[PlannedAction, ...]) -> list[RunService]:
    found = [start.operation.work for start in starts(actions)]
    assert all(isinstance(value, RunService) for value in found)
    return cast(list[RunService], found)


def settings(actions: tuple[PlannedAction, ...]) -> Mapping[str, str]:
    return works(actions)[0].settings


def conditions(status: LakeTableStatus) -> dict[ConditionType, Condition]:
    return {item.type: item for item in status.conditions}


def test_where_nothing_is_due_nothing_starts() -> None:
    assert planned(table()) == ()


def test_what_other_writers_keep_busy_is_looked_at_again_when_they_have_left_it() -> None:
    (wait,) = planned(table(replace(NOTHING_DUE, quiet_at_ms=NOW_MS + 5_000)))
    assert isinstance(wait, Wait)
    assert (wait.kind, wait.until_ms) == (WaitKind.RETRY, NOW_MS + 5_001)


def test_quiet_for_is_part_of_every_operation_that_may_get_in_the_way() -> None:
    services = {"quietFor": "10m", "expireSnapshots": {"olderThan": "1ms"}}
    rewrite = settings(planned(table(SEVERAL), services=services))
    assert rewrite["tideline.quiet-for-ms"] == "600000"
    deletes = settings(planned(table(DELETES_AND_MANIFESTS), services=services))
    assert deletes == {"tideline.quiet-for-ms": "600000"}
    kept = planned(table(), services=services)
    assert starts(kept) == []
    expiry = settings(planned(table(), now_ms=NOW_MS + 700_000, services=services))
    assert expiry == {"older_than_age_ms": "1", "quiet_for_ms": "600000"}


def test_a_table_that_a_hudi_table_is_published_as_is_left_alone() -> None:
    observed = table(SEVERAL)
    assert observed.iceberg is not None
    metadata = replace(observed.iceberg.metadata, properties={"tideline.hudi.table": "people"})
    published = replace(observed, iceberg=replace(observed.iceberg, metadata=metadata))
    assert planned(published, rerun={"rewriteDataFiles": 1}) == ()


def test_a_missing_table_is_reported_and_looked_for_again() -> None:
    resource = resolved_iceberg("s3://lake/orders", storeRef="minio")
    actions = plan(resource, EMPTY, Observed(), NOW_MS)
    assert [type(action) for action in actions] == [Wait, Blocked]
    wait, blocked = actions
    assert isinstance(wait, Wait)
    assert wait.until_ms == NOW_MS + OBSERVE_RETRY_MS
    assert isinstance(blocked, Blocked)
    assert (blocked.reason, blocked.exit_code) == ("TableMissing", 1)
    assert "s3://lake/orders" in blocked.message
    status = observed_status(resource, EMPTY, Observed(), actions, NOW_MS)
    ready = conditions(status)[ConditionType.READY]
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "TableMissing")
    healed = observed_status(resource, status, table(), (), NOW_MS)
    assert conditions(healed)[ConditionType.READY].status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (SEVERAL, [REWRITE_DATA_FILES, REWRITE_POSITION_DELETES, REWRITE_MANIFESTS]),
        (DELETES_AND_MANIFESTS, [REWRITE_POSITION_DELETES, REWRITE_MANIFESTS]),
        (gaining(REWRITE_MANIFESTS), [REWRITE_MANIFESTS]),
        (gaining(REWRITE_MANIFESTS, outlook=replace(OUTLOOK, files_before=19)), []),
    ],
)
def test_what_gains_something_starts_in_the_order_in_which_it_helps(
    files: IcebergFiles, expected: list[Service]
) -> None:
    assert kinds(planned(table(files))) == expected


def test_a_rewrite_is_ranked_by_what_its_plan_saves_for_what_past_runs_took() -> None:
    outlook = replace(OUTLOOK, bytes_before=40_000_000, benefit=Benefit(files_opened=21))
    files, later = gaining(REWRITE_DATA_FILES, outlook=outlook), NOW_MS + 8 * DAY_MS

    def order(expired: int, **last: int) -> list[Service]:
        status = replace(
            LOOKED_FOR_ORPHANS,
            services={
                "removeOrphanFiles": ServiceStatus(last_run=Timestamp(later)),
                "expireSnapshots": ServiceStatus(
                    last_saving=RunSaving(benefit_bytes=expired, core_ms=1_000)
                ),
                "rewriteDataFiles": ServiceStatus(
                    last_saving=RunSaving(**last), last_figures=RunCounts(bytes_before=20_000_000)
                ),
            },
        )
        return kinds(planned(table(files), status, later))

    # 84 MiB for 1.65 core-seconds by default, for 20 where half of it took 10.
    assert order(40_000_000) == [
        REWRITE_DATA_FILES,
        EXPIRE_SNAPSHOTS,
    ]
    assert order(40_000_000, core_ms=10_000)[0] is EXPIRE_SNAPSHOTS
    assert order(4_000_000, core_ms=10_000)[0] is REWRITE_DATA_FILES


def test_snapshots_and_orphan_files_are_due_by_age() -> None:
    later = NOW_MS + 8 * DAY_MS
    actions = planned(table(), now_ms=later)
    assert kinds(actions) == [
        EXPIRE_SNAPSHOTS,
        REMOVE_ORPHAN_FILES,
    ]
    assert "2 of 3 snapshots are past their age" in starts(actions)[0].reason
    often: dict[str, Any] = {"services": {"removeOrphanFiles": {"every": "1h"}}}
    assert kinds(planned(table(), now_ms=NOW_MS + DAY_MS // 24, **often)) == [REMOVE_ORPHAN_FILES]


def test_orphan_files_are_only_counted_until_their_deletion_is_asked_for() -> None:
    actions = planned(table(), EMPTY)
    assert kinds(actions) == [REMOVE_ORPHAN_FILES]
    assert settings(actions)[DRY_RUN] == "true"
    auto: dict[str, Any] = {"services": {"removeOrphanFiles": {"mode": "Auto", "olderThan": "4d"}}}
    deleting = settings(planned(table(), EMPTY, **auto))
    assert deleting == {"older_than_age_ms": str(4 * DAY_MS)}


def test_files_of_dropped_tables_go_that_the_resource_names() -> None:
    dropped = [str(uuid.uuid4()), str(uuid.uuid4()).upper()]
    named: dict[str, Any] = {"services": {"removeOrphanFiles": {"droppedTables": dropped}}}
    given = settings(planned(table(), EMPTY, **named))
    assert REMOVE_ORPHAN_FILES.options(given, NOW_MS).dropped_tables == tuple(dropped)
    with pytest.raises(ValueError, match="no LakeTable"):
        planned(table(), EMPTY, services={"removeOrphanFiles": {"droppedTables": ["orders"]}})


@pytest.mark.parametrize("name", ["rewriteDataFiles", "rewritePositionDeletes", "rewriteManifests"])
def test_a_service_that_is_off_does_not_run(name: str) -> None:
    without: dict[str, Any] = {"services": {name: {"enabled": False}}}
    assert len(kinds(planned(table(SEVERAL), **without))) == 2


def test_services_that_are_off_or_suspended_do_nothing() -> None:
    assert planned(table(SEVERAL), services={"mode": "Off"}) == ()
    (blocked,) = planned(table(SEVERAL), suspend=True)
    assert isinstance(blocked, Blocked)


def test_advice_is_published_and_nothing_runs() -> None:
    spec: dict[str, Any] = {"services": {"mode": "Advise"}}
    actions = planned(table(SEVERAL), **spec)
    assert [type(action) for action in actions] == [Advise] * 3
    advice = "24 data files (1.2 MB) would become 3: enough files"
    assert str(actions[0]) == f"rewriteDataFiles is due: {advice}"
    status = observed_status(resolved_iceberg(**spec), EMPTY, table(SEVERAL), actions, NOW_MS)
    current = conditions(status)[ConditionType.SERVICES_CURRENT]
    assert (current.status, current.reason) == (ConditionStatus.FALSE, "Advised")
    assert advice in status.services["rewriteDataFiles"].reason


def test_a_maintenance_window_is_waited_for() -> None:
    actions = planned(table(SEVERAL), services={"maintenanceWindow": "0 0 29 2 *"})
    assert {action.kind for action in actions if isinstance(action, Wait)} == {WaitKind.WINDOW}
    assert kinds(actions) == []


def test_a_snapshot_that_is_not_counted_yet_is_waited_for() -> None:
    (wait,) = planned(table(None, count_at_ms=NOW_MS + 9))
    assert isinstance(wait, Wait)
    assert (wait.kind, wait.until_ms) == (WaitKind.SETTLE, NOW_MS + 9)


def test_a_wrong_option_is_named_and_other_services_go_on() -> None:
    problem = ConfigError("There is no such option of a binpack rewrite", value="x")
    actions = planned(
        table(replace(DELETES_AND_MANIFESTS, problems={REWRITE_DATA_FILES.name: problem}))
    )
    (blocked,) = [action for action in actions if isinstance(action, Blocked)]
    assert (blocked.subject, blocked.exit_code) == ("rewriteDataFiles", 2)
    assert len(kinds(actions)) == 2


def test_what_cannot_be_observed_is_retried() -> None:
    problem = Problem("StorageUnavailable", "no answer", 4, is_transient=True)
    actions = planned(Observed(problem=problem))
    assert [type(action) for action in actions] == [Blocked, Wait]


def test_one_operation_at_a_time() -> None:
    assert kinds(planned(replace(table(SEVERAL), running=frozenset({"orders-x"})))) == []


def test_the_operation_carries_the_spec_as_icebergs_options() -> None:
    rewrite = {"strategy": "ZOrder", "sortBy": ["region", "day"], "targetFileSize": "64Mi",
               "filter": "day > '2026-01-01'", "partialProgress": {"enabled": True},
               "options": {"max-concurrent-file-group-rewrites": "2"}}  # fmt: skip
    actions = planned(table(SEVERAL), services={"rewriteDataFiles": rewrite})
    assert settings(actions) == {
        "strategy": "zorder",
        "sort_order": "zorder(region, day)",
        "where": "day > '2026-01-01'",
        "min-input-files": "5",
        "target-file-size-bytes": "67108864",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "10",
        "max-concurrent-file-group-rewrites": "2",
    }
    operation = starts(actions)[0].operation
    assert Operation.from_json_object(operation.to_json_object()) == operation
    assert len(operation.id) <= 63


def test_a_catalogs_table_is_named_in_the_operation() -> None:
    catalog = {"type": "rest", "name": "lake", "uri": "http://catalog", "table": "sales.orders"}
    actions = planned(table(SEVERAL), catalog=catalog)
    operation = starts(actions)[0].operation
    properties = (("type", "rest"), ("uri", "http://catalog"))
    assert operation.table.catalog == CatalogEntry("lake", "sales.orders", properties)
    assert Operation.from_json_object(operation.to_json_object()) == operation


def test_a_rerun_runs_once_more_and_takes_what_little_there_is() -> None:
    spec: dict[str, Any] = {"rerun": {"rewriteDataFiles": 2}}
    actions = planned(table(), **spec)
    assert settings(actions)["min-input-files"] == "2"
    status = ran(actions, OperationResult("", Outcome.NOTHING, "nothing"))
    assert status.services["rewriteDataFiles"].rerun == 2
    assert kinds(planned(table(), status, **spec)) == []


def test_another_table_state_is_another_operation() -> None:
    first = starts(planned(table(SEVERAL)))[0].operation
    other = replace(table(SEVERAL))
    assert other.iceberg is not None
    moved = replace(other, iceberg=replace(other.iceberg, metadata_location="v5.metadata.json"))
    assert starts(planned(moved))[0].operation.id != first.id
    assert starts(planned(table(SEVERAL)))[0].operation.id == first.id


def ran(actions: tuple[PlannedAction, ...], result: OperationResult) -> LakeTableStatus:
    """The status after the first operation of a plan."""
    operation = starts(actions)[0].operation
    status = operation_started(LOOKED_FOR_ORPHANS, operation, 1, NOW_MS)
    return operation_finished(status, replace(result, id=operation.id), NOW_MS)


def test_counts_of_a_run_are_in_the_status() -> None:
    result = OperationResult(
        "", Outcome.SUCCEEDED, "rewrote 24 data files as 3", instant="77",
        files_read=24, bytes_read=1_200_000, files_written=3, bytes_written=1_100_000,
    )  # fmt: skip
    status = ran(planned(table(SEVERAL)), result)
    service = status.services["rewriteDataFiles"]
    assert service.last_result == "rewrote 24 data files as 3"
    assert service.last_figures == RunCounts(
        files_before=24, bytes_before=1_200_000, files_after=3, bytes_after=1_100_000
    )
    assert status.operations[-1].instant == "77"


def test_a_conflict_is_retried_and_keeps_the_earlier_counts() -> None:
    failed = OperationResult("", Outcome.FAILED, "another writer", exit_code=3, error="Conflict")
    status = ran(planned(table(SEVERAL)), failed)
    (wait, *_) = [a for a in planned(table(SEVERAL), status) if isinstance(a, Wait)]
    assert wait.kind is WaitKind.RETRY
    assert status.services["rewriteDataFiles"].last_figures is None
    assert status.operations[-1].is_safe_to_retry
    later = planned(table(SEVERAL), status, now_ms=NOW_MS + 3_000)
    assert kinds(later)[0] is REWRITE_DATA_FILES


def test_the_status_is_about_snapshots_and_files() -> None:
    status = observed_status(resolved_iceberg(), EMPTY, table(), (), NOW_MS)
    newest = MODEL.metadata().ref_snapshot()
    assert newest is not None
    assert status.timeline.latest == str(newest.snapshot_id)
    assert (status.timeline.latest_action, status.timeline.completed) == ("append", 3)
    assert status.table is not None
    assert (status.table.small_file_percent, status.table.manifests) == (50, 2)
    uncounted = observed_status(resolved_iceberg(), status, table(None), (), NOW_MS)
    assert uncounted.table == status.table
    assert observed_status(resolved_iceberg(), EMPTY, table(None), (), NOW_MS).table is None
    assert isinstance(status.table, TableStatus)
