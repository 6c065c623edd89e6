"""Where an operation is carried out, at a warm worker or by a Job of its own, and starting it.

1. The worker is chosen (`decide/worker_assignment.py`), and stands in the status before anything
   happens. A new one's Job is created then; its pod's uid follows in the status once it is known.
2. The operation is handed over once the status names the pod and the digest of what it gets. Pods
   are known before their containers run, so a worker that starts finds its operation waiting.
3. After a death in between the next turn finds the worker in the status and continues with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.errors import ConfigError
from tideline.ingest.operation.assignment import Assignment
from tideline.ingest.operation.operation import Operation
from tideline_operator.api_objects import LAKE_STORES, ApiRefusedError, Manifest
from tideline_operator.controller.job_starter import JobStarter
from tideline_operator.controller.namespace_access import NamespaceAccess
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.table_source import TableSource
from tideline_operator.controller.warm_workers import WarmWorkers
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.actions import Priority, Start
from tideline_operator.decide.worker_assignment import (
    AwaitWorker,
    OwnJob,
    stay_of,
    too_large,
    warm_of,
)
from tideline_operator.launch.job_launcher import Started, StartRefused
from tideline_operator.launch.job_outcome import has_ended
from tideline_operator.launch.worker_job import WORKER_LABEL, assignment_of
from tideline_operator.launch.worker_launcher import WorkerLauncher, WorkerPlan
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus, OperationStatus


@dataclass(frozen=True, slots=True)
class InOwnJob:
    """The operation gets a Job of its own."""

    memory_bytes: int

    def noted(self, entry: OperationStatus) -> OperationStatus:
        """The entry of the status."""
        return entry


@dataclass(frozen=True, slots=True)
class AtWarmWorker:
    """The operation gets the worker of that name. `pod` is there as soon as it is known; before, a
    worker with a `plan` may have to be created. `pod_uid` and `digest` are what the worker compares
    before it begins."""

    name: str
    memory_bytes: int
    plan: WorkerPlan | None = None
    replaced: str = ""
    pod: Manifest | None = None
    assignment: Assignment | None = None
    pod_uid: str = ""
    digest: str = ""

    def noted(self, entry: OperationStatus) -> OperationStatus:
        """The entry of the status."""
        return replace(entry, worker=self.name, pod_uid=self.pod_uid, digest=self.digest)


@dataclass(frozen=True, slots=True)
class Later:
    """All workers are busy; one will be free soon."""

    message: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class AwaitingPod:
    """The worker has no pod yet; a change of that wakes the table."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The operation that the status names as not started; `has_job` when its own Job is there. It
    holds no place while its worker cannot start."""

    entry: OperationStatus | None = None
    has_job: bool = False
    holds_place: bool = True

    def entry_of(self, operation: Operation) -> OperationStatus | None:
        """The entry, if it is of this operation."""
        return self.entry if self.entry is not None and self.entry.id == operation.id else None


Place = InOwnJob | AtWarmWorker | Later


@dataclass(frozen=True, slots=True)
class WorkerPlaces:
    """Chooses places and starts operations there."""

    starter: JobStarter
    launcher: WorkerLauncher
    access: NamespaceAccess
    workers: WarmWorkers
    source: TableSource
    stores: ObjectCache

    def place_of(
        self,
        key: Key,
        table: ResolvedTable,
        start: Start,
        status: LakeTableStatus,
        recorded: Recorded,
    ) -> Place:
        """Where to carry out what a plan starts. What may have begun stays where it is."""
        operation = start.operation
        by_itself = InOwnJob(self.starter.memory_bytes(operation, table))
        before = recorded.entry_of(operation)
        if before is not None and before.worker and before.pod_uid:
            known = AtWarmWorker(
                before.worker,
                before.memory_bytes,
                pod_uid=before.pod_uid,
                digest=before.digest,
            )
            return self._with_pod(known, operation, table, start)
        warm = warm_of(table)
        has_job = before is not None and recorded.has_job
        if has_job or warm is None or too_large(operation, status, warm) is not None:
            self.workers.stop_waiting(key)
            return by_itself
        try:
            plan = self.launcher.plan(table, warm, self.source.secret_versions(table))
        except ConfigError:
            # Starting its Job reports what is wrong.
            return by_itself
        if before is not None and self._is_of_kind(key[0], before.worker, plan):
            place = AtWarmWorker(before.worker, plan.memory_bytes, plan)
            return self._with_pod(place, operation, table, start)
        busy = {
            operation_status.worker
            for operation_status in status.operations
            if operation_status.is_under_way and operation_status.id != operation.id
        }
        gives_way = start.priority is Priority.SERVICE
        chosen = self.workers.choose(key, plan, warm, busy=busy, gives_way=gives_way)
        if isinstance(chosen, AwaitWorker):
            return Later(chosen.message, chosen.until_ms)
        if isinstance(chosen, OwnJob):
            return by_itself
        new = plan if chosen.is_new else None
        place = AtWarmWorker(chosen.name, plan.memory_bytes, new, chosen.replaced)
        return self._with_pod(place, operation, table, start)

    def made_from(self, table: ResolvedTable, entry: OperationStatus) -> str:
        """What its Job would be made from now, or the kind its worker would have."""
        if not entry.worker:
            return self.starter.made_from(table)
        warm = warm_of(table)
        if warm is None:
            return "no worker"
        try:
            return self.launcher.plan(table, warm, self.source.secret_versions(table)).kind
        except ConfigError as error:
            return str(error)

    def start(
        self, place: AtWarmWorker | InOwnJob, table: ResolvedTable, start: Start, owner: Manifest
    ) -> Started | StartRefused | AwaitingPod:
        """Start an attempt, which the status names. Raises ApiUnavailableError: a retry may
        help."""
        operation, namespace = start.operation, table.resource.metadata.namespace
        if isinstance(place, InOwnJob):
            return self.starter.start(operation, table, start.attempt, owner)
        if place.pod is not None and place.assignment is not None:
            return self.launcher.assignment(place.assignment, operation, table, place.pod)
        if place.replaced:
            self.launcher.stop(namespace, place.replaced)
        if place.plan is not None:
            refusal = self._start_worker(place.name, place.plan, table)
            if refusal is not None:
                return refusal
        return AwaitingPod()

    def _is_of_kind(self, namespace: str, name: str, plan: WorkerPlan) -> bool:
        """Whether the worker recorded before is still what the operation needs."""
        if not name:
            return False
        job = self.workers.job(namespace, name)
        return job is None or job["metadata"]["labels"].get(WORKER_LABEL) == plan.kind

    def _with_pod(
        self, place: AtWarmWorker, operation: Operation, table: ResolvedTable, start: Start
    ) -> AtWarmWorker:
        pod = self.workers.pod(table.resource.metadata.namespace, place.name)
        if pod is None or has_ended(pod) or pod["metadata"].get("deletionTimestamp"):
            return place
        uid = str(pod["metadata"]["uid"])
        if place.pod_uid not in ("", uid):
            return place
        namespace = table.resource.metadata.namespace
        stay = stay_of(operation, table, self.workers.share(namespace))
        given = assignment_of(operation, table, start.attempt, uid, stay)
        return replace(place, pod=pod, assignment=given, pod_uid=uid, digest=given.digest)

    def _start_worker(
        self, name: str, plan: WorkerPlan, table: ResolvedTable
    ) -> StartRefused | None:
        namespace = table.resource.metadata.namespace
        store = self.stores.get((namespace, str(table.spec.store_ref)))
        if store is None:
            return StartRefused(f"there is no LakeStore {table.spec.store_ref}")
        try:
            self.access.ensure(namespace)
        except ApiRefusedError as error:
            return StartRefused(error.message)
        owner = {**store, "apiVersion": LAKE_STORES.api_version, "kind": LAKE_STORES.kind}
        made = self.launcher.start(name, table, plan, owner)
        if isinstance(made, StartRefused):
            return made
        if made is not None:
            self.workers.note_job(None, made)
        return None
