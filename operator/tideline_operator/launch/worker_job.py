"""What the launcher creates for warm workers: their Jobs, and a ConfigMap for each operation. Pure.

1. A worker's pod is a driver's pod without an operation: the same layers (engine_pod.py). It
   has access to the Kubernetes API and no port.
2. Its kind is a digest of the whole pod template and of the versions of the Secrets it reads. So an
   operation fits a worker if its own worker would be the same pod, with the same credentials.
3. The Job is never retried and its pod never replaced: a worker that died is a dead driver.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from tideline.ingest.operation.assignment import (
    ASSIGNEE_LABEL,
    ASSIGNMENT_KEY,
    NO_STAY,
    Assignment,
    Stay,
)
from tideline.ingest.operation.operation import Operation
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.asked_memory import worker_memory_bytes
from tideline_operator.launch.driver_job import (
    DRIVER_ROLE,
    ROLE_LABEL,
    in_pod,
    labels_of,
    operation_name,
)
from tideline_operator.launch.engine_pod import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    POD_FIELDS,
    TERMINATION_LOG,
    LaunchSettings,
    config_map,
    from_pod,
    layered,
    one_pod_job,
    owner_reference,
    proposed_container,
    proposed_parts,
    required_container,
    required_parts,
    spark_memory_bytes,
    store_secrets,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.warm import Warm

WORKER_LABEL = "tideline.dev/worker"
"""On Jobs and pods of workers: their kind."""
MEMORY_ANNOTATION = "tideline.dev/memory-bytes"
WORKER_COMMAND = ("python", "-P", "-m", "tideline.cli.warm_worker")

_DIGEST_BYTES = 8
_NAME_BYTES = 5


def worker_template(table: ResolvedTable, warm: Warm, settings: LaunchSettings) -> Manifest:
    """The pod of a worker for operations on `table`.

    Raises ConfigError naming the field that makes a pod impossible.
    """
    driver = table.spec.resources.driver
    memory = spark_memory_bytes(driver.memory, "spec.resources.driver.memory")
    labels = {MANAGED_BY_LABEL: MANAGED_BY, ROLE_LABEL: DRIVER_ROLE}
    required = required_parts(labels, store_secrets(table))
    container = required_container(required, table, WORKER_COMMAND, memory)
    conf = {**settings.spark_conf, **table.spec.engine.spark_conf}
    container["env"] += _variables(warm, settings, conf)
    proposed = proposed_parts(settings, has_api_access=True)
    proposed_container(proposed, table, settings)
    return layered(proposed, table, required, settings)


def worker_kind(template: Manifest, secret_versions: Sequence[str]) -> str:
    """What operations and workers must have in common, as the value of a label."""
    content = json.dumps([template, list(secret_versions)], sort_keys=True)
    return blake2b(content.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def new_worker_name() -> str:
    """A name for the Job of a worker: the status has it before the Job is created."""
    return f"tideline-worker-{secrets.token_hex(_NAME_BYTES)}"


def worker_job(
    name: str,
    table: ResolvedTable,
    template: Manifest,
    kind: str,
    *,
    owner: Manifest,
    settings: LaunchSettings,
) -> Manifest:
    """A worker's Job; `owner` is the LakeStore as the API server has it."""
    labels = {MANAGED_BY_LABEL: MANAGED_BY, WORKER_LABEL: kind}
    metadata = template["metadata"]
    labelled = {**metadata, "labels": {**metadata["labels"], WORKER_LABEL: kind}}
    about = {
        "name": name,
        "namespace": table.resource.metadata.namespace,
        "labels": labels,
        "annotations": {MEMORY_ANNOTATION: str(worker_memory_bytes(table))},
        "ownerReferences": [owner_reference(owner)],
    }
    return one_pod_job(about, {**template, "metadata": labelled}, settings)


def assignment_of(
    operation: Operation, table: ResolvedTable, attempt: int, pod_uid: str, stay: Stay = NO_STAY
) -> Assignment:
    """The operation as the worker in the pod gets it."""
    content = json.dumps(in_pod(operation).to_json_object(), ensure_ascii=False)
    name = operation_name(operation.id, attempt, pod_uid)
    owner = table.resource.metadata.name
    kind = operation.kind.value
    return Assignment(name, owner, operation.id, kind, attempt, content, stay)


def assignment_config_map(
    assignment: Assignment, operation: Operation, table: ResolvedTable, pod: Manifest
) -> Manifest:
    """The ConfigMap that hands an operation to the worker in `pod`, and is deleted with it.

    Raises ConfigError when the operation does not fit into a ConfigMap.
    """
    metadata = {
        "name": assignment.name,
        "namespace": table.resource.metadata.namespace,
        "labels": {**labels_of(operation, table), ASSIGNEE_LABEL: str(pod["metadata"]["uid"])},
        "ownerReferences": [owner_reference({**pod, "apiVersion": "v1", "kind": "Pod"})],
    }
    return config_map(metadata, {ASSIGNMENT_KEY: assignment.to_json()})


def _variables(warm: Warm, settings: LaunchSettings, conf: Mapping[str, str]) -> list[Manifest]:
    given = {
        "TIDELINE_GRACE_S": settings.grace_s,
        "TIDELINE_TERMINATION_LOG": TERMINATION_LOG,
        "TIDELINE_IDLE_S": warm.idle.ms / 1000,
        "TIDELINE_LIFETIME_S": warm.lifetime.ms / 1000,
        "TIDELINE_SPARK_CONF": json.dumps(conf, sort_keys=True),
    }
    return [
        *({"name": name, "value": str(value)} for name, value in given.items()),
        *map(from_pod, POD_FIELDS),
    ]
