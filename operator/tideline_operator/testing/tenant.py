"""A namespace whose LakeTables are on S3 with keys of its own, beside others of one controller."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline_operator.api_objects import LAKE_STORES, SECRETS, Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import SimulatedCluster

STORE, KEYS = "store", "keys"


class Tenant(ControllerCase):
    """The tables of one namespace. Of several tenants one starts the controller, with `namespaces`
    for all."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        folder: Path,
        keys: Mapping[str, str],
        endpoint: str,
    ) -> None:
        """`keys` are the content of the Secret that the LakeStore names."""
        super().__init__(server, namespace, folder)
        self._keys = keys
        self.cluster = SimulatedCluster(self.api, namespace, self._open)
        data = {name: base64.b64encode(text.encode()).decode() for name, text in keys.items()}
        self.api.create(SECRETS, self._named("v1", "Secret", KEYS) | {"data": data}, namespace)
        store = self._named(LAKE_STORES.api_version, LAKE_STORES.kind, STORE)
        spec = {"endpoint": endpoint, "credentials": {"secretName": KEYS}}
        self.api.create(LAKE_STORES, store | {"spec": spec}, namespace)

    def declare_at(self, name: str, location: str, **spec: Any) -> Manifest:
        """A table on the tenant's LakeStore, without ingests."""
        return self.declare(name, storeRef=STORE, location=location, **{"ingest": None, **spec})

    def told(self, name: str) -> str:
        """Everything that the table's owner reads about it: status and events."""
        return f"{self.status(name)}\n{self.event_notes(name)}"

    def _open(self, place: Location) -> ObjectStore:
        connection = StoreConnection(S3Credentials(*self._keys.values()))
        return StoreLocation.of(place.uri, dict(place.options)).open(connection)

    def _named(self, version: str, kind: str, name: str) -> Manifest:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": version, "kind": kind, "metadata": metadata}
