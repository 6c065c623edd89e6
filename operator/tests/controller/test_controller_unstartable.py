"""Operations that cannot start keep no other from its place, and a corrected spec frees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.api_objects import EVENTS, JOBS, Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

BAD = ("bad-0", "bad-1", "bad-2", "bad-3")
PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
SECURITY = 'Error creating: pods is forbidden: violates PodSecurity "restricted:latest"'


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def job_of(case: ControllerCase, table: str, *, but: tuple[str, ...] = ()) -> Manifest:
    def look() -> Manifest | None:
        for job in case.cluster.active_jobs():
            is_other = job["metadata"]["name"] not in but
            is_of_table = job["metadata"]["labels"]["tideline.dev/table"] == table
            if is_of_table and is_other and case.cluster.can_start(job):
                return job
        return None

    found: Manifest = case.until(look, f"a Job of {table}")
    return found


def is_being_deleted(case: ControllerCase, name: str) -> bool:
    job = case.api.get(JOBS, name, case.namespace)
    return job is None or "deletionTimestamp" in job["metadata"]


def refuse_pod(case: ControllerCase, job: Manifest, note: str) -> None:
    name = job["metadata"]["name"]
    event: Manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": case.namespace},
        "involvedObject": {"kind": "Job", "name": name, "namespace": case.namespace},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": note,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    case.api.create(EVENTS, event, case.namespace)


def test_four_operations_that_cannot_start_stop_no_other(case: ControllerCase) -> None:
    for name in BAD:
        case.declare(name)
    controller = case.start(limits=Limits(operations_max=4))
    jobs = {name: job_of(case, name) for name in BAD}
    case.declare("people")
    case.until(lambda: controller.budgets.waiting == 1, "there is no place for another")
    for name in BAD[:3]:
        case.cluster.start_pod(jobs[name], phase="Pending", state=PULLING)
    refuse_pod(case, jobs[BAD[3]], SECURITY)
    case.until(lambda: controller.budgets.stuck == 4, "they hold none any more")
    case.until(
        lambda: case.condition("Ready", BAD[3]).get("reason") == "OperationStuck", "it is reported"
    )
    case.cluster.carry_out(job_of(case, "people"))
    case.until_ready()
    # One that starts after all counts again.
    name = f"{jobs[BAD[0]]['metadata']['name'][:50]}-pod"
    case.cluster.set_pod(name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    case.until(lambda: controller.budgets.running == 1, "it has a place")


def test_an_operation_for_which_a_quota_has_no_room_keeps_its_place_for_a_while(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.settlement._ROOM_PATIENCE_MS", 8_000)
    monkeypatch.setattr("tideline_operator.controller.next_look.STUCK_LOOK_S", 1.0)
    case.declare("full")
    controller = case.start(limits=Limits(operations_max=1))
    job = job_of(case, "full")
    case.declare("people")
    case.until(lambda: controller.budgets.waiting == 1, "there is no place for another")
    refuse_pod(case, job, "Error creating: pods is forbidden: exceeded quota: small")
    case.until(
        lambda: case.condition("Ready", "full").get("reason") == "OperationStuck", "it is reported"
    )
    assert (controller.budgets.running, controller.budgets.stuck) == (1, 0)
    case.until(lambda: controller.budgets.stuck == 1, "it holds no place any more")
    case.cluster.carry_out(job_of(case, "people"))
    case.until_ready()
    # When the quota has room, its pod starts.
    case.cluster.carry_out(job)
    case.until_ready("full")


def test_a_changed_spec_replaces_a_job_whose_driver_never_ran(case: ControllerCase) -> None:
    case.declare(podTemplate={"spec": {"nodeSelector": {"disk": "fast"}}})
    case.start()
    job = case.until_job("create")
    first = job["metadata"]["name"]
    case.cluster.start_pod(job, phase="Pending", state=PULLING)
    case.until(lambda: case.condition("Ready").get("reason") == "OperationStuck", "it is stuck")
    case.change("people", {"spec": {"podTemplate": {"spec": {"nodeSelector": {"disk": None}}}}})
    case.until(lambda: is_being_deleted(case, first), "its Job is deleted")
    case.cluster.remove(job)
    again = case.until_job("create", but=(first,))
    assert again["metadata"]["name"] == first.removesuffix("-1") + "-2"
    assert (
        "nodeSelector" not in again["spec"]["template"]["spec"]
        or not (again["spec"]["template"]["spec"]["nodeSelector"])
    )
    case.cluster.carry_out(again)
    case.until_ready()
    # Nothing failed: a Job that never ran is no attempt that went wrong.
    assert "OperationFailed" not in case.event_reasons()


def test_a_changed_spec_leaves_a_job_alone_whose_driver_runs(case: ControllerCase) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    case.cluster.start_pod(job)
    case.until(lambda: case.operations()[-1].get("podUid"), "its pod was seen")
    turns = case.turns()
    case.change("people", {"spec": {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}})
    generation = case.table()["metadata"]["generation"]
    case.until(lambda: case.status().get("observedGeneration") == generation, "it was seen")
    # The status is written before the end of the turn, which is counted.
    case.until(lambda: case.turns() > turns, "the turn is over")
    assert not is_being_deleted(case, job["metadata"]["name"])
