"""What pods of drivers, executors and workers have in common, and the objects around them. Pure.

1. A pod is composed of four layers: our defaults, those of the operator's settings,
   `spec.podTemplate`, and what is required.
2. Credentials appear as references to the Secret of the LakeStore and nowhere else.
3. There is never a second pod for one Job: it is not restarted, the Job does not retry, a pod that
   is terminating is not replaced, and a disruption fails the Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.executors.kubernetes_pods import (
    CONTAINER_NAME,
    MEMORY_BYTES_MIN,
)
from tideline.own_process import ALLOCATION
from tideline.storage.egress.client_files import (
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ClientFiles,
)
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.pod_template import (
    CONFINED,
    confined_template,
    engine_container,
    overlay,
)
from tideline_operator.resources.lake_store import StoreWebIdentity
from tideline_operator.resources.lake_table import PodResources
from tideline_operator.resources.metadata import API_VERSION
from tideline_operator.resources.quantity import memory_bytes, memory_text
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.store_families import CERTIFICATE_KEYS, FAMILIES

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "tideline-operator"
KUEUE_PREFIX = "kueue.x-k8s.io/"
"""Of labels by which Kueue queues a Job: its local queue, its priority class."""
CA_BUNDLE_PATH = "/etc/tideline/ca/ca.crt"
_CLIENT_FOLDER = "/etc/tideline/client"
CLIENT_FILES = ClientFiles(*(f"{_CLIENT_FOLDER}/{key}" for key in CERTIFICATE_KEYS))
"""The certificate that is shown to the store."""
TERMINATION_LOG = "/dev/termination-log"
ENGINE_UID = 185
CONFIG_MAP_BYTES_MAX = 1_000_000
"""A little less than the limit of Kubernetes."""
_CREDENTIALS_FOLDER = "/etc/tideline/credentials"
_TOKEN_FOLDER = "/var/run/secrets/tideline.dev/identity"
_TOKEN_FILE = "token"
_TOKEN_S = 3_600
STAYS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""A driver is started once: scaling a cluster down must not cost what it has done."""
_TMP = {"name": "tmp", "emptyDir": {}}
POD_FIELDS = {
    "POD_UID": "metadata.uid",
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "POD_IP": "status.podIP",
}


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """The same for every Job. `grace_s` is how long a stopped driver may take to undo its write;
    `pod_template` and `spark_conf` are under those of a table. `tracing` are variables of
    OpenTelemetry."""

    image: str
    pull_policy: str = "IfNotPresent"
    service_account: str = "tideline-engine"
    ttl_s: int = 3_600
    grace_s: int = 60
    deadline_s: int | None = None
    pod_template: Mapping[str, Any] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    tracing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreSecrets:
    """Secrets the pods of a table read: the one with credentials of a store of that `scheme`, the
    one with authorities, the one with the certificate to show; or the identity they have at the STS
    of a region."""

    credentials: str | None
    authorities: str | None
    identity: StoreWebIdentity | None = None
    region: str = ""
    scheme: str = "s3"
    client: str | None = None


def one_pod_job(metadata: Manifest, template: Manifest, settings: LaunchSettings) -> Manifest:
    """A Job that starts one pod, once.

    Labels of its pod that are Kueue's are the Job's as well: Kueue queues Jobs by them.
    """
    pod_labels = template["metadata"].get("labels", {})
    queue = {name: text for name, text in pod_labels.items() if name.startswith(KUEUE_PREFIX)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": {**queue, **metadata["labels"]}},
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
            "template": template,
        },
    }


