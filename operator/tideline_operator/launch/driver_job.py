"""What the launcher creates for an operation: a ConfigMap with the operation, and a Job. Pure.

1. Work that moves rows gets a driver that starts executors; all other work gets one small pod in
   which no Java runs and which has no access to the Kubernetes API.
2. The pod is composed of four layers: our defaults, those of the operator's settings,
   `spec.podTemplate`, and what is required. Executors are made from a template of the same layers.
3. Credentials appear as references to the Secret of the LakeStore and nowhere else.

There is never a second driver for one operation: the pod is not restarted, the Job does not retry,
a pod that is terminating is not replaced, and a disruption fails the Job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.executors.kubernetes_pods import (
    BLOCK_MANAGER_PORT,
    CONTAINER_NAME,
    DRIVER_PORT,
    MEMORY_BYTES_MIN,
    SPARK_PODS_VARIABLE,
    SparkPods,
    task_slots,
)
from tideline.ingest.operation.operation import (
    IngestFiles,
    MaintainIceberg,
    Operation,
    OperationKind,
    Place,
    RunService,
)
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.made_from import MADE_FROM_LABEL, made_from
from tideline_operator.launch.pod_template import (
    CONFINED,
    confined_template,
    engine_container,
    overlay,
)
from tideline_operator.resources.lake_store import StoreWebIdentity
from tideline_operator.resources.lake_table import DriverResources, ExecutorResources
from tideline_operator.resources.metadata import API_VERSION
from tideline_operator.resources.quantity import memory_bytes, memory_text, parse_quantity
from tideline_operator.resources.resolved import ResolvedTable

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "tideline-operator"
TABLE_LABEL = "tideline.dev/table"
OPERATION_LABEL = "tideline.dev/operation"
KIND_LABEL = "tideline.dev/kind"
ROLE_LABEL = "tideline.dev/role"
DRIVER_ROLE = "driver"
EXECUTOR_ROLE = "executor"

OPERATION_FOLDER = "/etc/tideline/operation"
OPERATION_KEY = "operation.json"
CA_BUNDLE_PATH = "/etc/tideline/ca/ca.crt"
TERMINATION_LOG = "/dev/termination-log"
ENGINE_UID = 185
CONFIG_MAP_BYTES_MAX = 1_000_000
"""A little less than the limit of Kubernetes."""

_NAME_LENGTH_MAX = 63
_SPARK_PODS_KEY = "spark-pods.json"
_EXECUTOR_KEY = "executor-pod.json"
_SECRET_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_SESSION_TOKEN_KEY = "AWS_SESSION_TOKEN"
_TOKEN_FOLDER = "/var/run/secrets/tideline.dev/identity"
_TOKEN_FILE = "token"
_TOKEN_S = 3_600
_SMALL_MEMORY_BYTES = 512 * 1024 * 1024
STAYS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""A driver is started once: scaling a cluster down must not cost what it has done."""
_TMP = {"name": "tmp", "emptyDir": {}}


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """The same for every Job. `grace_s` is how long a stopped driver may take to undo its write;
    `pod_template` and `spark_conf` are under those of a table."""

    image: str
    pull_policy: str = "IfNotPresent"
    service_account: str = "tideline-engine"
    ttl_s: int = 3_600
    grace_s: int = 60
    deadline_s: int | None = None
    pod_template: Mapping[str, Any] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreSecrets:
    """Secrets the pods of a table read: the one with credentials, the one with authorities; or the
    identity they have at the STS of a region."""

    credentials: str | None
    authorities: str | None
    identity: StoreWebIdentity | None = None
    region: str = ""


def job_name(operation_id: str, attempt: int) -> str:
    """The name of an attempt's Job; cut at the front, because its end identifies the operation."""
    return f"{operation_id}-{attempt}"[-_NAME_LENGTH_MAX:].lstrip("-")


def moves_rows(operation: Operation) -> bool:
    """Whether the operation needs Spark."""
    match operation.work:
        case IngestFiles():
            return True
        case RunService() | MaintainIceberg():
            return operation.work.service.moves_rows
    return False


def memory_asked_bytes(operation: Operation, table: ResolvedTable) -> int:
    """Memory that the operation's pods may ask for together."""
    resources = table.spec.resources
    driver = memory_bytes(resources.driver.memory)
    if operation.kind is OperationKind.REWRITE_POSITION_DELETES:
        # It moves no rows of the table, but those of delete files.
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
    job: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
            "ttlSecondsAfterFinished": settings.ttl_s,
            "template": _driver_template(operation, table, attempt, settings),
        },
    }
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
    if moves_rows(operation):
        driver = _driver_template(operation, table, attempt, settings)
        executor = _executor_template(operation, table, settings)
        pods = _spark_pods(table, engine_container(driver), settings)
        data[_SPARK_PODS_KEY] = pods.to_json()
        data[_EXECUTOR_KEY] = json.dumps({"apiVersion": "v1", "kind": "Pod", **executor})
    size = sum(len(text.encode()) for text in data.values())
    if size > CONFIG_MAP_BYTES_MAX:
        raise ConfigError(
            f"the operation has {size:,} bytes, a ConfigMap holds {CONFIG_MAP_BYTES_MAX:,}: lower "
            "maxFilesPerCommit of the ingest"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(operation, table, attempt, owner),
        "immutable": True,
        "data": data,
    }


