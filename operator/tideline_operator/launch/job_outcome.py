"""What became of an operation's Job, from the Job and its pods. Pure.

1. A driver that ended with its result as termination message: that result counts.
2. A driver that ended without one, or a Job that failed without a driver: the operation is lost,
   and the message says what Kubernetes knows about it.
3. A driver whose node does not confirm that it has ended, as a node that is lost or cut off never
   does, is lost as well, once a heartbeat of it would count as old. It may still write where the
   node is only cut off: its heartbeats say so.
4. Anything else is still under way; the message says what prevents its start.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tideline.errors import ConfigError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.ingest.executors.kubernetes_pods import CONTAINER_NAME
from tideline.ingest.operation.result import (
    OUT_OF_MEMORY,
    WORKER_DIED,
    OperationResult,
    Outcome,
)
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.driver_job import (
    DRIVER_ROLE,
    EXECUTOR_ROLE,
    OPERATION_LABEL,
    ROLE_LABEL,
)

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_OUT_OF_MEMORY = "OOMKilled"
_OVER_TIME = "DeadlineExceeded"
# What does not resolve itself quickly: a user has to change something.
_STUCK = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
# What the scheduler says of nodes that are full, and the API server of a quota that is.
_NO_ROOM = ("Insufficient ", "Too many pods", "exceeded quota")
_MESSAGE_LENGTH_MAX = 500
_UNCONFIRMED_MS_MAX = int(DEFAULT_LIMITS.silent_s_max * 1000)
"""How long after its pod's grace period a node may take to say that it has ended."""


@dataclass(frozen=True, slots=True)
class Active:
    """Not ended. `is_stuck`: it makes no progress until a user changes something; or, where it
    `lacks_room`, until others have ended.

    `waits_since_ms` is since when it has had no running driver, or a driver without executors
    although some were requested; None otherwise. `lost_at_ms` is when it counts as lost unless its
    node says more of its pod; None while nobody stops that.
    """

    message: str
    is_started: bool
    is_stuck: bool = False
    waits_since_ms: int | None = None
    lacks_room: bool = False
    lost_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Ended with an answer."""

    result: OperationResult


@dataclass(frozen=True, slots=True)
class Lost:
    """Ended without an answer. `error` is the class of the failure."""

    message: str
    error: str = WORKER_DIED


JobOutcome = Active | Ended | Lost


def outcome_of(
    job: Manifest, pods: Iterable[Manifest], events: Sequence[Manifest] = (), *, now_ms: int
) -> JobOutcome:
    """What has become of `job`. `pods` may include those of others; `events` are the Job's own,
    which explain why it has no pod."""
    everyone = tuple(pods)
    driver = _driver_of(job, everyone)
    failure = _condition(job, "Failed") or _condition(job, "FailureTarget")
    if driver is not None:
        ended = _ended(driver, job)
        if ended is not None:
            return ended
    if failure is not None and (driver is None or counts_as_ended(driver, now_ms)):
        return _lost(driver, failure)
    if driver is None:
        if _condition(job, "Complete") is not None:
            return Lost("its pod was deleted, and with it the result")
        return _without_pod(job, events)
    if counts_as_ended(driver, now_ms):
        return _lost(driver, failure)
    return _under_way(driver, _executors_of(job, everyone))


def has_ended(pod: Manifest) -> bool:
    """Whether all containers of a pod have ended."""
    return _phase(pod) in ("Succeeded", "Failed")


def counts_as_ended(pod: Manifest, now_ms: int) -> bool:
    """Whether a pod has ended, or its node was asked so long ago that it is lost or cut off."""
    lost_at_ms = pod_lost_at_ms(pod)
    return has_ended(pod) or (lost_at_ms is not None and now_ms >= lost_at_ms)


def pod_lost_at_ms(pod: Manifest) -> int | None:
    """When a pod counts as lost that is being stopped; None for one that is not."""
    # Kubernetes writes the end of the grace period there.
    text = pod["metadata"].get("deletionTimestamp")
    return _ms(text) + _UNCONFIRMED_MS_MAX if text and not has_ended(pod) else None


def may_start_pods(job: Manifest) -> bool:
    """Whether a Job has neither ended nor been deleted."""
    return not is_over(job) and not job["metadata"].get("deletionTimestamp")


def is_over(job: Manifest) -> bool:
    """Whether a Job has ended."""
    return any(_condition(job, kind) is not None for kind in ("Complete", "Failed"))


def driver_uid(job: Manifest, pods: Iterable[Manifest]) -> str:
    """The uid of the Job's driver pod; empty when there is none."""
    driver = _driver_of(job, pods)
    return "" if driver is None else str(driver["metadata"].get("uid", ""))


