"""What the launcher creates for an operation: a ConfigMap with the operation, and a Job. Pure.

Work that moves rows gets a driver that starts executors; all other work gets one small pod in which
no Java runs and which has no access to the Kubernetes API. `engine_pod` has what is the same for
workers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace

from tideline.ingest.executors.kubernetes_pods import (
    BLOCK_MANAGER_PORT,
    DRIVER_PORT,
    SPARK_PODS_VARIABLE,
    SparkPods,
    task_slots,
)
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation, OperationKind
from tideline.ingest.sources.kafka.credentials import SECRET_KEYS
from tideline.storage.egress.client_files import ClientFiles
from tideline.tracing import TRACEPARENT, AttemptSpans
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.engine_pod import (
    CA_BUNDLE_PATH,
    CLIENT_FILES,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    TERMINATION_LOG,
    LaunchSettings,
    catalog_variables,
    config_map,
    disk_of,
    from_pod,
    layered,
    one_pod_job,
    owner_reference,
    proposed_container,
    proposed_parts,
    required_container,
    required_parts,
    source_variables,
    spark_memory_bytes,
    store_secrets,
)
from tideline_operator.launch.made_from import MADE_FROM_LABEL, made_from
from tideline_operator.launch.pod_template import (
    engine_container,
)
from tideline_operator.resources.iceberg import CatalogType
from tideline_operator.resources.quantity import memory_bytes, parse_quantity
from tideline_operator.resources.resolved import ResolvedTable

TABLE_LABEL = "tideline.dev/table"
OPERATION_LABEL = "tideline.dev/operation"
KIND_LABEL = "tideline.dev/kind"
ROLE_LABEL = "tideline.dev/role"
DRIVER_ROLE = "driver"
EXECUTOR_ROLE = "executor"

OPERATION_FOLDER = "/etc/tideline/operation"
OPERATION_KEY = "operation.json"

_NAME_LENGTH_MAX = 63
_SPARK_PODS_KEY = "spark-pods.json"
_EXECUTOR_KEY = "executor-pod.json"
_SMALL_MEMORY_BYTES = 512 * 1024 * 1024


def job_name(operation_id: str, attempt: int) -> str:
    """The name of an attempt's Job; cut at the front, because its end identifies the operation."""
    return f"{operation_id}-{attempt}"[-_NAME_LENGTH_MAX:].lstrip("-")


def operation_name(operation_id: str, attempt: int, uid: str) -> str:
    """The name of the ConfigMap with the operation, for the LakeTable or the worker's pod of this
    UID alone: that of one that was deleted just now may still be there, and go at any moment."""
    return f"{job_name(operation_id, attempt)}-{uid.partition('-')[0]}"


def moves_rows(operation: Operation) -> bool:
    """Whether the operation needs Spark."""
    service = operation.kind.service
    return operation.kind is OperationKind.INGEST if service is None else service.moves_rows


def memory_asked_bytes(operation: Operation, table: ResolvedTable) -> int:
    """Memory that the operation's pods may ask for together."""
    resources = table.spec.resources
    driver = memory_bytes(resources.driver.memory)
    service = operation.kind.service
    if service is not None and service.holds_rows:
        return driver
    if not moves_rows(operation):
        return min(driver, _SMALL_MEMORY_BYTES)
    return driver + resources.executor.max * memory_bytes(resources.executor.memory)


def driver_job(
    operation: Operation,
    table: ResolvedTable,
    attempt: int,
    *,
    owner: Manifest,
    settings: LaunchSettings,
) -> Manifest:
    """The Job that carries `operation` out; `owner` is the LakeTable as the API server has it.

    Raises ConfigError naming the field that makes a pod impossible.
    """
    metadata = _metadata(operation, table, attempt, owner)
    metadata["labels"] |= {MADE_FROM_LABEL: made_from(table, asdict(settings))}
    held_in = operation_name(operation.id, attempt, owner["metadata"]["uid"])
    template = _driver_template(operation, table, held_in, settings)
    if settings.tracing:
        spans = AttemptSpans.of(owner["metadata"]["uid"], operation.id, attempt)
        parent = {"name": TRACEPARENT, "value": spans.job.traceparent}
        engine_container(template)["env"].append(parent)
    job = one_pod_job(metadata, template, settings)
    if settings.deadline_s is not None:
        job["spec"]["activeDeadlineSeconds"] = settings.deadline_s
    return job


def operation_config_map(
    operation: Operation,
    table: ResolvedTable,
    attempt: int,
    *,
    owner: Manifest,
    settings: LaunchSettings,
) -> Manifest:
    """The ConfigMap that the Job's pod mounts: the operation, and what its executors are made of.

    Raises ConfigError when the operation does not fit into a ConfigMap.
    """
    content = json.dumps(in_pod(operation).to_json_object(), ensure_ascii=False)
    data = {OPERATION_KEY: content}
    name = operation_name(operation.id, attempt, owner["metadata"]["uid"])
    if moves_rows(operation):
        driver = _driver_template(operation, table, name, settings)
        executor = _executor_template(operation, table, settings)
        pods = _spark_pods(table, engine_container(driver), settings)
        data[_SPARK_PODS_KEY] = pods.to_json()
        data[_EXECUTOR_KEY] = json.dumps({"apiVersion": "v1", "kind": "Pod", **executor})
    return config_map({**_metadata(operation, table, attempt, owner), "name": name}, data)


