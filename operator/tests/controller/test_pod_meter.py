"""Seconds and memory of an operation's pods, whatever becomes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tideline_operator.controller.pod_meter import KEPT_MS, PodMeter
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import PodUse
from tideline_operator.resources.status import OperationPhase, OperationStatus

GIB = 1024**3
T0 = 1_800_000_000_000


def text(at_s: float) -> str:
    return datetime.fromtimestamp(T0 / 1000 + at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    uid: str,
    start_s: float | None,
    end_s: float | None = None,
    *,
    operation: str = "op",
    memory: str = "2Gi",
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending" if start_s is None else "Running"}
    if start_s is not None:
        status["startTime"] = text(start_s)
    if end_s is not None:
        status["phase"] = "Succeeded"
        ended = {"terminated": {"finishedAt": text(end_s)}}
        status["containerStatuses"] = [{"name": "engine", "state": ended}]
    labels = {"tideline.dev/operation": operation} if operation else {}
    return {
        "metadata": {"uid": uid, "name": uid, "labels": labels},
        "spec": {"containers": [{"resources": {"limits": {"memory": memory}}}]},
        "status": status,
    }


def entry(started_s: float = 0, memory_bytes: int = 3 * GIB) -> OperationStatus:
    return OperationStatus(
        id="op",
        kind="ingest",
        phase=OperationPhase.RUNNING,
        started_at=Timestamp(T0 + int(started_s * 1000)),
        memory_bytes=memory_bytes,
    )


def noted(*changes: tuple[dict[str, Any] | None, dict[str, Any] | None, float]) -> PodMeter:
    meter = PodMeter()
    for before, after, at_s in changes:
        meter.note(before, after, T0 + int(at_s * 1000))
    return meter


def use(seconds: float, gib_seconds: float) -> PodUse:
    return PodUse(round(seconds * 1000), round(gib_seconds * 1024))


def test_driver_and_executors_count_with_their_own_memory() -> None:
    driver, executor = pod("d", 1), pod("e", 5, memory="1Gi")
    meter = noted(
        (None, pod("d", None), 0),
        (pod("d", None), driver, 1),
        (None, executor, 6),
        (executor, None, 15),
        (driver, pod("d", 1, 21), 22),
    )
    assert meter.use_of(entry(), T0 + 25_000) == use(20 + 10, 20 * 2 + 10 * 1)


def test_what_still_runs_counts_until_now() -> None:
    meter = noted((None, pod("d", 1), 1))
    assert meter.use_of(entry(), T0 + 11_000) == use(10, 20)


def test_the_end_of_a_pod_is_not_moved_by_its_deletion() -> None:
    done = pod("d", 1, 21)
    meter = noted((None, done, 22), (done, None, 3_600))
    assert meter.use_of(entry(), T0 + 3_601_000) == use(20, 40)


def test_pods_of_earlier_attempts_and_other_operations_do_not_count() -> None:
    meter = noted(
        (None, pod("first", 1, 21), 22),
        (None, pod("second", 60, 70), 71),
        (None, pod("other", 60, 70, operation="x"), 71),
        (None, pod("foreign", 60, 70, operation=""), 71),
    )
    assert meter.use_of(entry(started_s=58), T0 + 72_000) == use(10, 20)


def test_where_no_pod_was_seen_it_is_one_for_the_whole_time() -> None:
    assert PodMeter().use_of(entry(), T0 + 40_000) == use(40, 120)


def test_a_warm_worker_counts_as_long_as_the_operation_took() -> None:
    worker = pod("w", -600, operation="")
    worker["metadata"]["labels"][WORKER_LABEL] = "k"
    busy = {**worker, "metadata": {**worker["metadata"]}}
    busy["metadata"]["labels"] = {WORKER_LABEL: "k", "tideline.dev/operation": "op"}
    executor = pod("e", 2, 7, memory="1Gi")
    meter = noted((None, worker, -600), (worker, busy, 0), (None, executor, 8))
    at_worker = replace(entry(), worker="job", pod_uid="w")
    assert meter.use_of(at_worker, T0 + 10_000) == use(10 + 5, 10 * 2 + 5 * 1)
    assert meter.use_of(replace(at_worker, id="next"), T0 + 10_000) == use(10, 20)
    meter.note(busy, None, T0 + 11_000)
    assert (meter._workers, len(meter._runs)) == ({}, 1)


def test_what_ended_long_ago_is_forgotten() -> None:
    meter = noted((None, pod("d", 1, 21), 22))
    meter.note(None, pod("later", KEPT_MS / 1000 + 30), T0 + KEPT_MS + 60_000)
    assert len(meter._runs) == 1


def test_memory_without_a_limit_counts_as_nothing() -> None:
    bare = pod("d", 1, 11)
    bare["spec"] = {"containers": [{}, {"resources": {"limits": {"memory": "what"}}}]}
    assert noted((None, bare, 12)).use_of(entry(), T0 + 12_000) == use(10, 0)