def container_end(pod: Manifest) -> Manifest:
    """How the engine's container of a pod ended; empty while it runs."""
    ended: Manifest = _container(pod).get("state", {}).get("terminated") or {}
    return ended


def running_since_ms(pod: Manifest) -> int | None:
    """Since when the engine's container of a pod runs; None while it does not."""
    text = _container(pod).get("state", {}).get("running", {}).get("startedAt")
    return _ms(text) if text else None


def lost(pod: Manifest, job: Manifest | None) -> Lost:
    """A pod that ended without a result, and why."""
    return _lost(pod, None if job is None else _condition(job, "Failed"))


def _driver_of(job: Manifest, pods: Iterable[Manifest]) -> Manifest | None:
    own = [pod for pod in pods if _belongs_to(pod, job)]
    return max(own, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def _belongs_to(pod: Manifest, job: Manifest) -> bool:
    labels = pod["metadata"].get("labels", {})
    if labels.get(ROLE_LABEL, DRIVER_ROLE) != DRIVER_ROLE:
        return False
    owners = pod["metadata"].get("ownerReferences", ())
    uid = job["metadata"].get("uid")
    if uid is not None and owners:
        return any(owner.get("uid") == uid for owner in owners)
    return bool(labels.get(JOB_NAME_LABEL) == job["metadata"]["name"])


def _executors_of(job: Manifest, pods: Iterable[Manifest]) -> list[Manifest]:
    operation = job["metadata"].get("labels", {}).get(OPERATION_LABEL)
    return [
        pod
        for pod in pods
        if (labels := pod["metadata"].get("labels", {})).get(ROLE_LABEL) == EXECUTOR_ROLE
        and labels.get(OPERATION_LABEL) == operation
    ]


def _ended(driver: Manifest, job: Manifest) -> Ended | Lost | None:
    """How its container ended; None while it runs."""
    end = _container(driver).get("state", {}).get("terminated")
    if end is None:
        return None
    result = _result(end.get("message", ""))
    if result is None:
        return _lost(driver, _condition(job, "Failed"))
    if end.get("reason") == _OUT_OF_MEMORY and result.outcome is Outcome.FAILED:
        message = f"{_out_of_memory()}; {result.message}"
        result = replace(result, message=message, error=OUT_OF_MEMORY)
    over_time = _condition(job, "Failed") or _condition(job, "FailureTarget") or {}
    if over_time.get("reason") == _OVER_TIME and result.outcome is Outcome.FAILED:
        result = replace(result, message=f"{_condition_text(over_time)}; {result.message}")
    return Ended(result)


def _result(text: str) -> OperationResult | None:
    try:
        return OperationResult.from_json_object(json.loads(text))
    except (ValueError, ConfigError):
        return None


def _lost(driver: Manifest | None, failure: Manifest | None) -> Lost:
    end = container_end(driver) if driver is not None else {}
    error = OUT_OF_MEMORY if end.get("reason") == _OUT_OF_MEMORY else WORKER_DIED
    return Lost(_lost_message(driver, failure), error)


def _lost_message(driver: Manifest | None, failure: Manifest | None) -> str:
    if driver is None:
        gone = "its pod was deleted"
        return f"{gone}: {_condition_text(failure)}" if failure else gone
    status = driver.get("status", {})
    end = _container(driver).get("state", {}).get("terminated", {})
    parts = []
    if not has_ended(driver) and not end:
        parts.append(
            f"its pod was to end by {driver['metadata'].get('deletionTimestamp')}, and its node "
            "does not confirm it"
        )
    if end.get("reason") == _OUT_OF_MEMORY:
        parts.append(_out_of_memory())
    elif end:
        parts.append(f"its pod {_exit_text(end)}")
    if status.get("reason"):
        parts.append(_joined(status["reason"], status.get("message", "")))
    disruption = _condition(driver, "DisruptionTarget")
    if disruption is not None:
        parts.append(_condition_text(disruption))
    if failure is not None and failure.get("reason") == _OVER_TIME:
        parts.append(_condition_text(failure))
    return _short("; ".join(parts) or "its pod ended without a message")


def _out_of_memory() -> str:
    return "its pod was OOMKilled: raise spec.resources.driver.memory"


def _exit_text(end: Manifest) -> str:
    code = int(end.get("exitCode", 0))
    if code <= 128:
        return f"ended with exit code {code} and no result"
    try:
        return f"was ended by {signal.Signals(code - 128).name} (exit code {code})"
    except ValueError:
        return f"ended with exit code {code}"


def _without_pod(job: Manifest, events: Sequence[Manifest]) -> Active:
    since_ms = _created_ms(job)
    warnings = [event for event in events if event.get("type") == "Warning"]
    if not warnings:
        return Active("waiting for its pod", is_started=False, waits_since_ms=since_ms)
    newest = max(warnings, key=_happened_at)
    text = _joined(newest.get("reason", ""), newest.get("note") or newest.get("message", ""))
    # Each refused pod has another name, and the reason would look new each time.
    text = re.sub(re.escape(job["metadata"]["name"]) + "-[a-z0-9]{5}\\b", "its pod", text)
    return Active(
        _short(f"has no pod: {text}"),
        is_started=False,
        is_stuck=True,
        waits_since_ms=since_ms,
        lacks_room=_lacks_room(text),
    )


def _happened_at(event: Manifest) -> str:
    """When an event last happened; the two kinds of events have different fields for it."""
    series = event.get("series") or {}
    times = ("deprecatedLastTimestamp", "lastTimestamp", "eventTime")
    return str(series.get("lastObservedTime") or next(filter(None, map(event.get, times)), ""))


def _under_way(driver: Manifest, executors: Sequence[Manifest]) -> Active:
    if driver["metadata"].get("deletionTimestamp"):
        return Active("its pod is being stopped", True, lost_at_ms=pod_lost_at_ms(driver))
    if "running" not in _container(driver).get("state", {}):
        text, is_stuck = _why_not_running(driver)
        message = _short(f"its pod has not started: {text}")
        since_ms, lacks_room = _created_ms(driver), _lacks_room(text)
        return Active(message, False, is_stuck, since_ms, lacks_room)
    return _with_executors(executors)


def _with_executors(executors: Sequence[Manifest]) -> Active:
    """A running driver. With one executor it makes progress, even if the others do not start."""
    waiting = [pod for pod in executors if _phase(pod) == "Pending"]
    if not waiting or any(_phase(pod) == "Running" for pod in executors):
        return Active("is running", is_started=True)
    first = min(waiting, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    text, is_stuck = _why_not_running(first)
    message = _short(f"executor {first['metadata']['name']} has not started: {text}")
    return Active(message, True, is_stuck, waits_since_ms=_created_ms(first))


def _why_not_running(pod: Manifest) -> tuple[str, bool]:
    """What a pod waits for, and whether a user has to do something about it."""
    scheduled = _condition(pod, "PodScheduled", wanted="False")
    if scheduled is not None:
        return _condition_text(scheduled), scheduled.get("reason") == "Unschedulable"
    waiting = _container(pod).get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    if reason in _STUCK:
        return _joined(reason, waiting.get("message", "")), True
    return reason or "it is being set up", False


def _lacks_room(text: str) -> bool:
    """Whether it might start without any change. Where some nodes are full and others do not match,
    a full one may become free."""
    return any(sign in text for sign in _NO_ROOM)


def _container(pod: Manifest) -> Manifest:
    statuses: Sequence[Manifest] = pod.get("status", {}).get("containerStatuses") or ()
    empty: Manifest = {}
    return next((item for item in statuses if item.get("name") == CONTAINER_NAME), empty)


def _created_ms(item: Manifest) -> int | None:
    text = item["metadata"].get("creationTimestamp")
    return _ms(text) if text else None


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _phase(pod: Manifest) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _condition(item: Manifest, kind: str, wanted: str = "True") -> Manifest | None:
    conditions: Sequence[Any] = item.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind and c["status"] == wanted), None)


def _condition_text(condition: Manifest) -> str:
    return _joined(condition.get("reason", ""), condition.get("message", ""))


def _joined(reason: str, message: str) -> str:
    return ": ".join(text for text in (reason, message.strip()) if text)


def _short(text: str) -> str:
    return text if len(text) <= _MESSAGE_LENGTH_MAX else text[: _MESSAGE_LENGTH_MAX - 3] + "..."
