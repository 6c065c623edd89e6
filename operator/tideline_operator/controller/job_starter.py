"""Starting the Job of an operation: first the namespace's service account, then the Job."""

from __future__ import annotations

from typing import Protocol

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline_operator.api_objects import ApiRefusedError, Manifest
from tideline_operator.controller.namespace_access import NamespaceAccess
from tideline_operator.launch.asked_memory import operation_memory_bytes
from tideline_operator.launch.job_launcher import Started, StartRefused
from tideline_operator.resources.resolved import ResolvedTable


class JobControl(Protocol):
    """Starts and stops the Jobs of operations."""

    def ensure_started(
        self, operation: Operation, table: ResolvedTable, attempt: int, owner: Manifest
    ) -> Started | StartRefused:
        """Start an attempt unless it was started before."""

    def stop(self, namespace: str, name: str) -> bool:
        """Stop a Job; False when there is none of that name."""

    def made_from(self, table: ResolvedTable) -> str:
        """A digest of what a Job of the table would be made from now."""


class JobStarter:
    """Starts operations; what the API server does not allow is a refusal, not an error."""

    def __init__(self, jobs: JobControl, access: NamespaceAccess) -> None:
        self._jobs = jobs
        self._access = access

    def memory_bytes(self, operation: Operation, table: ResolvedTable) -> int:
        """Memory that the operation's pods may ask for together; 0 when that is unknown."""
        try:
            return operation_memory_bytes(operation, table)
        except ConfigError:
            # Starting the operation reports what is wrong.
            return 0

    def start(
        self, operation: Operation, table: ResolvedTable, attempt: int, owner: Manifest
    ) -> Started | StartRefused:
        """Start an attempt. Raises ApiUnavailableError: a retry may help."""
        try:
            self._access.ensure(table.resource.metadata.namespace)
        except ApiRefusedError as error:
            return StartRefused(error.message)
        return self._jobs.ensure_started(operation, table, attempt, owner)

    def made_from(self, table: ResolvedTable) -> str:
        """A digest of what a Job of the table would be made from now; it is a label of each."""
        return self._jobs.made_from(table)

    def stop(self, namespace: str, name: str) -> bool:
        """Stop a Job: its driver undoes its write if there is time."""
        return self._jobs.stop(namespace, name)
