"""The XML API of Google Cloud Storage, as far as obstore uses it, in memory on the loopback
interface.

Conditions on generations and the writes behind them are one step. As at Google's, listings show no
generation, and a delete of an object that is not there is answered with 404.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tideline.testing.loopback_server import LoopbackServer

_KEPT_HEADERS = ("content-type", "cache-control")
_META = "x-goog-meta-"
_PAGE_OBJECTS = 1000
_AFTER_ALL = "\U0010ffff"


class GcsServer(LoopbackServer):
    """Serves `buckets` to requests with the bearer token `token`, or with one that the service
    account `account` signed itself, or to all without either. No signature is checked."""

    def __init__(self, *buckets: str, token: str | None = None, account: str | None = None) -> None:
        self.buckets = {name: _Bucket() for name in buckets}
        self.token = token
        self.account = account
        super().__init__(partial(_Handler, self))

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

    def uploads_under_way(self) -> int:
        """Uploads in parts that were neither completed nor aborted."""
        return sum(len(bucket.uploads) for bucket in self.buckets.values())


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


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    generation: int
    stored_s: float
    kept: Mapping[str, str]

    @property
    def etag(self) -> str:
        """A digest of the bytes, as at Google's: it comes back with the same bytes."""
        return f'"{hashlib.md5(self.body).hexdigest()}"'

    def headers(self) -> dict[str, str]:
        return {
            "ETag": self.etag,
            "x-goog-generation": str(self.generation),
            "x-goog-stored-content-length": str(len(self.body)),
            "Last-Modified": formatdate(self.stored_s, usegmt=True),
            **self.kept,
        }


@dataclass(frozen=True, slots=True)
class _Upload:
    kept: Mapping[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    objects: dict[str, _Object] = field(default_factory=dict)
    uploads: dict[str, _Upload] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(time.time_ns() // 1000))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def store(
        self, key: str, body: bytes, kept: Mapping[str, str], wanted: str | None
    ) -> _Object | None:
        """The new object; None where the generation is not the `wanted` one."""
        with self.lock:
            there = self.objects.get(key)
            if wanted is not None and int(wanted) != (there.generation if there else 0):
                return None
            found = self.objects[key] = _Object(body, next(self.numbers), time.time(), kept)
            return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # One packet an answer.

    def __init__(self, server: GcsServer, *given: object) -> None:
        self._served = server
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        _, name, *below = unquote(parts.path).split("/", 2)
        key = below[0] if below else ""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bucket = self._served.buckets.get(name)
        if not self._served.admits(self.headers.get("Authorization", "")):
            self._refuse(401, "AuthenticationRequired")
        elif bucket is None:
            self._refuse(404, "NoSuchBucket")
        elif not key:
            self._list(bucket, query)
        elif "uploads" in query or "uploadId" in query:
            self._upload(bucket, key, query, body)
        elif self.command == "PUT":
            self._put(bucket, key, body)
        elif self.command == "DELETE":
            with bucket.lock:
                gone = bucket.objects.pop(key, None)
            self._answer(204) if gone else self._refuse(404, "NoSuchKey")
        else:
            self._get(bucket, key)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _put(self, bucket: _Bucket, key: str, body: bytes) -> None:
        kept, source = self._kept(), self.headers.get("x-goog-copy-source")
        if source is not None:
            copied = bucket.objects.get(unquote(source).lstrip("/").split("/", 1)[1])
            if copied is None:
                self._refuse(404, "NoSuchKey")
                return
            body, kept = copied.body, dict(copied.kept)
        self._stored(bucket, key, body, kept, b"" if source is None else b"<CopyObjectResult/>")

    def _upload(self, bucket: _Bucket, key: str, query: Mapping[str, str], body: bytes) -> None:
        if "uploads" in query:
            number = str(next(bucket.numbers))
            bucket.uploads[number] = _Upload(self._kept())
            answer = f"<UploadId>{number}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{answer}"
                         "</InitiateMultipartUploadResult>".encode())  # fmt: skip
        elif self.command == "PUT":
            bucket.uploads[query["uploadId"]].parts[int(query["partNumber"])] = body
            self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        else:
            upload = bucket.uploads.pop(query["uploadId"])
            if self.command == "DELETE":
                self._answer(204)
                return
            whole = b"".join(upload.parts[number] for number in sorted(upload.parts))
            etag = escape(f'"{hashlib.md5(whole).hexdigest()}"')
            answer = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag>"
            said = f"{answer}</CompleteMultipartUploadResult>".encode()
            self._stored(bucket, key, whole, upload.kept, said)

    def _stored(
        self, bucket: _Bucket, key: str, body: bytes, kept: Mapping[str, str], said: bytes
    ) -> None:
        found = bucket.store(key, body, kept, self.headers.get("x-goog-if-generation-match"))
        if found is None:
            self._refuse(412, "PreconditionFailed")
        else:
            self._answer(200, said, **found.headers())

    def _get(self, bucket: _Bucket, key: str) -> None:
        found = bucket.objects.get(key)
        if found is None:
            self._refuse(404, "NoSuchKey")
            return
        size = len(found.body)
        wanted = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range", ""))
        if wanted is None or self.command == "HEAD":
            self._answer(200, found.body, **found.headers())
            return
        start, end = int(wanted[1]), min(int(wanted[2] or size), size - 1)
        if start >= size:
            self._refuse(416, "InvalidRange")
            return
        shown = {**found.headers(), "Content-Range": f"bytes {start}-{end}/{size}"}
        self._answer(206, found.body[start : end + 1], **shown)

    def _list(self, bucket: _Bucket, query: Mapping[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        with bucket.lock:
            objects = dict(bucket.objects)
        names = sorted(key for key in objects if key.startswith(prefix) and key > after)
        left, last, groups = int(query.get("max-keys") or _PAGE_OBJECTS), "", set[str]()
        shown: list[str] = []
        for key in names:
            below, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            group = f"{prefix}{below}{delimiter}" if found else ""
            if group and (group in groups or after.startswith(group)):
                continue
            if left == 0:
                break
            left, last = left - 1, group + _AFTER_ALL if group else key
            groups.add(group)
            shown.append(_prefix(group) if group else _contents(key, objects[key]))
        is_cut = left == 0 and bool(names) and names[-1] > last
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
        ends = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}"
        self._answer(200, f"<ListBucketResult>{''.join(shown)}{ends}</ListBucketResult>".encode())

    def _kept(self) -> dict[str, str]:
        named = ((name.lower(), value) for name, value in self.headers.items())
        return {
            name: value for name, value in named if name.startswith(_META) or name in _KEPT_HEADERS
        }

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _prefix(group: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(group)}</Prefix></CommonPrefixes>"


def _contents(key: str, found: _Object) -> str:
    stored = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.stored_s))
    millis = int(found.stored_s * 1000) % 1000
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{stored}.{millis:03}Z</LastModified>"
        f"<ETag>{escape(found.etag)}</ETag><Size>{len(found.body)}</Size></Contents>"
    )
