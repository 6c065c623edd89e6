"""A REST catalog of Iceberg tables in the cluster, whose files are in a lake's bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

from e2e.harness.installation import IMAGES
from e2e.harness.lake import SECRET, Lake
from e2e.harness.server_pod import ServerPod, from_secret

NAME, PORT = "rest-catalog", 8181
CREDENTIALS = "catalog-credentials"
_SERVER = Path(__file__).with_name("rest_catalog_server.py")


class ClusterCatalog:
    """The catalog of one namespace. `spec` is what a LakeTable says of it."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.token = secrets.token_urlsafe(24)
        self._pod = ServerPod(
            lake.cluster,
            lake.namespace,
            NAME,
            _SERVER,
            image=IMAGES["tideline-engine"],
            port=PORT,
            environment=[
                {"name": "CATALOG_S3_ENDPOINT", "value": lake.minio.endpoint},
                from_secret("CATALOG_TOKEN", CREDENTIALS, "PYICEBERG_CATALOG__LAKE__TOKEN"),
                *(from_secret(name, SECRET, name) for name in lake.minio.credentials),
            ],
        )

    def start(self) -> None:
        """Run it, and wait until it answers."""
        self._lake.apply_secret({"PYICEBERG_CATALOG__LAKE__TOKEN": self.token}, CREDENTIALS)
        self._pod.start()

    def spec(self, table: str) -> dict[str, Any]:
        """`catalog` of a LakeTable."""
        return {
            "type": "rest",
            "name": "lake",
            "uri": self._pod.endpoint,
            "table": table,
            "credentials": {"secretName": CREDENTIALS},
        }

    def log(self) -> str:
        """What it was asked."""
        return self._pod.log()

    @contextmanager
    def opened(self) -> Iterator[RestCatalog]:
        """It, as PyIceberg reads from outside."""
        cluster, namespace = self._lake.cluster, self._lake.namespace
        with cluster.forwarded(namespace, f"service/{NAME}", PORT) as address:
            yield RestCatalog(
                "lake", uri=address, token=self.token, **self._lake.minio.iceberg_properties()
            )
