"""The world of a walk: buckets of a MinIO, Secrets, rights of the operator, files that land.

What of it is broken at a moment is remembered here, because the operator may see it only later.
"""

from __future__ import annotations

import base64
import copy
import io
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tideline.ingest.location import Location
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline_operator.api_objects import (
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    ApiResource,
    Manifest,
)
from tideline_operator.controller.namespace_access import NAMESPACE_ROLE
from tideline_operator.kube import KubeApi
from tideline_operator.resources.metadata import PAUSED_ANNOTATION
from tideline_operator.testing.api_server_fixtures import open_namespace

ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "roles", "Role")
CLUSTER_ROLES = ApiResource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", is_namespaced=False
)
KEYS = "keys"
_BINDING, _LESS = "tideline", "tideline-less"
Right = tuple[int, str]
"""Which rule of the role, and a verb of it."""


MakeIceberg = Callable[[str], object]
"""Makes a table of Iceberg's in a folder."""


class S3Server(Protocol):
    """A server of buckets."""

    access_key: str
    secret_key: str

    @property
    def endpoint(self) -> str: ...

    def environment(self) -> Mapping[str, str]: ...

    def storage_options(self) -> Mapping[str, str]: ...

    def client(self) -> Any: ...

    def create_bucket(self, name: str | None = None) -> str: ...

    def drop_bucket(self, name: str) -> None: ...


