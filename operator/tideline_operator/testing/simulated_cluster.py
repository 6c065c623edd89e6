"""The part of a cluster that an API server alone lacks: pods of Jobs, their ends, what is deleted.

A test decides what becomes of each Job. `carry_out` does what the operator can see of the engine's
work: a new instant with an advanced checkpoint. No rows are written.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from tideline.clock import Clock, SystemClock
from tideline.errors import ConflictError
from tideline.hudi.open_table import open_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, IngestRange, MakeSavepoint, Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import (
    INGEST_KEY,
    Checkpoint,
    checkpoint_metadata,
    newest_of,
    read_checkpoints,
)
from tideline.ingest.sources.own_reach import own_reach
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.patience import PATIENCE_S
from tideline_operator.api_objects import CONFIG_MAPS, JOBS, PODS, ApiResource, Manifest
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import EXECUTOR_ROLE, OPERATION_KEY, ROLE_LABEL
from tideline_operator.launch.engine_pod import owner_reference
from tideline_operator.launch.job_outcome import JOB_NAME_LABEL

_CONTAINER = "engine"
_numbers = itertools.count(1)


def open_locally(place: Location) -> ObjectStore:
    """A place with the credentials of the environment."""
    return StoreLocation.of(place.uri, dict(place.options)).open()


class SimulatedCluster:
    """Plays the Job controller, the kubelet and the engine for the Jobs of one namespace."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        open_store: Callable[[Location], ObjectStore] = open_locally,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._open_store = open_store
        self._clock = clock or SystemClock()

    def active_jobs(self) -> list[Manifest]:
        """Jobs that have not ended, by name."""
        jobs, _ = self._api.list(JOBS, self._namespace)
        active = [job for job in jobs if not _has_ended(job)]
        return sorted(active, key=lambda job: str(job["metadata"]["name"]))

    def all_jobs(self) -> list[Manifest]:
        """Every Job, by name."""
        jobs, _ = self._api.list(JOBS, self._namespace)
        return sorted(jobs, key=lambda job: str(job["metadata"]["name"]))

    def can_start(self, job: Manifest) -> bool:
        """Whether the Job's ConfigMap is there, without which its pod would not start."""
        return self._held(job) is not None

    def operation_of(self, job: Manifest) -> Operation:
        """What the Job is to do."""
        held = self._held(job)
        assert held is not None, f"Job {job['metadata']['name']} has no ConfigMap"
        return Operation.from_json_object(json.loads(held["data"][OPERATION_KEY]))

    def _held(self, job: Manifest) -> Manifest | None:
        return self._api.get(CONFIG_MAPS, operation_map_of(job), self._namespace)

    def start_pod(
        self,
        job: Manifest,
        *,
        phase: str = "Running",
        state: Manifest | None = None,
        node: str = "",
    ) -> Manifest:
        """The Job's pod, running unless `phase` and its container's `state` say otherwise. On a
        `node` it ends, once it is deleted, only when that confirms it."""
        name = f"{job['metadata']['name'][:50]}-pod"
        pod: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {
                    **job["spec"]["template"]["metadata"]["labels"],
                    JOB_NAME_LABEL: job["metadata"]["name"],
                },
                "ownerReferences": [
                    owner_reference({**job, "apiVersion": "batch/v1", "kind": "Job"})
                ],
            },
            "spec": _on(node, job["spec"]["template"]["spec"]),
        }
        self._api.create(PODS, pod, self._namespace)
        self.set_pod(name, phase, state or {"running": {"startedAt": _now()}})
        found = self._api.get(PODS, name, self._namespace)
        assert found is not None
        return found

    def start_executor(
        self,
        job: Manifest,
        *,
        phase: str = "Running",
        state: Manifest | None = None,
        node: str = "",
    ) -> str:
        """One more executor of the Job's driver, otherwise as `start_pod`; returns its name."""
        labels = job["spec"]["template"]["metadata"]["labels"]
        name = f"{job['metadata']['name'][:40]}-exec-{next(_numbers)}"
        pod: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {**labels, ROLE_LABEL: EXECUTOR_ROLE}},
            "spec": _on(node, job["spec"]["template"]["spec"]),
        }
        self._api.create(PODS, pod, self._namespace)
        self.set_pod(name, phase, state or {"running": {"startedAt": _now()}})
        return name

    def end_executor(self, name: str) -> None:
        """It ends because its driver is gone."""
        end = {"exitCode": 0, "reason": "Completed", "finishedAt": _now()}
        self.set_pod(name, "Succeeded", {"terminated": end})

    def lose_node(self, *pods: str) -> None:
        """The node of these pods does not answer: they are to end, and nobody confirms it."""
        for pod in pods:
            taint = _condition("DisruptionTarget", "DeletionByTaintManager")
            self._patch(PODS, pod, {"conditions": [taint]})
            self._api.delete(PODS, pod, self._namespace)

    def lose_driver(self, job: Manifest, pod: Manifest) -> None:
        """The node of a Job's pod does not answer, so that the Job is to fail, and does not."""
        self.lose_node(pod["metadata"]["name"])
        target = _condition("FailureTarget", "PodFailurePolicy")
        self._patch(JOBS, str(job["metadata"]["name"]), {"conditions": [target]})

    def finish(self, job: Manifest, result: OperationResult) -> None:
        """The Job's pod ends with `result`, and the Job with it."""
        pod = self.start_pod(job)
        failed = result.outcome is Outcome.FAILED
        end = {
            "exitCode": result.exit_code,
            "reason": "Error" if failed else "Completed",
            "message": result.to_json(),
            "finishedAt": _now(),
        }
        self.set_pod(
            pod["metadata"]["name"], "Failed" if failed else "Succeeded", {"terminated": end}
        )
        self.end_job(job, failed=failed)

    def lose(self, job: Manifest, reason: str = "Error") -> None:
        """The Job's pod is killed and says nothing."""
        pod = self.start_pod(job)
        end = {"exitCode": 137, "reason": reason, "finishedAt": _now()}
        self.set_pod(pod["metadata"]["name"], "Failed", {"terminated": end})
        self.end_job(job, failed=True)

    def remove(self, job: Manifest) -> None:
        """The Job is deleted with its pod, as `kubectl delete job` and the garbage collector do."""
        name = job["metadata"]["name"]
        self._api.delete(PODS, f"{name[:50]}-pod", self._namespace)
        self._api.delete(JOBS, name, self._namespace)
        self._api.patch(JOBS, name, {"metadata": {"finalizers": None}}, self._namespace)

    def carry_out(self, job: Manifest) -> OperationResult:
        """Do to the table what the engine would, and end the Job."""
        result = self.work(self.operation_of(job))
        self.finish(job, result)
        return result

    def work(self, operation: Operation) -> OperationResult:
        """Do to the table what the engine would. Raises what a store or a table raises."""
        work, target = operation.work, operation.table
        result = OperationResult(operation.id, Outcome.NOTHING)
        if isinstance(work, MakeSavepoint):
            location = StoreLocation.of(target.location.uri, dict(target.location.options))
            hoodie = open_table(location, self._clock, self._open_store(target.location))
            create_savepoint(hoodie, InstantTime.parse(work.instant), comment=work.name)
            return OperationResult(operation.id, Outcome.SUCCEEDED, instant=work.instant)
        if isinstance(work, CreateTable | IngestRange):
            location = StoreLocation.of(target.location.uri, dict(target.location.options))
            store = self._open_store(target.location)
            self._create(operation, store)
            result = OperationResult(operation.id, Outcome.SUCCEEDED)
            if isinstance(work, IngestRange):
                hoodie = open_table(location, self._clock, store)
                instant = self._ingest(hoodie, work)
                result = OperationResult(
                    operation.id,
                    Outcome.SUCCEEDED,
                    instant=instant,
                    write_operation=work.write_operation,
                    source_files=len(work.range.names),
                )
        return result

    def set_pod(self, name: str, phase: str, state: Manifest) -> None:
        """Change what the kubelet says of a pod."""
        container = {
            "name": _CONTAINER,
            "state": state,
            "ready": phase == "Running",
            "restartCount": 0,
            "image": "engine",
            "imageID": "",
        }
        self._patch(PODS, name, {"phase": phase, "containerStatuses": [container]})

    def _create(self, operation: Operation, store: ObjectStore) -> None:
        if store.head(".hoodie/hoodie.properties") is not None:
            return
        target = operation.table
        definition = TableDefinition(
            name=target.name,
            record_key=target.record_key,
            partition_by=target.partition_by,
            ordering=target.ordering,
            table_type=TableType(target.table_type),
            table_version=6,
        )
        create_table(store, definition, self._clock)

    def _ingest(self, hoodie: HoodieTable, work: IngestRange) -> str:
        available = work.source.positions(own_reach(self._open_store), None)
        timeline = hoodie.timeline()
        before = read_checkpoints(
            timeline,
            lambda instant: hoodie.timelines.read_commit(instant).extra_metadata,
            {work.name, work.former_name} - {""},
        )
        found = newest_of(before, work.name, work.former_name)
        generation = found.generation if found else 0
        if generation != work.generation:
            raise ConflictError("planned with another checkpoint", value=generation)
        own = before.get(work.name)
        position = available.advance(None if found is None else found.position, work.range)
        advanced = replace(
            found or Checkpoint(0, position), generation=generation + 1, position=position
        )
        if found is not own:
            advanced = replace(advanced, took_over=work.former_name)
        after = {**before, work.name: advanced}
        time = hoodie.instants.next_time(timeline)
        instant = hoodie.timelines.create_requested(time, Action.COMMIT)
        instant = hoodie.timelines.to_inflight(instant)
        extra = {INGEST_KEY: work.name, **checkpoint_metadata(after)}
        hoodie.timelines.complete(instant, CommitMetadata({}, "UPSERT", extra).encode())
        return str(time)

    def end_job(self, job: Manifest, *, failed: bool) -> None:
        """The Job controller has seen its pod end."""
        moment = _now()
        first, last = ("FailureTarget", "Failed") if failed else ("SuccessCriteriaMet", "Complete")
        reason = "PodFailurePolicy" if failed else "CompletionsReached"
        status: Manifest = {
            "startTime": moment,
            "failed" if failed else "succeeded": 1,
            "conditions": [_condition(kind, reason) for kind in (first, last)],
        }
        if not failed:
            status["completionTime"] = moment
        self._patch(JOBS, str(job["metadata"]["name"]), status)

    def _patch(self, kind: ApiResource, name: str, status: Manifest) -> None:
        self._api.patch(kind, name, {"status": status}, self._namespace, subresource="status")


def _condition(kind: str, reason: str) -> Manifest:
    moment = _now()
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }


def _on(node: str, spec: Manifest) -> Manifest:
    return {**spec, "nodeName": node} if node else spec


class CarryingOut:
    """Carries out every Job as it comes, in a thread, for the length of a `with` block."""

    def __init__(self, cluster: SimulatedCluster, *, pause_s: float = 0.05) -> None:
        self._cluster = cluster
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated cluster", daemon=True)
        self.results: list[OperationResult] = []

    def __enter__(self) -> CarryingOut:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            for job in self._cluster.active_jobs():
                if self._cluster.can_start(job):
                    self.results.append(self._cluster.carry_out(job))


def _has_ended(job: Manifest) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(
        item["type"] in ("Complete", "Failed") and item["status"] == "True" for item in conditions
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def operation_map_of(job: Manifest) -> str:
    """The name of the ConfigMap that the Job's pod mounts."""
    volumes = job["spec"]["template"]["spec"]["volumes"]
    (name,) = (volume["configMap"]["name"] for volume in volumes if volume["name"] == "operation")
    return str(name)
