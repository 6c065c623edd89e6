"""Pods that do not start: reported in status and events, and given up after a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.api_objects import JOBS
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

PULLING = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def is_being_deleted(case: ControllerCase, name: str) -> bool:
    job = case.api.get(JOBS, name, case.namespace)
    return job is None or "deletionTimestamp" in job["metadata"]


@pytest.mark.slow
def test_a_job_whose_driver_does_not_start_is_given_up_and_retried(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start(start_deadline_s=4.0)
    job = case.until_job("create")
    name = job["metadata"]["name"]
    case.cluster.start_pod(job, phase="Pending", state=PULLING)
    case.until_event("OperationStuck")
    case.until(lambda: is_being_deleted(case, name), "its Job is deleted")
    assert case.operations()[-1]["phase"] == "Running"
    case.cluster.remove(job)
    case.until(lambda: case.operations()[-1]["phase"] == "Failed", "it has failed")
    message = case.operations()[-1]["message"]
    assert message.startswith("given up after 4 s")
    assert "ImagePullBackOff" in message
    case.cluster.carry_out(case.until_job("create", but=(name,)))
    case.until_ready()


def test_a_driver_without_its_first_executor_is_given_up(case: ControllerCase) -> None:
    case.land("a.parquet")
    case.declare()
    case.start(start_deadline_s=4.0)
    case.cluster.carry_out(case.until_job("create"))
    job = case.until_job("ingest")
    case.cluster.start_pod(job)
    case.cluster.start_executor(job, phase="Pending", state=PULLING)
    case.until(lambda: case.condition("Ready").get("reason") == "OperationStuck", "it is reported")
    assert "executor" in case.condition("Ready")["message"]
    name = job["metadata"]["name"]
    case.until(lambda: is_being_deleted(case, name), "its Job is deleted")


def test_a_driver_with_one_executor_waits_for_the_others(case: ControllerCase) -> None:
    case.land("a.parquet")
    case.declare()
    case.start(start_deadline_s=2.0)
    case.cluster.carry_out(case.until_job("create"))
    job = case.until_job("ingest")
    case.cluster.start_pod(job)
    case.cluster.start_executor(job)
    waiting = case.cluster.start_executor(job, phase="Pending", state=PULLING)
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "it was seen")
    turns = case.turns()
    # A change that the controller sees, after the deadline.
    time.sleep(3.0)
    case.cluster.set_pod(waiting, "Pending", {"waiting": {"reason": "ErrImagePull"}})
    case.until(lambda: case.turns() > turns, "another turn was taken")
    assert [item["metadata"]["name"] for item in case.cluster.active_jobs()] == [
        job["metadata"]["name"]
    ]
    assert case.condition("Ready").get("reason") != "OperationStuck"
