"""The controller on a real API server: it creates declared tables, with one Job at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import next_instant_time
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.location import StoreLocation
from tideline_operator.api_objects import (
    LAKE_TABLES,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    ApiUnavailableError,
    Manifest,
)
from tideline_operator.controller import namespace_pauses, reconcile
from tideline_operator.controller.budgets import Limits
from tideline_operator.launch.job_launcher import Started, StartRefused
from tideline_operator.resources.metadata import PAUSED_ANNOTATION
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import CarryingOut

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def commit_of_another(case: ControllerCase, name: str = "people") -> str:
    """Another writer commits to the table."""
    hoodie = open_table(StoreLocation.of(f"file://{case.folder}/{name}"))
    time_ms = int(time.time() * 1000)
    instant_time = next_instant_time(time_ms, hoodie.timeline().newest_time())
    hoodie.store.put(heartbeat_path(str(instant_time)), b"")
    instant = hoodie.timelines.create_requested(instant_time, Action.COMMIT)
    instant = hoodie.timelines.to_inflight(instant)
    hoodie.timelines.complete(instant, CommitMetadata({}, "UPSERT", {}).encode())
    return str(instant_time)


def failed(job: Manifest, **given: Any) -> OperationResult:
    """A failure, as the engine reports one."""
    operation_id = job["metadata"]["labels"]["tideline.dev/operation"]
    fields: dict[str, Any] = {"message": "no luck", "exit_code": 1, **given}
    return OperationResult(operation_id, Outcome.FAILED, **fields)


@pytest.mark.slow
def test_gauges_of_unchanged_tables_survive_a_restart_of_the_operator(case: ControllerCase) -> None:
    case.declare(location="s3://lake/people", storeRef="nowhere", ingest=None)
    case.start()
    case.until(lambda: case.condition("Ready").get("reason") == "StoreMissing", "it is reported")
    case.stop()
    case.start()
    labels = f'{{namespace="{case.namespace}",table="people"}}'
    assert f"tideline_table_ready{labels} 0" in case.metrics.text()
    case.until(lambda: case.turns() >= 1, "a turn was taken")
    assert f"tideline_table_ready{labels} 0" in case.metrics.text()
    assert case.requests("apply", "laketables") == 0


def test_a_declared_table_is_created_and_ingested_into(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    [owner] = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("LakeTable", "people")
    assert owner["blockOwnerDeletion"] is False
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    case.cluster.carry_out(job)
    case.until_ready()
    case.land("a.parquet", "b.parquet", "c.parquet")
    with CarryingOut(case.cluster):
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 2, "two commits")
        case.until(lambda: case.status()["ingest"]["landing"].get("lagFiles", 0) == 0, "no lag")
        done = [("create", "Succeeded"), ("ingest", "Succeeded"), ("ingest", "Succeeded")]
        case.until(
            lambda: [(item["kind"], item["phase"]) for item in case.operations()] == done,
            "all of them ended",
        )
    assert case.status()["ingest"]["landing"]["checkpoint"]
    case.until(
        lambda: case.event_reasons() == ["Committed", "Committed", "TableCreated"], "the events"
    )
    assert case.api.get(SERVICE_ACCOUNTS, "tideline-engine", case.namespace) is not None
    assert case.api.get(ROLE_BINDINGS, "tideline-engine", case.namespace) is not None


def test_what_operations_took_is_in_the_status_and_goes_on_under_a_new_leader(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.land("a.parquet")
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 1, "a commit")
        spent = case.until(lambda: case.status().get("spent", {}).get("ingest"), "what it took")
    assert (spent["runs"], spent.get("failures", 0)) == (1, 0)
    assert case.status()["spent"]["create"]["runs"] == 1
    case.stop()
    case.start()
    labels = f'kind="ingest",namespace="{case.namespace}",result="succeeded",table="people"'
    ends = f"tideline_table_operations_total{{{labels}}} 1"
    case.until(lambda: ends in case.metrics.text(), "the total of before")


def test_nothing_is_written_while_nothing_changes(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.until(lambda: "landing" in case.status().get("ingest", {}), "a look at the landing")

    def is_settled() -> bool:
        before = case.table()["metadata"]["resourceVersion"]
        time.sleep(2.0)
        return bool(case.table()["metadata"]["resourceVersion"] == before)

    case.until(is_settled, "the last write of the start")
    version = case.table()["metadata"]["resourceVersion"]
    turns, writes = case.turns(), case.requests("apply", "laketables")
    time.sleep(4)
    assert case.turns() >= turns + 2, "the landing prefix is looked at every second"
    assert case.requests("apply", "laketables") == writes
    assert case.table()["metadata"]["resourceVersion"] == version
    assert case.requests("list", "laketables") == 1
    assert case.requests("list", "jobs") == 1


def test_a_job_deleted_by_hand_is_retried_under_another_name(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    case.cluster.remove(job)
    again = case.until_job("create", but=(job["metadata"]["name"],))
    assert again["metadata"]["name"].endswith("-2")
    assert "its Job was deleted" in case.event_notes()
    case.cluster.carry_out(again)
    case.until_ready()


def test_a_killed_driver_is_named_and_retried(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.cluster.lose(job)
    case.until(lambda: case.operations()[0].get("message", "").count("SIGKILL"), "it failed")
    assert case.condition("Ready")["reason"] == "OperationFailed"
    again = case.until_job("create", but=(job["metadata"]["name"],))
    case.until(lambda: case.operations()[0]["phase"] == "Running", "it runs again")
    # A retry is not a success yet.
    assert case.condition("Ready")["status"] == "False"
    case.cluster.carry_out(again)
    case.until_ready()
    case.until_event("OperationFailed")


def test_a_driver_that_lacks_memory_is_not_retried_at_once(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.cluster.lose(job, "OOMKilled")
    case.until(lambda: case.operations()[0].get("message", "").count("memory"), "it failed")
    (failed,) = case.operations()
    assert failed["error"] == "OutOfMemory"
    rest = Timestamp.parse(failed["retryAt"]).ms - Timestamp.parse(failed["finishedAt"]).ms
    assert rest == 30_000
    assert "driver.memory" in case.condition("Ready")["message"]


class DyingJobControl:
    """Never gets as far as creating a Job."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def ensure_started(
        self, operation: Operation, table: ResolvedTable, attempt: int, owner: Manifest
    ) -> Started | StartRefused:
        del table, owner
        self.asked.append((operation.id, attempt))
        raise ApiUnavailableError("gone before the Job was created")

    def made_from(self, table: ResolvedTable) -> str:
        del table
        return ""

    def stop(self, namespace: str, name: str) -> bool:
        del namespace, name
        return False


