"""Objects in memory behind the XML API that S3 and Google Cloud Storage have in common, on the
loopback interface: reads, writes, uploads in parts, copies, lists.

A server of either kind says who is admitted, what is a condition, and which headers an object has.
Conditions and the writes behind them are one step. No signature is checked.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tideline.testing.loopback_server import LoopbackServer

_KEPT_HEADERS = ("content-type", "cache-control")
_PAGE_OBJECTS = 1000
_AFTER_ALL = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """`generation` is a number that no other state of the object has."""

    body: bytes
    generation: int
    stored_s: float
    kept: Mapping[str, str]

    @property
    def etag(self) -> str:
        """A digest of the bytes: it comes back with the same bytes."""
        return f'"{hashlib.md5(self.body).hexdigest()}"'


@dataclass(frozen=True, slots=True)
class _Upload:
    kept: Mapping[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class ObjectBucket:
    """What one bucket has."""

    objects: dict[str, StoredObject] = field(default_factory=dict)
    uploads: dict[str, _Upload] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(time.time_ns() // 1000))
    lock: threading.Lock = field(default_factory=threading.Lock)


class ObjectServer(LoopbackServer):
    """Serves `buckets` for the length of a `with` block."""

    handler: type[ObjectHandler]

    def __init__(self, *buckets: str) -> None:
        self.buckets = {name: ObjectBucket() for name in buckets}
        super().__init__(partial(self.handler, self))

    def uploads_under_way(self) -> int:
        """Uploads in parts that were neither completed nor aborted."""
        return sum(len(bucket.uploads) for bucket in self.buckets.values())


class ObjectHandler(BaseHTTPRequestHandler):
    """One connection. A kind of server overrides what is its own."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # One packet an answer.
    prefix = "x-amz-"
    """Of the headers that are the protocol's own."""

    def __init__(self, server: Any, *given: object) -> None:
        self.served = server
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        pass

    def refusal(self, key: str, query: Mapping[str, str]) -> tuple[int, str] | None:  # noqa: ARG002
        """Status and code for what is not served at all."""
        return None

    def answers_otherwise(self, path: str, query: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Whether a request was one of another API, and has its answer."""
        return False

    def place(self, path: str) -> tuple[str, str]:
        """The bucket and the key that a request is for."""
        _, name, *below = path.split("/", 2)
        return name, below[0] if below else ""

    def holds(self, there: StoredObject | None) -> bool:
        """Whether the condition of a write holds for what is there."""
        raise NotImplementedError

    def shown(self, found: StoredObject) -> dict[str, str]:
        """Headers of an object that are of this kind of server."""
        raise NotImplementedError

    def delete(self, bucket: ObjectBucket, key: str) -> None:
        """Delete one object, and answer."""
        raise NotImplementedError

    def post(self, bucket: ObjectBucket, body: bytes) -> None:  # noqa: ARG002
        """A request to a bucket itself."""
        self.refuse(501, "NotImplemented")

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        if self.answers_otherwise(parts.path, query):
            return
        name, key = self.place(unquote(parts.path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bucket = self.served.buckets.get(name)
        refusal = self.refusal(key, query)
        if refusal is not None:
            self.refuse(*refusal)
        elif bucket is None:
            self.refuse(404, "NoSuchBucket")
        elif not key and self.command == "POST":
            self.post(bucket, body)
        elif not key:
            self._list(bucket, query)
        elif "uploads" in query or "uploadId" in query:
            self._upload(bucket, key, query, body)
        elif self.command == "PUT":
            self._put(bucket, key, body)
        elif self.command == "DELETE":
            self.delete(bucket, key)
        else:
            self._get(bucket, key)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def stored(
        self, bucket: ObjectBucket, key: str, body: bytes, kept: Mapping[str, str]
    ) -> StoredObject | None:
        """The new object; None where the condition does not hold."""
        with bucket.lock:
            if not self.holds(bucket.objects.get(key)):
                return None
            number = next(bucket.numbers)
            found = bucket.objects[key] = StoredObject(body, number, time.time(), kept)
            return found

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _put(self, bucket: ObjectBucket, key: str, body: bytes) -> None:
        kept, source = self._kept(), self.headers.get(f"{self.prefix}copy-source")
        if source is not None:
            copied = bucket.objects.get(unquote(source).lstrip("/").split("/", 1)[1])
            if copied is None:
                self.refuse(404, "NoSuchKey")
                return
            body, kept = copied.body, dict(copied.kept)
        said = b"" if source is None else b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"
        self._store(bucket, key, body, kept, said)

    def _upload(
        self, bucket: ObjectBucket, key: str, query: Mapping[str, str], body: bytes
    ) -> None:
        if "uploads" in query:
            number = str(next(bucket.numbers))
            bucket.uploads[number] = _Upload(self._kept())
            answer = f"<UploadId>{number}</UploadId>"
            self.answer(200, f"<InitiateMultipartUploadResult>{answer}"
                        "</InitiateMultipartUploadResult>".encode())  # fmt: skip
        elif self.command == "PUT":
            bucket.uploads[query["uploadId"]].parts[int(query["partNumber"])] = body
            self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        else:
            upload = bucket.uploads.pop(query["uploadId"])
            if self.command == "DELETE":
                self.answer(204)
                return
            whole = b"".join(upload.parts[number] for number in sorted(upload.parts))
            etag = escape(f'"{hashlib.md5(whole).hexdigest()}"')
            answer = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag>"
            said = f"{answer}</CompleteMultipartUploadResult>".encode()
            self._store(bucket, key, whole, upload.kept, said)

    def _store(
        self, bucket: ObjectBucket, key: str, body: bytes, kept: Mapping[str, str], said: bytes
    ) -> None:
        found = self.stored(bucket, key, body, kept)
        if found is None:
            self.refuse(412, "PreconditionFailed")
        else:
            self.answer(200, said, **self._headers(found))

    def _get(self, bucket: ObjectBucket, key: str) -> None:
        found = bucket.objects.get(key)
        if found is None:
            self.refuse(404, "NoSuchKey")
        else:
            self.answer_bytes(found)

    def answer_bytes(self, found: StoredObject) -> None:
        """The bytes of an object, or the range of them that is wanted."""
        size = len(found.body)
        wanted = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range", ""))
        if wanted is None or self.command == "HEAD":
            self.answer(200, found.body, **self._headers(found))
            return
        start, end = int(wanted[1]), min(int(wanted[2] or size), size - 1)
        if start >= size:
            self.refuse(416, "InvalidRange")
            return
        shown = {**self._headers(found), "Content-Range": f"bytes {start}-{end}/{size}"}
        self.answer(206, found.body[start : end + 1], **shown)

    def _list(self, bucket: ObjectBucket, query: Mapping[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        with bucket.lock:
            objects = dict(bucket.objects)
        names = sorted(key for key in objects if key.startswith(prefix) and key > after)
        left, last, groups = int(query.get("max-keys") or _PAGE_OBJECTS), "", set[str]()
        shown: dict[str, str] = {}
        for key in names:
            below, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            group = f"{prefix}{below}{delimiter}" if found else ""
            if group and (group in groups or after.startswith(group)):
                continue
            if left == 0:
                break
            left, last = left - 1, group + _AFTER_ALL if group else key
            groups.add(group)
            shown[group or key] = _prefix(group) if group else _contents(key, objects[key])
        is_cut = left == 0 and bool(names) and names[-1] > last
        more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
        ends = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>{more}"
        page = "".join(shown[name] for name in sorted(shown))
        self.answer(200, f"<ListBucketResult>{page}{ends}</ListBucketResult>".encode())

    def _headers(self, found: StoredObject) -> dict[str, str]:
        stored = {"ETag": found.etag, "Last-Modified": formatdate(found.stored_s, usegmt=True)}
        return {**stored, **self.shown(found), **found.kept}

    def _kept(self) -> dict[str, str]:
        named = ((name.lower(), value) for name, value in self.headers.items())
        meta = f"{self.prefix}meta-"
        return {
            name: value for name, value in named if name.startswith(meta) or name in _KEPT_HEADERS
        }


def _prefix(group: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(group)}</Prefix></CommonPrefixes>"


def _contents(key: str, found: StoredObject) -> str:
    stored = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.stored_s))
    millis = int(found.stored_s * 1000) % 1000
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{stored}.{millis:03}Z</LastModified>"
        f"<ETag>{escape(found.etag)}</ETag><Size>{len(found.body)}</Size></Contents>"
    )