def owner_reference(owner: Manifest) -> Manifest:
    """A reference that makes `owner` the controller of an object, without blocking its deletion."""
    kind = owner.get("kind", "LakeTable")
    return {
        "apiVersion": owner.get("apiVersion", API_VERSION),
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


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
    operation: Operation, table: ResolvedTable, attempt: int, settings: LaunchSettings
) -> Manifest:
    resources = table.spec.resources
    if moves_rows(operation):
        memory = spark_memory_bytes(resources.driver.memory, "spec.resources.driver.memory")
        spark_memory_bytes(resources.executor.memory, "spec.resources.executor.memory")
    else:
        memory = memory_asked_bytes(operation, table)
    secrets = store_secrets(table)
    labels = {**labels_of(operation, table), ROLE_LABEL: DRIVER_ROLE}
    required = required_parts(labels, secrets)
    config_map = {"name": "operation", "configMap": {"name": job_name(operation.id, attempt)}}
    required["spec"]["volumes"].append(config_map)
    required["spec"]["restartPolicy"] = "Never"
    container = required["spec"]["containers"][0]
    container |= {
        "command": None,
        "args": ["tideline", "execute", "--operation", f"{OPERATION_FOLDER}/{OPERATION_KEY}"],
        "resources": {
            "requests": {"memory": memory_text(memory)} | disk_of(resources.driver),
            "limits": {"memory": memory_text(memory)} | disk_of(resources.driver),
        },
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    }
    container["env"] += _driver_variables(operation, settings)
    catalog = table.spec.catalog
    if catalog is not None and catalog.credentials is not None:
        container["envFrom"] = [{"secretRef": {"name": catalog.credentials.secret_name}}]
    mount = {"name": "operation", "mountPath": OPERATION_FOLDER, "readOnly": True}
    container["volumeMounts"].append(mount)
    proposed = proposed_parts(settings, has_api_access=moves_rows(operation))
    proposed["metadata"] = {"annotations": dict(STAYS)}
    proposed["spec"]["terminationGracePeriodSeconds"] = settings.grace_s
    asked = engine_container(proposed)
    asked["imagePullPolicy"] = settings.pull_policy
    asked["resources"] = {"requests": {"cpu": resources.driver.cpu}}
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
    if disk := disk_of(table.spec.resources.executor):
        container["resources"] = {"requests": disk, "limits": disk}
    return layered(proposed_parts(settings, has_api_access=False), table, required, settings)


def layered(
    proposed: Manifest, table: ResolvedTable, required: Manifest, settings: LaunchSettings
) -> Manifest:
    """Our defaults, the operator's template, the table's, and what is required, upwards."""
    users = confined_template(table.spec.pod_template, settings.pod_template)
    template: Manifest = overlay(overlay(proposed, settings.pod_template), users)
    whole: Manifest = overlay(template, required)
    return whole


def disk_of(resources: DriverResources | ExecutorResources) -> dict[str, str]:
    given = resources.ephemeral_storage
    return {} if given is None else {"ephemeral-storage": given}


def proposed_parts(settings: LaunchSettings, *, has_api_access: bool) -> Manifest:
    """Defaults that `spec.podTemplate` may change: they satisfy the restricted Pod Security
    Standard, on a file system that is read-only except for /tmp."""
    return {
        "spec": {
            "serviceAccountName": settings.service_account,
            "automountServiceAccountToken": has_api_access,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": ENGINE_UID,
                "runAsGroup": ENGINE_UID,
                "fsGroup": ENGINE_UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER_NAME,
                    "image": settings.image,
                    "workingDir": "/tmp",
                    "securityContext": {**CONFINED, "readOnlyRootFilesystem": True},
                }
            ],
            "volumes": [_TMP],
        },
    }


