"""Warm workers whose pods cannot start hold up neither others nor a corrected spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.api_objects import JOBS, Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.worker_pods import until_worker

pytestmark = pytest.mark.api_server

PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        case.declare_store(engine={"warm": {}})
        yield case


def is_being_deleted(case: ControllerCase, name: str) -> bool:
    job = case.api.get(JOBS, name, case.namespace)
    return job is None or "deletionTimestamp" in job["metadata"]


def stuck_worker(case: ControllerCase) -> Manifest:
    """A worker whose pod exists, has an operation, and cannot start."""
    case.declare(storeRef="store")
    job = until_worker(case)
    case.cluster.start_pod(job, phase="Pending", state=PULLING)
    case.until(lambda: case.condition("Ready").get("reason") == "OperationStuck", "it is stuck")
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "it was handed over")
    return job


def test_an_operation_whose_worker_cannot_start_holds_no_place_and_is_replaced(
    case: ControllerCase,
) -> None:
    controller = case.start(limits=Limits(operations_max=1))
    job = stuck_worker(case)
    name = job["metadata"]["name"]
    case.until(lambda: controller.budgets.stuck == 1, "it holds no place")
    case.declare("other")
    case.cluster.carry_out(case.until_job("create", but=(name,)))
    case.until_ready("other")
    case.change("people", {"spec": {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}})
    case.until(lambda: is_being_deleted(case, name), "its worker is deleted")
    case.cluster.remove(job)
    again = until_worker(case, but=(name,))
    assert again["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert "OperationFailed" not in case.event_reasons()


def test_a_worker_that_does_not_start_is_given_up(case: ControllerCase) -> None:
    case.start(start_deadline_s=4.0)
    job = stuck_worker(case)
    name = job["metadata"]["name"]
    case.until(lambda: is_being_deleted(case, name), "its worker is deleted")
    case.cluster.remove(job)
    case.until(lambda: "OperationFailed" in case.event_reasons(), "it has failed")
    assert "given up after 4 s" in case.event_notes()
