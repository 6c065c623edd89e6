"""A driver that dies in the middle of a write: undone as soon as its last pod has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.hudi.open_table import open_table
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import next_instant_time
from tideline.ingest.operation.operation import RollBack, writer_name
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.location import StoreLocation
from tideline_operator.api_objects import Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def running_ingest(case: ControllerCase) -> tuple[Manifest, Manifest]:
    """An ingest's Job and its driver, which the controller has seen."""
    case.land("a.parquet")
    case.declare()
    case.start()
    case.cluster.carry_out(case.until_job("create"))
    job = case.until_job("ingest")
    pod = case.cluster.start_pod(job)
    uid = pod["metadata"]["uid"]
    case.until(lambda: case.operations()[-1].get("podUid") == uid, "the driver was seen")
    return job, pod


def begin_write(case: ControllerCase, writer: str) -> str:
    """A write under way with a fresh heartbeat."""
    hoodie = open_table(StoreLocation.of(f"file://{case.folder}/people"))
    time = next_instant_time(SystemClock().now_ms(), hoodie.timeline().newest_time())
    hoodie.store.put(heartbeat_path(str(time)), writer.encode())
    hoodie.timelines.to_inflight(hoodie.timelines.create_requested(time, Action.COMMIT))
    return str(time)


def operation_of(job: Manifest) -> str:
    return str(job["metadata"]["labels"]["tideline.dev/operation"])


def test_what_a_dead_driver_left_is_rolled_back_before_anything_else(case: ControllerCase) -> None:
    job, pod = running_ingest(case)
    writer = writer_name(operation_of(job), pod["metadata"]["uid"])
    instant = begin_write(case, writer)
    case.cluster.lose(job)
    rollback = case.until_job()
    assert case.cluster.operation_of(rollback).work == RollBack((instant,), (writer,))
    healthy = case.condition("Healthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "DeadWriter")
    assert instant in healthy["message"]


def test_while_an_executor_outlives_its_driver_nothing_is_rolled_back_or_begun(
    case: ControllerCase,
) -> None:
    job, pod = running_ingest(case)
    executor = case.cluster.start_executor(job)
    instant = begin_write(case, writer_name(operation_of(job), pod["metadata"]["uid"]))
    case.cluster.lose(job)
    case.until(lambda: case.condition("Healthy").get("reason") == "DeadWriter", "it is reported")
    turns = case.turns()
    case.change("people", {"metadata": {"labels": {"touched": "yes"}}})
    case.until(lambda: case.turns() > turns, "another turn was taken")
    assert case.cluster.active_jobs() == []
    case.cluster.end_executor(executor)
    work = case.cluster.operation_of(case.until_job()).work
    assert isinstance(work, RollBack)
    assert work.instants == (instant,)


def test_a_driver_whose_job_and_pod_were_deleted_is_known_by_the_status(
    case: ControllerCase,
) -> None:
    job, pod = running_ingest(case)
    instant = begin_write(case, writer_name(operation_of(job), pod["metadata"]["uid"]))
    case.cluster.remove(job)
    work = case.cluster.operation_of(case.until_job(but=(job["metadata"]["name"],))).work
    assert isinstance(work, RollBack)
    assert work.instants == (instant,)


def test_of_a_writer_in_another_cluster_only_the_age_of_its_heartbeat_counts(
    case: ControllerCase,
) -> None:
    job, _ = running_ingest(case)
    begin_write(case, writer_name(operation_of(job), "a-pod-of-another-cluster"))
    case.cluster.lose(job)
    again = case.until_job(but=(job["metadata"]["name"],))
    assert again["metadata"]["labels"]["tideline.dev/kind"] == "ingest"
    assert case.condition("Healthy")["status"] == "True"