def test_a_death_before_the_job_is_created_means_the_same_job_later(case: ControllerCase) -> None:
    case.declare()
    jobs = DyingJobControl()
    case.start(job_control=jobs)
    case.until(lambda: len(jobs.asked) > 1, "it is retried")
    case.stop()
    assert len(set(jobs.asked)) == 1
    [noted] = case.operations()
    assert (noted["phase"], noted["id"]) == ("Pending", jobs.asked[0][0])
    case.start()
    job = case.until_job("create")
    assert job["metadata"]["name"] == f"{noted['id']}-1"
    case.cluster.carry_out(job)
    case.until_ready()
    assert len(case.cluster.all_jobs()) == 1


def test_a_job_that_ran_while_the_operator_was_down_is_noticed(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    case.stop()
    case.cluster.carry_out(job)
    case.land("a.parquet")
    case.start()
    case.until(lambda: case.operations()[0]["phase"] == "Succeeded", "the end was seen")
    case.cluster.carry_out(case.until_job("ingest"))
    case.until_ready()
    assert len(case.cluster.all_jobs()) == 2


def test_a_lost_status_does_not_start_a_second_job(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    case.land("a.parquet")
    case.api.patch(LAKE_TABLES, "people", {"status": None}, case.namespace, subresource="status")
    case.until(lambda: [item["phase"] for item in case.operations()] == ["Running"], "adopted")
    time.sleep(2)
    assert [item["metadata"]["name"] for item in case.cluster.all_jobs()] == [
        job["metadata"]["name"]
    ]
    case.cluster.carry_out(job)
    with CarryingOut(case.cluster):
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 1, "it continues")


def test_what_another_writer_did_shows_at_the_next_look(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    instant = commit_of_another(case)
    case.until(lambda: case.status().get("timeline", {}).get("latest") == instant, "it shows")


def test_a_spec_changed_during_a_job_counts_from_the_next_one_on(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.land("a.parquet", "b.parquet", "c.parquet")
    job = case.until_job("ingest")
    ingest = case.table()["spec"]["ingest"]
    case.declare(ingest=[{**ingest[0], "maxFilesPerCommit": 1}])
    generation = case.table()["metadata"]["generation"]
    case.until(lambda: case.status()["observedGeneration"] == generation, "it was seen")
    assert [item["metadata"]["name"] for item in case.cluster.active_jobs()] == [
        job["metadata"]["name"]
    ]
    assert case.cluster.carry_out(job).source_files == 2
    following = case.until_job("ingest")
    assert case.cluster.carry_out(following).source_files == 1


def test_suspending_lets_the_job_end_and_starts_nothing(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.change("people", {"metadata": {"annotations": {"tideline.dev/paused": "true"}}})
    case.until(lambda: case.condition("Paused").get("status") == "True", "it is paused")
    assert case.condition("Ready")["status"] == "Unknown"
    case.land("a.parquet")
    time.sleep(2.5)
    assert case.cluster.active_jobs() == []
    case.change("people", {"metadata": {"annotations": {"tideline.dev/paused": None}}})
    case.cluster.carry_out(case.until_job("ingest"))
    case.until_ready()


def test_a_fence_keeps_writers_out(case: ControllerCase) -> None:
    case.declare(fenced=True)
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.land("a.parquet")
    case.until(lambda: case.condition("Ingesting").get("reason") == "Fenced", "it is fenced")
    time.sleep(2)
    assert case.cluster.active_jobs() == []
    case.declare(fenced=False)
    case.cluster.carry_out(case.until_job("ingest"))


def test_a_rerun_runs_once_and_advice_runs_nothing(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        commit_of_another(case)
    case.declare(rerun={"cleaning": 1})
    job = case.until_job("cleaning")
    case.cluster.carry_out(job)
    case.until(lambda: case.status()["services"]["cleaning"].get("rerun") == 1, "it was run")
    case.until_ready()
    case.declare(services={"mode": "Advise"}, rerun={"cleaning": 2})
    case.until(lambda: case.condition("ServicesCurrent").get("reason") == "Advised", "advised")
    time.sleep(1.5)
    assert case.cluster.active_jobs() == []


def test_failures_are_retried_later_and_conflicts_and_quarantines_are_reported(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.land("a.parquet")
    first = case.until_job("ingest")
    case.cluster.finish(first, failed(first, exit_code=3, message="another writer was faster"))
    second = case.until_job("ingest", but=(first["metadata"]["name"],))
    operation_id = second["metadata"]["labels"]["tideline.dev/operation"]
    skipped = (SkippedFile("a.parquet", "no parquet"),)
    case.cluster.finish(second, OperationResult(operation_id, Outcome.SUCCEEDED, skipped=skipped))
    case.until_event("Quarantined")
    case.until_event("Conflict")


def test_a_job_that_cannot_start_is_a_condition_until_it_does(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    case.cluster.start_pod(job, phase="Pending", state={"waiting": waiting})
    case.until(lambda: case.condition("Ready").get("reason") == "OperationStuck", "it is reported")
    assert "ImagePullBackOff" in case.condition("Ready")["message"]
    case.cluster.start_pod(job)
    case.until(lambda: case.condition("Ready").get("reason") == "NoTable", "it continues")
    case.cluster.carry_out(job)
    case.until_ready()


def test_services_wait_for_their_window(case: ControllerCase) -> None:
    minute = time.gmtime().tm_min
    case.declare(services={"maintenanceWindow": f"{(minute + 30) % 60} * * * *"})
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        commit_of_another(case)
    case.declare(rerun={"cleaning": 1})
    case.until(lambda: case.status()["services"]["cleaning"].get("isDue"), "it is due")
    time.sleep(1.5)
    assert case.cluster.active_jobs() == []
    assert case.status()["services"]["cleaning"]["nextRun"]
    case.declare(services={"maintenanceWindow": "* * * * *"})
    case.cluster.carry_out(case.until_job("cleaning"))


def test_no_more_jobs_run_than_there_are_places(case: ControllerCase) -> None:
    names = [f"people-{number}" for number in range(4)]
    for name in names:
        case.declare(name)
    case.start(limits=Limits(operations_max=2))
    case.until(lambda: len(case.cluster.active_jobs()) == 2, "two Jobs run")
    time.sleep(1.5)
    assert len(case.cluster.active_jobs()) == 2
    waiting = [
        name for name in names if "is waiting" in case.condition("Ready", name).get("message", "")
    ]
    assert len(waiting) == 2
    most = 0
    for _ in names:
        job = case.until_job("create")
        most = max(most, len(case.cluster.active_jobs()))
        case.cluster.carry_out(job)
    for name in names:
        case.until_ready(name)
    assert most <= 2


def test_a_paused_namespace_starts_nothing(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_pauses, "FRESH_S", 0.0)
    monkeypatch.setattr(reconcile, "PAUSED_LOOK_S", 1.0)
    pause = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
    case.api.patch(NAMESPACES, case.namespace, pause)
    case.declare()
    case.land("a.parquet")
    case.start()
    case.until(lambda: case.condition("Paused").get("status") == "True", "it is paused")
    assert "its namespace" in case.condition("Paused")["message"]
    time.sleep(1.5)
    assert case.cluster.active_jobs() == []
    go_on = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
    case.api.patch(NAMESPACES, case.namespace, go_on)
    with CarryingOut(case.cluster):
        case.until_ready()