def required_parts(labels: Mapping[str, str], secrets: StoreSecrets) -> Manifest:
    """What is required in drivers and executors."""
    variables = [{"name": "HOME", "value": "/tmp"}]
    mounts: list[Manifest] = [{"name": "tmp", "mountPath": "/tmp"}]
    volumes: list[Manifest] = []
    if secrets.credentials is not None:
        variables += [_from_secret(key, secrets.credentials) for key in _SECRET_KEYS]
        variables.append(_from_secret(_SESSION_TOKEN_KEY, secrets.credentials, optional=True))
    if secrets.identity is not None:
        variables += _identity_variables(secrets.identity, secrets.region)
        mounts.append({"name": "identity", "mountPath": _TOKEN_FOLDER, "readOnly": True})
        volumes.append(_identity_volume(secrets.identity))
    if secrets.authorities is not None:
        folder, _, file = CA_BUNDLE_PATH.rpartition("/")
        variables.append({"name": "AWS_CA_BUNDLE", "value": CA_BUNDLE_PATH})
        mounts.append({"name": "ca", "mountPath": folder, "readOnly": True})
        source = {"secretName": secrets.authorities, "items": [{"key": "ca.crt", "path": file}]}
        volumes.append({"name": "ca", "secret": source})
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "containers": [{"name": CONTAINER_NAME, "env": variables, "volumeMounts": mounts}],
            "volumes": volumes,
        },
    }


def _driver_variables(operation: Operation, settings: LaunchSettings) -> list[Manifest]:
    fields = {"POD_UID": "metadata.uid"}
    variables: list[Manifest] = [
        {"name": "TIDELINE_GRACE_S", "value": str(settings.grace_s)},
        {"name": "TIDELINE_TERMINATION_LOG", "value": TERMINATION_LOG},
    ]
    if moves_rows(operation):
        path = f"{OPERATION_FOLDER}/{_SPARK_PODS_KEY}"
        variables.append({"name": SPARK_PODS_VARIABLE, "value": path})
        fields |= {
            "POD_NAME": "metadata.name",
            "POD_NAMESPACE": "metadata.namespace",
            "POD_IP": "status.podIP",
        }
    downward = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    return variables + downward


def _from_secret(key: str, secret: str, *, optional: bool = False) -> Manifest:
    reference: Manifest = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": key, "valueFrom": {"secretKeyRef": reference}}


def _identity_variables(identity: StoreWebIdentity, region: str) -> list[dict[str, str]]:
    given = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{_TOKEN_FOLDER}/{_TOKEN_FILE}",
        "AWS_ROLE_ARN": identity.role_arn,
        "AWS_REGION": region,
    }
    if identity.sts_endpoint is not None:
        given["AWS_ENDPOINT_URL_STS"] = identity.sts_endpoint.rstrip("/")
    return [{"name": name, "value": value} for name, value in given.items()]


def _identity_volume(identity: StoreWebIdentity) -> Manifest:
    """The kubelet renews the token long before it ends."""
    token = {
        "audience": identity.audience,
        "expirationSeconds": _TOKEN_S,
        "path": _TOKEN_FILE,
    }
    return {"name": "identity", "projected": {"sources": [{"serviceAccountToken": token}]}}


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


def spark_memory_bytes(text: str, field: str) -> int:
    size_bytes = memory_bytes(text)
    if size_bytes < MEMORY_BYTES_MIN:
        raise ConfigError(
            f"{field}: {text} is not enough for Java and Python together; "
            f"give at least {memory_text(MEMORY_BYTES_MIN)}"
        )
    return size_bytes


def store_secrets(table: ResolvedTable) -> StoreSecrets:
    """The Secrets of the table's stores. Raises ConfigError when two stores name different ones:
    a process has one set of credentials."""
    credentials: dict[str | None, str] = {}
    authorities: dict[str, str] = {}
    identities: dict[StoreWebIdentity | None, str] = {}
    region = ""
    for name, store in table.stores.items():
        identities.setdefault(store.web_identity, name)
        region = region or store.region
        credentials.setdefault(store.credentials.secret_name if store.credentials else None, name)
        if store.tls is not None:
            authorities.setdefault(store.tls.ca_secret_name, name)
    for given, found in (
        ("webIdentity", identities),
        ("credentials", credentials),
        ("tls", authorities),
    ):
        if len(found) > 1:
            stores = ", ".join(sorted(found.values()))
            same = "have the same one" if given == "webIdentity" else "name the same Secret"
            raise ConfigError(
                f"spec.ingest: the LakeStores {stores} differ in spec.{given}; those of one table "
                f"must {same}"
            )
    return StoreSecrets(
        next(iter(credentials), None),
        next(iter(authorities), None),
        next(iter(identities), None),
        region,
    )


def in_pod(operation: Operation) -> Operation:
    """The operation with the path that the CA file has in the pod."""
    table = replace(operation.table, location=_place_in_pod(operation.table.location))
    work = operation.work
    if isinstance(work, IngestFiles):
        work = replace(work, landing=_place_in_pod(work.landing))
    return replace(operation, table=table, work=work)


def _place_in_pod(place: Place) -> Place:
    options: Mapping[str, str] = dict(place.options)
    if "ca_bundle" in options:
        options = {**options, "ca_bundle": CA_BUNDLE_PATH}
    return Place(place.uri, tuple(sorted(options.items())))