def config_map(metadata: Manifest, data: Mapping[str, str]) -> Manifest:
    """An immutable ConfigMap. Raises ConfigError when the operation in it is too large."""
    size = sum(len(text.encode()) for text in data.values())
    if size > CONFIG_MAP_BYTES_MAX:
        raise ConfigError(
            f"the operation has {size:,} bytes, a ConfigMap holds {CONFIG_MAP_BYTES_MAX:,}: lower "
            "maxFilesPerCommit of the ingest"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
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


def required_container(
    required: Manifest, table: ResolvedTable, arguments: Sequence[str], memory_bytes: int
) -> Manifest:
    """The container of `required`, completed as that of a driver, the only one."""
    required["spec"]["restartPolicy"] = "Never"
    container: Manifest = required["spec"]["containers"][0]
    sizes = {"memory": memory_text(memory_bytes)} | disk_of(table.spec.resources.driver)
    container |= {
        "command": None,
        "args": list(arguments),
        "resources": {"requests": sizes, "limits": dict(sizes)},
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
    }
    container["env"] += source_variables(table, table.spec.source_secret_keys)
    container |= catalog_variables(table)
    return container


def catalog_variables(table: ResolvedTable) -> Manifest:
    """What the credentials of the table's catalog add to a container."""
    catalog = table.spec.catalog
    if catalog is None or catalog.credentials is None:
        return {}
    return {"envFrom": [{"secretRef": {"name": catalog.credentials.secret_name}}]}


def source_variables(table: ResolvedTable, keys: Iterable[str]) -> list[Manifest]:
    """What reads the table's sources has their credentials, under these names."""
    secret = table.spec.source_secret
    if secret is None:
        return []
    return [_from_secret(key, secret, optional=True) for key in keys]


def proposed_container(
    proposed: Manifest, table: ResolvedTable, settings: LaunchSettings
) -> Manifest:
    """The container of `proposed`, completed as that of a driver."""
    proposed["metadata"] = {"annotations": dict(STAYS)}
    proposed["spec"]["terminationGracePeriodSeconds"] = settings.grace_s
    asked = engine_container(proposed)
    asked["imagePullPolicy"] = settings.pull_policy
    asked["resources"] = {"requests": {"cpu": table.spec.resources.driver.cpu}}
    if settings.tracing:
        asked["env"] = [{"name": key, "value": text} for key, text in settings.tracing.items()]
    return asked


def layered(
    proposed: Manifest, table: ResolvedTable, required: Manifest, settings: LaunchSettings
) -> Manifest:
    """Our defaults, the operator's template, the table's, and what is required, upwards."""
    users = confined_template(table.spec.pod_template, settings.pod_template)
    template: Manifest = overlay(overlay(proposed, settings.pod_template), users)
    whole: Manifest = overlay(template, required)
    return whole


def disk_of(resources: PodResources) -> dict[str, str]:
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
                    "env": [{"name": name, "value": text} for name, text in ALLOCATION.items()],
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
        keys = FAMILIES[secrets.scheme]
        variables += [_from_secret(key, secrets.credentials) for key in keys.required]
        variables += [
            _from_secret(key, secrets.credentials, optional=True) for key in keys.optional
        ]
        variables += [
            {"name": name, "value": f"{_CREDENTIALS_FOLDER}/{key}"} for key, name in keys.files
        ]
        if keys.files:
            mounts.append(
                {"name": "credentials", "mountPath": _CREDENTIALS_FOLDER, "readOnly": True}
            )
            items = [{"key": key, "path": key} for key, _ in keys.files]
            source = {"secretName": secrets.credentials, "items": items}
            volumes.append({"name": "credentials", "secret": source})
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
    if secrets.client is not None:
        paths = zip(
            (CERTIFICATE_VARIABLE, KEY_VARIABLE), CLIENT_FILES.options.values(), strict=True
        )
        variables += [{"name": name, "value": path} for name, path in paths]
        mounts.append({"name": "client", "mountPath": _CLIENT_FOLDER, "readOnly": True})
        items = [{"key": key, "path": key} for key in CERTIFICATE_KEYS]
        source = {"secretName": secrets.client, "items": items}
        volumes.append({"name": "client", "secret": source})
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "containers": [{"name": CONTAINER_NAME, "env": variables, "volumeMounts": mounts}],
            "volumes": volumes,
        },
    }


def from_pod(name: str) -> Manifest:
    """A variable that says of the pod what its name says."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": POD_FIELDS[name]}}}


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
    clients: dict[str | None, str] = {}
    region, schemes = "", {"s3": ""} if not table.stores else {}
    for name, store in table.stores.items():
        schemes.setdefault(store.scheme, name)
        identities.setdefault(store.web_identity, name)
        region = region or store.region
        credentials.setdefault(store.credentials.secret_name if store.credentials else None, name)
        if store.tls is not None:
            authorities.setdefault(store.tls.ca_secret_name, name)
        shown = store.client_certificate
        clients.setdefault(None if shown is None else shown.secret_name, name)
    if len(schemes) > 1:
        raise ConfigError(
            f"spec.ingest: the LakeStores {', '.join(sorted(schemes.values()))} are of different "
            "kinds; those of one table must be of one"
        )
    for given, found in (
        ("webIdentity", identities),
        ("credentials", credentials),
        ("tls", authorities),
        ("clientCertificate", clients),
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
        next(iter(schemes)),
        next(iter(clients), None),
    )
