"""The controller maintains Iceberg tables: it waits for them, runs what is due and reports it."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.table.table_operations import Committed
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.operation import RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.api_objects import Manifest
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

NAME = "orders"
NO_ORPHANS = {"removeOrphanFiles": {"enabled": False}}
NOT_HUDI = {"recordKey": None, "ordering": None, "schema": None, "ingest": None}


def declare(case: ControllerCase, services: dict[str, Any] | None = None, **spec: Any) -> None:
    wanted = {**NO_ORPHANS, **(services or {})}
    case.declare(NAME, format="Iceberg", services=wanted, **NOT_HUDI, **spec)


def create_as_other_writer(case: ControllerCase, appends: int = 0) -> IcebergModel:
    """A table of others at the declared place."""
    return IcebergModel.create_in(f"{case.folder}/{NAME}", appends)


def work_of(case: ControllerCase, job: Manifest) -> RunService:
    work = case.cluster.operation_of(job).work
    assert isinstance(work, RunService)
    return work


def pod_of(job: Manifest) -> Manifest:
    spec: Manifest = job["spec"]["template"]["spec"]
    return spec


def no_spark(_: object) -> NoReturn:
    raise AssertionError("this work needs no Spark")


def test_a_table_that_others_create_later_is_waited_for(case: ControllerCase) -> None:
    declare(case)
    case.start()
    case.until(
        lambda: case.condition("Ready", NAME).get("reason") == "TableMissing", "it is missing"
    )
    assert case.condition("Ready", NAME)["status"] == "False"
    assert f"{case.folder}/{NAME}" in case.condition("Ready", NAME)["message"]
    assert case.cluster.all_jobs() == []
    create_as_other_writer(case, appends=1)
    case.until_ready(NAME)
    status = case.status(NAME)
    assert (status["timeline"]["latestAction"], status["timeline"]["completed"]) == ("append", 1)
    assert status["table"]["files"] == 2
    assert case.condition("ServicesCurrent", NAME)["status"] == "True"


def test_small_files_are_rewritten_by_a_driver_and_the_counts_are_reported(
    case: ControllerCase,
) -> None:
    model = create_as_other_writer(case, appends=5)
    declare(case)
    case.start()
    job = case.until_job("rewrite")
    assert pod_of(job)["automountServiceAccountToken"] is True
    assert work_of(case, job).settings == {"strategy": "binpack", "min-input-files": "5"}
    rewrite = model.plan_rewrite()
    outcome = commit_rewrite(model.operations(), rewrite)
    assert isinstance(outcome, Committed)
    snapshot_id = str(outcome.loaded.metadata.current_snapshot_id)
    result = OperationResult(
        job["metadata"]["labels"]["tideline.dev/operation"],
        Outcome.SUCCEEDED,
        "rewrote 10 data files as 2",
        instant=snapshot_id,
        files_read=10,
        bytes_read=5_000,
        files_written=2,
        bytes_written=4_000,
    )
    case.cluster.finish(job, result)
    case.until_event("ServiceRan", NAME)
    assert "2 files written, 5.0 kB read, 4.0 kB written, rewrote 10" in case.event_notes(NAME)
    counts = case.until(
        lambda: case.status(NAME)["services"]["rewriteDataFiles"].get("lastFigures"), "counts"
    )
    assert (counts["filesBefore"], counts["filesAfter"]) == (10, 2)
    case.until(lambda: case.status(NAME)["timeline"]["latest"] == snapshot_id, "the snapshot")
    case.until(
        lambda: not case.status(NAME)["services"]["rewriteDataFiles"].get("isDue"), "nothing is due"
    )
    case.until_ready(NAME)


def test_snapshots_expire_in_a_small_pod_without_spark(case: ControllerCase) -> None:
    model = create_as_other_writer(case, appends=3)
    rows = model.rows()
    declare(case, {"expireSnapshots": {"olderThan": "1ms", "retainLast": 1}})
    case.start()
    job = case.until_job("expire")
    assert pod_of(job)["automountServiceAccountToken"] is False
    operation = case.cluster.operation_of(job)
    result = execute_operation(operation, session_factory=no_spark)
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "expired 2 snapshots, 1 stay")
    case.cluster.finish(job, result)
    case.until(lambda: case.status(NAME)["timeline"]["completed"] == 1, "one snapshot is left")
    assert model.rows() == rows

    def deleted() -> int:
        service = case.status(NAME)["services"]["expireSnapshots"]
        return int(service.get("lastFigures", {}).get("filesDeleted", 0))

    case.until(lambda: deleted() == 2, "two manifest lists are gone")
    case.until(
        lambda: case.condition("ServicesCurrent", NAME)["status"] == "True", "nothing is due"
    )


def test_advice_is_published_and_no_job_starts(case: ControllerCase) -> None:
    create_as_other_writer(case, appends=5)
    declare(case, {"mode": "Advise"})
    case.start()
    case.until_ready(NAME)
    current = case.condition("ServicesCurrent", NAME)
    assert (current["status"], current["reason"]) == ("False", "Advised")
    assert "10 data files" in current["message"]
    assert case.cluster.all_jobs() == []


def test_a_suspended_table_is_left_alone_until_it_goes_on(case: ControllerCase) -> None:
    create_as_other_writer(case, appends=5)
    declare(case, suspend=True)
    case.start()
    case.until(lambda: case.condition("Ready", NAME).get("reason") == "Paused", "it is paused")
    assert case.cluster.all_jobs() == []
    case.change(NAME, {"spec": {"suspend": False}})
    case.until_job("rewrite")


def test_a_rerun_is_run_once(case: ControllerCase) -> None:
    create_as_other_writer(case, appends=1)
    declare(case, rerun={"expireSnapshots": 1})
    case.start()
    job = case.until_job("expire")
    result = execute_operation(case.cluster.operation_of(job), session_factory=no_spark)
    assert result.outcome is Outcome.NOTHING
    case.cluster.finish(job, result)
    case.until(
        lambda: case.status(NAME)["services"]["expireSnapshots"].get("rerun") == 1, "it was run"
    )
    assert len(case.cluster.all_jobs()) == 1


def test_a_conflict_is_reported_and_the_rewrite_retried(case: ControllerCase) -> None:
    create_as_other_writer(case, appends=5)
    declare(case)
    case.start()
    job = case.until_job("rewrite")
    operation_id = job["metadata"]["labels"]["tideline.dev/operation"]
    void = OperationResult(
        operation_id, Outcome.FAILED, "new deletes", exit_code=3, error="Conflict"
    )
    case.cluster.finish(job, void)
    again = case.until_job("rewrite", but=(job["metadata"]["name"],))
    assert again["metadata"]["name"].endswith("-2")
    case.until_event("Conflict", NAME)
