"""Starting an operation as a Job, and stopping it.

1. The Job; one of that name means that the operation was started before.
2. The ConfigMap with the operation, owned by the Job and deleted with it; until it exists the Job's
   pod waits.

After a death between 1 and 2 the operation is started once more: a controller that has not seen
both created does that before anything else. So the operator only needs the right to create
ConfigMaps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline_operator.api_objects import CONFIG_MAPS, JOBS, ApiRefusedError, Created, Manifest
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import driver_job, job_name, operation_config_map
from tideline_operator.launch.engine_pod import LaunchSettings, owner_reference
from tideline_operator.launch.made_from import made_from
from tideline_operator.resources.resolved import ResolvedTable


@dataclass(frozen=True, slots=True)
class Started:
    """The operation's Job exists; `is_new` when this call created it."""

    is_new: bool


@dataclass(frozen=True, slots=True)
class StartRefused:
    """The operation cannot be started: the message says what to change."""

    message: str


class JobLauncher:
    """Starts and stops the Jobs of operations.

    Raises ApiUnavailableError: a retry may help.
    """

    def __init__(self, api: KubeApi, settings: LaunchSettings) -> None:
        self._api = api
        self._settings = settings

    @property
    def settings(self) -> LaunchSettings:
        return self._settings

    def ensure_started(
        self, operation: Operation, table: ResolvedTable, attempt: int, owner: Manifest
    ) -> Started | StartRefused:
        """Start an attempt at `operation` unless it was started before.

        `owner` is the LakeTable as the API server has it.
        """
        namespace = table.resource.metadata.namespace
        settings = self._settings
        try:
            content = operation_config_map(
                operation, table, attempt, owner=owner, settings=settings
            )
            job = driver_job(operation, table, attempt, owner=owner, settings=settings)
        except ConfigError as error:
            return StartRefused(str(error))
        name = job_name(operation.id, attempt)
        try:
            # A misspelled selector of a template is an error, and not left out of the pods.
            made = self._api.create(JOBS, job, namespace, is_strict=True)
        except ApiRefusedError as error:
            return StartRefused(error.message)
        started = made.object if isinstance(made, Created) else self._api.get(JOBS, name, namespace)
        if started is None:
            # Deleted just now: the next turn notices.
            return Started(is_new=False)
        try:
            self._api.create(CONFIG_MAPS, _owned_by(content, started), namespace)
        except ApiRefusedError as error:
            self._api.delete(JOBS, name, namespace)
            return StartRefused(error.message)
        return Started(is_new=isinstance(made, Created))

    def made_from(self, table: ResolvedTable) -> str:
        """A digest of what a Job of the table would be made from now."""
        return made_from(table, asdict(self._settings))

    def stop(self, namespace: str, name: str) -> bool:
        """Stop a Job: its driver gets SIGTERM and the grace period to undo its write.

        The Job stays, in deletion, until its pod has ended. False when there is no such Job.
        """
        return self._api.delete(JOBS, name, namespace, propagation="Foreground")


def _owned_by(content: Manifest, job: Manifest) -> Manifest:
    owner = owner_reference({**job, "apiVersion": JOBS.api_version, "kind": JOBS.kind})
    return {**content, "metadata": {**content["metadata"], "ownerReferences": [owner]}}
