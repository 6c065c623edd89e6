"""Requests to a Kubernetes API server and its answers as values: resources, events, errors.

Objects are plain JSON (`Manifest`), never models of an SDK, so that everything but the client in
`kube.py` can be tested and reasoned about without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.errors import TidelineError

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind of object and where the API serves it; an empty `group` is the core group."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of one object or, without a `name`, of all (in a namespace or everywhere)."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [part for part in (self.plural, name, subresource) if part]
        return f"{root}{within}/{'/'.join(parts)}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


LAKE_TABLES = ApiResource("tideline.dev", "v1alpha1", "laketables", "LakeTable")
LAKE_STORES = ApiResource("tideline.dev", "v1alpha1", "lakestores", "LakeStore")
LAKE_CATALOGS = ApiResource("tideline.dev", "v1alpha1", "lakecatalogs", "LakeCatalog")
LAKE_SOURCES = ApiResource("tideline.dev", "v1alpha1", "lakesources", "LakeSource")
JOBS = ApiResource("batch", "v1", "jobs", "Job")
PODS = ApiResource("", "v1", "pods", "Pod")
CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap")
SECRETS = ApiResource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ApiResource("", "v1", "serviceaccounts", "ServiceAccount")
NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", is_namespaced=False)
EVENTS = ApiResource("", "v1", "events", "Event")
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", "Lease")
ROLE_BINDINGS = ApiResource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CUSTOM_RESOURCE_DEFINITIONS = ApiResource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    is_namespaced=False,
)


class WatchKind(Enum):
    """What a watch reports. A BOOKMARK only carries a newer resource version."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change of one object."""

    kind: WatchKind
    object: Manifest


@dataclass(frozen=True, slots=True)
class Created:
    """The object is new."""

    object: Manifest


@dataclass(frozen=True, slots=True)
class Exists:
    """An object of that name existed already; nothing was written."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The object was as expected, and is now `object`."""

    object: Manifest


@dataclass(frozen=True, slots=True)
class Stale:
    """Another client changed or deleted the object since it was read; nothing was written."""


class ApiUnavailableError(TidelineError):
    """The API server was unreachable, busy or failed; a retry may help.

    `retry_after_s` is the delay that the server asked for, if any.
    """

    exit_code = 4

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ApiRefusedError(TidelineError):
    """The API server refused, and would again: `status` (403, 404, 422, ...) and `reason`.

    `message` is the server's own, written for people.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_missing(self) -> bool:
        """The object, its namespace or its kind does not exist."""
        return self.status == 404


class LeadershipLostError(TidelineError):
    """Another controller may be the leader by now: this one must stop writing."""

    exit_code = 4


class ExpiredError(TidelineError):
    """The resource version is too old to watch from: list again."""