class LakeWorld:
    """What surrounds the resources of one namespace, for one walk."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        minio: S3Server,
        make_iceberg: MakeIceberg,
        folder: Path,
        name: str,
    ) -> None:
        self._make_iceberg = make_iceberg
        self._api = api
        self._namespace = namespace
        self._minio = minio
        self._client = minio.client()
        self._credentials = S3Credentials(minio.access_key, minio.secret_key)
        self.warehouse = folder / name / "warehouse"
        self.lake, self.landing = f"{name}-lake", f"{name}-landing"
        self.right_keys = False
        self.taken_right: Right | None = None
        self.is_namespace_paused = False

    @property
    def endpoint(self) -> str:
        return self._minio.endpoint

    @property
    def buckets(self) -> set[str]:
        """Those that are there; the engine makes some as well."""
        return {str(bucket.name) for bucket in self._client.list_buckets()}

    @property
    def is_open(self) -> bool:
        """Whether the operator has all its rights."""
        return self.taken_right is None

    def set_up(self) -> None:
        """Everything is there and right."""
        for bucket in (self.lake, self.landing):
            self.make_bucket(bucket)
        self.write_keys(is_right=True)
        self.give_rights()
        self.pause(is_paused=False)

    def tear_down(self) -> None:
        """Nothing is left of it but the namespace."""
        for bucket in (self.lake, self.landing):
            self.drop_bucket(bucket)
        shutil.rmtree(self.warehouse, ignore_errors=True)

    def open_store(self, place: Location) -> ObjectStore:
        """A place with the right keys, as pods have them."""
        connection = StoreConnection(self._credentials)
        return StoreLocation.of(place.uri, dict(place.options)).open(connection)

    def make_bucket(self, name: str) -> None:
        """A bucket, empty if it is new."""
        if name not in self.buckets:
            self._minio.create_bucket(name)

    def drop_bucket(self, name: str) -> None:
        """A bucket is deleted with all that is in it."""
        if name in self.buckets:
            self._minio.drop_bucket(name)

    def has_bucket_of(self, uri: str) -> bool:
        """Whether the bucket that a URI names is there."""
        return uri.removeprefix("s3://").partition("/")[0] in self.buckets

    def objects_below(self, uri: str) -> list[str]:
        """The paths of what is there, relative to `uri`; nothing where there is no bucket."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        if bucket not in self.buckets:
            return []
        below = f"{prefix.rstrip('/')}/"
        found = self._client.list_objects(bucket, prefix=below, recursive=True)
        return [str(item.object_name).removeprefix(below) for item in found]

    def files_in(self, uri: str, file_format: FileFormat) -> tuple[ArrivedFile, ...]:
        """What lies in a landing prefix, as the operator and the engine see it."""
        if not self.has_bucket_of(uri):
            return ()
        place = Location(uri, tuple(self._minio.storage_options().items()))
        return list_arrived(self.open_store(place), file_format).files

    def land(self, uri: str, name: str) -> None:
        """A file lands, if its bucket is there."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        if bucket in self.buckets:
            path = f"{prefix.rstrip('/')}/{name}"
            self._client.put_object(bucket, path, io.BytesIO(b"rows"), len(b"rows"))

    def write_keys(self, *, is_right: bool) -> None:
        """The Secret that the LakeStore names, right or not."""
        keys = dict(self._minio.environment())
        if not is_right:
            keys = {name: f"not-{text}" for name, text in keys.items()}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in keys.items()}
        secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEYS}}
        self._api.apply(SECRETS, {**secret, "data": data}, self._namespace)
        self.right_keys = is_right

    def drop_keys(self) -> None:
        """There is no such Secret."""
        self._api.delete(SECRETS, KEYS, self._namespace)
        self.right_keys = False

    def rights(self) -> list[Right]:
        """All rights that the operator has in a namespace that lets it in."""
        rules = self._rules()
        return [(number, verb) for number, rule in enumerate(rules) for verb in rule["verbs"]]

    def take_right(self, right: Right) -> str:
        """The operator has all rights but this one in the namespace; says which it is."""
        rules, (number, verb) = self._rules(), right
        rules[number]["verbs"].remove(verb)
        named = f"{verb} {', '.join(rules[number]['resources'])}"
        self._bind_less([rule for rule in rules if rule["verbs"]])
        self.taken_right = right
        return named

    def give_rights(self) -> None:
        """As the docs have the administrator of a namespace do it."""
        self._api.delete(ROLE_BINDINGS, _BINDING, self._namespace)
        open_namespace(self._api, self._namespace)
        self.taken_right = None

    def pause(self, *, is_paused: bool) -> None:
        """The annotation of the namespace."""
        annotations = {PAUSED_ANNOTATION: "true" if is_paused else None}
        self._api.patch(NAMESPACES, self._namespace, {"metadata": {"annotations": annotations}})
        self.is_namespace_paused = is_paused

    def make_iceberg(self, name: str) -> None:
        """A table of Iceberg's in the folder of the LakeCatalog."""
        self._make_iceberg(str(self.warehouse / name.replace(".", "/")))

    def drop_iceberg(self, name: str) -> None:
        """That table is dropped with its files."""
        shutil.rmtree(self.warehouse / name.replace(".", "/"))

    def iceberg_tables(self) -> list[str]:
        """Their names."""
        found = self.warehouse.glob("*/*/metadata")
        return sorted(".".join(path.parent.relative_to(self.warehouse).parts) for path in found)

    def _rules(self) -> list[dict[str, Any]]:
        role = self._api.get(CLUSTER_ROLES, NAMESPACE_ROLE)
        assert role is not None
        return copy.deepcopy(list(role["rules"]))

    def _bind_less(self, rules: list[dict[str, Any]]) -> None:
        role: Manifest = {
            "apiVersion": ROLES.api_version,
            "kind": ROLES.kind,
            "metadata": {"name": _LESS},
            "rules": rules,
        }
        self._api.apply(ROLES, role, self._namespace)
        binding = self._api.get(ROLE_BINDINGS, _BINDING, self._namespace)
        assert binding is not None
        self._api.delete(ROLE_BINDINGS, _BINDING, self._namespace)
        lesser: Manifest = {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {"name": _BINDING},
            "roleRef": {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": _LESS},
            "subjects": binding["subjects"],
        }
        self._api.create(ROLE_BINDINGS, lesser, self._namespace)
