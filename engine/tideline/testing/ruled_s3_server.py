"""S3 in memory on the loopback interface, with rules that buckets of some users have and MinIO has
not: headers that a policy demands, tokens that end, a path before the buckets, requester pays,
versions that stay, deletes that are denied.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tideline.testing.object_server import (
    ObjectBucket,
    ObjectHandler,
    ObjectServer,
    StoredObject,
)

_DENIED = (403, "AccessDenied")


@dataclass(slots=True)
class S3Rules:
    """May be changed while the server runs.

    - `demanded`: headers, with values, of all that makes an object: PUTs, copies, starts of uploads
      in parts; a value of None is any.
    - `tokens`: those that are taken, None for all. `path`: what stands before buckets in URLs.
      `bucket_of_host`: the bucket that the server's name says, so that paths have none.
    - `requester_pays`: every request says so. `keeps_versions`: deletes and replacements leave what
      was there. `keeps`: whether the delete of a key is denied.
    - `takes_backslashes_for_slashes`: in names, as SeaweedFS does unless told otherwise. `answer`:
      status and code for all requests.
    """

    demanded: Mapping[str, str | None] = field(default_factory=dict)
    tokens: set[str] | None = None
    path: str = ""
    bucket_of_host: str = ""
    requester_pays: bool = False
    keeps_versions: bool = False
    keeps: Callable[[str], bool] = lambda _: False
    takes_backslashes_for_slashes: bool = False
    answer: tuple[int, str] | None = None


class _Handler(ObjectHandler):
    served: RuledS3Server

    def place(self, path: str) -> tuple[str, str]:
        below = self.served.rules.path
        if not f"{path}/".startswith(f"{below}/"):
            return "", ""
        bucket = self.served.rules.bucket_of_host
        rest = path[len(below) :] or "/"
        if self.served.rules.takes_backslashes_for_slashes:
            rest = rest.replace("\\", "/")
        return super().place((f"/{bucket}" if bucket else "") + rest)

    def refusal(self, key: str, query: Mapping[str, str]) -> tuple[int, str] | None:
        rules = self.served.rules
        if rules.answer is not None:
            return rules.answer
        token = self.headers.get("x-amz-security-token", "")
        with self.served.lock:
            self.served.tokens_shown.append(token)
        if rules.tokens is not None and token not in rules.tokens:
            return 400, "ExpiredToken"
        if rules.requester_pays and self.headers.get("x-amz-request-payer") != "requester":
            return _DENIED
        makes = self.command == "PUT" if "uploadId" not in query else False
        if key and (makes or "uploads" in query) and not self._has(rules.demanded):
            return _DENIED
        return None

    def holds(self, there: StoredObject | None) -> bool:
        if self.headers.get("If-None-Match") == "*":
            return there is None
        wanted = self.headers.get("If-Match")
        return wanted is None or (there is not None and wanted == there.etag)

    def shown(self, found: StoredObject) -> dict[str, str]:
        number = str(found.generation)
        return {"x-amz-version-id": number} if self.served.rules.keeps_versions else {}

    def stored(
        self, bucket: ObjectBucket, key: str, body: bytes, kept: Mapping[str, str]
    ) -> StoredObject | None:
        there = bucket.objects.get(key)
        found = super().stored(bucket, key, body, kept)
        if found is not None and there is not None:
            self._leave(key, there)
        return found

    def delete(self, bucket: ObjectBucket, key: str) -> None:
        if self._deleted(bucket, key):
            self.answer(204)
        else:
            self.refuse(*_DENIED)

    def post(self, bucket: ObjectBucket, body: bytes) -> None:
        """Deletes of many objects."""
        said = []
        for node in ElementTree.fromstring(body).iter():
            if node.tag.endswith("Key"):
                key = node.text or ""
                name = f"<Key>{escape(key)}</Key>"
                if self._deleted(bucket, key):
                    said.append(f"<Deleted>{name}</Deleted>")
                else:
                    why = "<Code>AccessDenied</Code><Message>Access Denied</Message>"
                    said.append(f"<Error>{name}{why}</Error>")
        self.answer(200, f"<DeleteResult>{''.join(said)}</DeleteResult>".encode())

    def _has(self, demanded: Mapping[str, str | None]) -> bool:
        return all(
            name in self.headers and value in (None, self.headers[name])
            for name, value in demanded.items()
        )

    def _deleted(self, bucket: ObjectBucket, key: str) -> bool:
        if self.served.rules.keeps(key):
            return False
        with bucket.lock:
            gone = bucket.objects.pop(key, None)
        if gone is not None:
            self._leave(key, gone)
        return True

    def _leave(self, key: str, gone: StoredObject) -> None:
        if self.served.rules.keeps_versions:
            with self.served.lock:
                self.served.noncurrent.append((key, gone))


class RuledS3Server(ObjectServer):
    """Serves `buckets` by `rules`, with TLS where it has a certificate and its key. `noncurrent`
    are versions that stayed, `tokens_shown` the session tokens of all requests."""

    handler = _Handler

    def __init__(
        self,
        *buckets: str,
        rules: S3Rules | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.rules = rules or S3Rules()
        self.lock = threading.Lock()
        self.noncurrent: list[tuple[str, StoredObject]] = []
        self.tokens_shown: list[str] = []
        self._scheme = "http" if certificate is None else "https"
        super().__init__(*buckets)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )

    @property
    def endpoint(self) -> str:
        """Its URL, at the name that its certificate may have."""
        port = re.sub(r".*:", "", self.url)
        return f"{self._scheme}://localhost:{port}{self.rules.path}"

    def storage_options(self) -> Mapping[str, str]:
        """What `StoreLocation.of` needs to reach this server."""
        return {"endpoint": self.endpoint, "allow_http": str(self._scheme == "http").lower()}
