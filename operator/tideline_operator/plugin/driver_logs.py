"""The log of an operation's driver."""

from __future__ import annotations

from collections.abc import Iterator

from tideline.errors import TidelineError
from tideline_operator.api_objects import PODS, Manifest
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import DRIVER_ROLE, OPERATION_LABEL, ROLE_LABEL
from tideline_operator.launch.job_outcome import JOB_NAME_LABEL


class NoPodError(TidelineError):
    """There is no pod whose log could be shown."""


def driver_log(
    api: KubeApi, operation: Manifest, namespace: str, *, follows: bool
) -> Iterator[str]:
    """Lines of the newest driver of an operation, as they are written if `follows`. A warm worker
    has lines of other operations as well.

    Raises NoPodError when its pods are gone or not there yet, ApiRefusedError,
    ApiUnavailableError.
    """
    labels = f"{OPERATION_LABEL}={operation['id']},{ROLE_LABEL}={DRIVER_ROLE}"
    if operation.get("worker"):
        labels = f"{JOB_NAME_LABEL}={operation['worker']}"
    pods, _ = api.list(PODS, namespace, labels=labels)
    if not pods:
        raise NoPodError(
            f"operation {operation['id']} has no pod: it was not started yet, or its Job was "
            f"removed. What came of it: {operation.get('message') or operation.get('phase')}"
        )
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    yield from api.log(str(newest["metadata"]["name"]), namespace, follows=follows)
