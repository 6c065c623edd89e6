"""The XML API of Google Cloud Storage, as far as obstore uses it, in memory on the loopback
interface, and of its JSON API what Spark reads by.

As at Google's, listings show no generation, and a delete of an object that is not there is answered
with 404.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping

from tideline.testing import gcs_json_api
from tideline.testing.object_server import (
    ObjectBucket,
    ObjectHandler,
    ObjectServer,
    StoredObject,
)


class _Handler(ObjectHandler):
    prefix = "x-goog-"

    def refusal(self, key: str, query: Mapping[str, str]) -> tuple[int, str] | None:  # noqa: ARG002
        is_admitted = self.served.admits(self.headers.get("Authorization", ""))
        return None if is_admitted else (401, "AuthenticationRequired")

    def answers_otherwise(self, path: str, query: Mapping[str, str]) -> bool:
        resource = gcs_json_api.resource_of(path)
        if resource is None:
            return False
        bucket = self.served.buckets.get(resource[0])
        refusal = self.refusal("", query) or (None if bucket else (404, "NoSuchBucket"))
        if refusal is not None:
            self.refuse(*refusal)
        else:
            gcs_json_api.answer(self, bucket, resource, query)
        return True

    def holds(self, there: StoredObject | None) -> bool:
        wanted = self.headers.get("x-goog-if-generation-match")
        return wanted is None or int(wanted) == (there.generation if there else 0)

    def shown(self, found: StoredObject) -> dict[str, str]:
        size = str(len(found.body))
        return {
            "x-goog-generation": str(found.generation),
            "x-goog-stored-content-length": size,
        }

    def delete(self, bucket: ObjectBucket, key: str) -> None:
        with bucket.lock:
            gone = bucket.objects.pop(key, None)
        self.answer(204) if gone else self.refuse(404, "NoSuchKey")


class GcsServer(ObjectServer):
    """Serves `buckets` to requests with the bearer token `token`, or with one that the service
    account `account` signed itself, or to all without either."""

    handler = _Handler

    def __init__(self, *buckets: str, token: str | None = None, account: str | None = None) -> None:
        self.token = token
        self.account = account
        super().__init__(*buckets)

    def storage_options(self) -> Mapping[str, str]:
        """What `StoreLocation.of` needs to reach this server."""
        return {"gcs_endpoint": self.url, "allow_http": "true"}

    def environment(self) -> Mapping[str, str]:
        """Credentials for it, as clients look for them."""
        return {"GOOGLE_BEARER_TOKEN": self.token} if self.token else {"GOOGLE_SKIP_SIGNATURE": "1"}

    def admits(self, authorization: str) -> bool:
        """Whether requests with this header are served."""
        if self.account is not None:
            return signer_of(authorization) == self.account
        return self.token is None or authorization == f"Bearer {self.token}"


def signer_of(authorization: str) -> str:
    """The service account that signed a token of its own; empty for other headers."""
    _, _, token = authorization.partition("Bearer ")
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    return str(claims.get("iss", ""))


def service_account_key(account: str) -> str:
    """A key of a service account, made by openssl."""
    made = subprocess.run(["openssl", "genrsa", "2048"], check=True, capture_output=True, text=True)
    key = {"type": "service_account", "client_email": account, "private_key_id": "1"}
    return json.dumps({**key, "private_key": made.stdout})
