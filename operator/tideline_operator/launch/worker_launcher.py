"""Starting and stopping warm workers, and handing operations to them."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.ingest.operation.assignment import Assignment
from tideline.ingest.operation.operation import Operation
from tideline_operator.api_objects import CONFIG_MAPS, JOBS, ApiRefusedError, Created, Manifest
from tideline_operator.kube import KubeApi
from tideline_operator.launch.asked_memory import worker_memory_bytes
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.job_launcher import Started, StartRefused
from tideline_operator.launch.worker_job import (
    assignment_config_map,
    worker_job,
    worker_kind,
    worker_template,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.warm import Warm


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The worker that an operation on a table needs: its pod, its kind and its size."""

    template: Manifest
    kind: str
    memory_bytes: int


class WorkerLauncher:
    """Creates what workers need. Raises ApiUnavailableError: a retry may help."""

    def __init__(self, api: KubeApi, settings: LaunchSettings) -> None:
        self._api = api
        self._settings = settings

    def plan(
        self, table: ResolvedTable, warm: Warm, secret_versions: tuple[str, ...]
    ) -> WorkerPlan:
        """What a worker for the table is like. Raises ConfigError when there can be none."""
        template = worker_template(table, warm, self._settings)
        kind = worker_kind(template, secret_versions)
        return WorkerPlan(template, kind, worker_memory_bytes(table))

    def start(
        self, name: str, table: ResolvedTable, plan: WorkerPlan, owner: Manifest
    ) -> Manifest | StartRefused | None:
        """Start a worker unless it was started before: its Job, None where it was there."""
        job = worker_job(
            name, table, plan.template, plan.kind, owner=owner, settings=self._settings
        )
        try:
            namespace = table.resource.metadata.namespace
            made = self._api.create(JOBS, job, namespace, is_strict=True)
        except ApiRefusedError as error:
            return StartRefused(error.message)
        return made.object if isinstance(made, Created) else None

    def assignment(
        self, assignment: Assignment, operation: Operation, table: ResolvedTable, pod: Manifest
    ) -> Started | StartRefused:
        """Hand an operation to the worker in `pod`, unless that was done before."""
        try:
            content = assignment_config_map(assignment, operation, table, pod)
            made = self._api.create(CONFIG_MAPS, content, table.resource.metadata.namespace)
        except ConfigError as error:
            return StartRefused(str(error))
        except ApiRefusedError as error:
            return StartRefused(error.message)
        return Started(is_new=isinstance(made, Created))

    def stop(self, namespace: str, name: str) -> bool:
        """Stop a worker: it gets SIGTERM and the grace period to undo its write."""
        return self._api.delete(JOBS, name, namespace, propagation="Foreground")
