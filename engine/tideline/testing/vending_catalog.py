"""A REST catalog that vends credentials of a MinIO, which really end.

    with VendingCatalog(minio, bucket, life_s=30) as catalog:
        catalog.create("shop.orders", f"s3://{bucket}/orders")

Each answer about a table has credentials of its own, from the MinIO's STS, for the table's folder
alone. When their life is over their user is removed: from then on the MinIO refuses them.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from minio.credentials.providers import AssumeRoleProvider
from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, Capability

from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.minio_server import MinioServer
from tideline.testing.minio_users import MinioUsers, Right
from tideline.testing.served_catalog import ServedCatalog

_CREDENTIALS = "/credentials"


class VendingCatalog(ServedCatalog):
    """See the module. `vended` are the secrets and tokens of all answers. `prefix_of` gives the
    prefix that the credentials of a location are for; `alter` changes an answer's properties."""

    def __init__(
        self, server: MinioServer, bucket: str, *, life_s: float, has_endpoint: bool = True
    ) -> None:
        super().__init__()
        self.vended: list[str] = []
        self.rights = Right.ALL
        self.prefix_of: Callable[[str], str] = lambda location: location
        self.changed: Callable[[dict[str, str]], dict[str, str]] = dict
        self._minio, self._bucket, self.life_s = server, bucket, life_s
        self._has_endpoint = has_endpoint
        self._users = MinioUsers(server.address, server.access_key, server.secret_key)
        self._timers: list[threading.Timer] = []

    def stop_vending(self) -> None:
        """What was vended ends with the server."""
        for timer in self._timers:
            timer.cancel()

    def store(self, location: str) -> ObjectStore:
        place = StoreLocation.of(location, self._minio.storage_options())
        keys = S3Credentials(self._minio.access_key, self._minio.secret_key)
        return place.open(StoreConnection(keys))

    def honest(self, request: Received) -> Answer:
        if request.kind == "config":
            endpoints = set(map(str, DEFAULT_ENDPOINTS))
            if self._has_endpoint:
                endpoints.add(str(Capability.V1_LOAD_CREDENTIALS))
            document = {"defaults": {}, "overrides": {}, "endpoints": sorted(endpoints)}
            return Answer().saying(document)
        is_asked_alone = request.path.endswith(_CREDENTIALS)
        answer = super().honest(replace(request, path=request.path.removesuffix(_CREDENTIALS)))
        is_of_table = request.kind == "table" or (
            request.kind == "tables" and request.method == "POST"
        )
        if not is_of_table or answer.status != 200 or not _is_asked(request):
            return answer
        location = answer.document["metadata"]["location"]
        entry = {"prefix": self.prefix_of(location), "config": self.vend(location)}
        whole = {} if is_asked_alone else answer.document
        return answer.saying({**whole, "storage-credentials": [entry]})

    def vend(self, location: str) -> dict[str, str]:
        """New credentials for a folder, as properties of a client."""
        user = self._users.add({self._bucket: self.rights})
        found = AssumeRoleProvider(
            sts_endpoint=self._minio.endpoint,
            access_key=user.access_key,
            secret_key=user.secret_key,
            duration_seconds=900,
            policy=_only(location),
            role_session_name=secrets.token_hex(4),
        ).retrieve()
        timer = threading.Timer(self.life_s, self._users.remove, [user])
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
        self.vended += [found.secret_key, str(found.session_token)]
        given = {
            "s3.access-key-id": found.access_key,
            "s3.secret-access-key": found.secret_key,
            "s3.session-token": str(found.session_token),
            "s3.session-token-expires-at-ms": str(round((time.time() + self.life_s) * 1000)),
            "s3.endpoint": self._minio.endpoint,
            "s3.path-style-access": "true",
            "client.region": "us-east-1",
        }
        return self.changed(given)


def _is_asked(request: Received) -> bool:
    return request.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials"


def _only(location: str) -> str:
    """A session's policy: the objects below a folder of S3, and their listing."""
    place = location.removeprefix("s3://")
    bucket, _, path = place.partition("/")
    objects = {"Effect": "Allow", "Action": ["s3:*"], "Resource": [f"arn:aws:s3:::{place}/*"]}
    listing = {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{bucket}"],
        "Condition": {"StringLike": {"s3:prefix": [path, f"{path}/*"]}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [objects, listing]})