def labels_of(operation: Operation, table: ResolvedTable) -> dict[str, str]:
    """The labels of everything that belongs to an operation."""
    return {
        MANAGED_BY_LABEL: MANAGED_BY,
        TABLE_LABEL: table.resource.metadata.name,
        OPERATION_LABEL: operation.id,
        KIND_LABEL: operation.kind.value,
    }


def _metadata(
    operation: Operation, table: ResolvedTable, attempt: int, owner: Manifest
) -> Manifest:
    return {
        "name": job_name(operation.id, attempt),
        "namespace": table.resource.metadata.namespace,
        "labels": labels_of(operation, table),
        "ownerReferences": [owner_reference(owner)],
    }


def _driver_template(
    operation: Operation, table: ResolvedTable, held_in: str, settings: LaunchSettings
) -> Manifest:
    """`held_in` is the ConfigMap with the operation."""
    resources = table.spec.resources
    if moves_rows(operation):
        memory = spark_memory_bytes(resources.driver.memory, "spec.resources.driver.memory")
        spark_memory_bytes(resources.executor.memory, "spec.resources.executor.memory")
    else:
        memory = memory_asked_bytes(operation, table)
    secrets = store_secrets(table)
    labels = {**labels_of(operation, table), ROLE_LABEL: DRIVER_ROLE}
    required = required_parts(labels, secrets)
    volume = {"name": "operation", "configMap": {"name": held_in}}
    required["spec"]["volumes"].append(volume)
    arguments = ("tideline", "execute", "--operation", f"{OPERATION_FOLDER}/{OPERATION_KEY}")
    container = required_container(required, table, arguments, memory)
    container["env"] += _driver_variables(operation, settings)
    mount = {"name": "operation", "mountPath": OPERATION_FOLDER, "readOnly": True}
    container["volumeMounts"].append(mount)
    proposed = proposed_parts(settings, has_api_access=moves_rows(operation))
    asked = proposed_container(proposed, table, settings)
    if moves_rows(operation):
        asked["ports"] = [
            {"name": "driver", "containerPort": DRIVER_PORT},
            {"name": "blocks", "containerPort": BLOCK_MANAGER_PORT},
        ]
    return layered(proposed, table, required, settings)


def _executor_template(
    operation: Operation, table: ResolvedTable, settings: LaunchSettings
) -> Manifest:
    """Completed by Spark, which sets image, arguments, sizes and the restart policy."""
    labels = {**labels_of(operation, table), ROLE_LABEL: EXECUTOR_ROLE}
    required = required_parts(labels, store_secrets(table))
    container = engine_container(required)
    container["command"] = None
    # Executors read topics, and nothing else of what needs a Secret.
    of_brokers = set(SECRET_KEYS)
    keys = [key for key in table.spec.source_secret_keys if key in of_brokers]
    container["env"] += source_variables(table, keys)
    catalog = table.spec.catalog
    is_kept = operation.table.catalog is not None
    if is_kept and catalog is not None and catalog.type is CatalogType.REST:
        # Where it vends credentials, tasks load and renew them themselves.
        container |= catalog_variables(table)
    if disk := disk_of(table.spec.resources.executor):
        container["resources"] = {"requests": disk, "limits": disk}
    return layered(proposed_parts(settings, has_api_access=False), table, required, settings)


def _driver_variables(operation: Operation, settings: LaunchSettings) -> list[Manifest]:
    fields = ["POD_UID"]
    variables: list[Manifest] = [
        {"name": "TIDELINE_GRACE_S", "value": str(settings.grace_s)},
        {"name": "TIDELINE_TERMINATION_LOG", "value": TERMINATION_LOG},
    ]
    if moves_rows(operation):
        path = f"{OPERATION_FOLDER}/{_SPARK_PODS_KEY}"
        variables.append({"name": SPARK_PODS_VARIABLE, "value": path})
        fields += ["POD_NAME", "POD_NAMESPACE", "POD_IP"]
    return variables + [from_pod(name) for name in fields]


def _spark_pods(table: ResolvedTable, driver: Manifest, settings: LaunchSettings) -> SparkPods:
    executor = table.spec.resources.executor
    store = table.stores.get(table.spec.store_ref or "")
    return SparkPods(
        image=driver["image"],
        pull_policy=driver["imagePullPolicy"],
        driver_memory_bytes=memory_bytes(table.spec.resources.driver.memory),
        executor_memory_bytes=memory_bytes(executor.memory),
        executor_cpu=executor.cpu,
        executor_slots=task_slots(float(parse_quantity(executor.cpu))),
        executors_min=executor.min,
        executors_max=executor.max,
        executor_template=f"{OPERATION_FOLDER}/{_EXECUTOR_KEY}",
        conf={**settings.spark_conf, **table.spec.engine.spark_conf},
        event_logs=(store and store.event_logs) or "",
    )


def in_pod(operation: Operation) -> Operation:
    """The operation with the paths that files of certificates have in the pod."""
    table = replace(operation.table, location=_place_in_pod(operation.table.location))
    work = operation.work
    if isinstance(work, IngestRange):
        work = replace(work, source=work.source.with_places(_place_in_pod))
    return replace(operation, table=table, work=work)


def _place_in_pod(place: Location) -> Location:
    options: Mapping[str, str] = dict(place.options)
    if "ca_bundle" in options:
        options = {**options, "ca_bundle": CA_BUNDLE_PATH}
    if ClientFiles.of(options) is not None:
        options = {**options, **CLIENT_FILES.options}
    return Location(place.uri, tuple(sorted(options.items())))
