"""A directory bucket of S3 (S3 Express One Zone), emulated in front of a real MinIO, which decides
conditions and keeps the bytes.

Clients reach it as they reach Amazon's, at the bucket's own host and by TLS, through this proxy
(HTTPS_PROXY). Rules, of Amazon's user guide ("Differences for directory buckets"):

1. Requests are signed with a session of the bucket (`GET /?session`), which ends; copies are not.
2. Lists are in no order, over pages too. Their prefixes end in a slash, which is the only
   delimiter; there is no start-after. Uploads in parts that are under way show as folders.
3. An ETag is a text at random: the same bytes never have the same one again.
4. No encryption, tags, access lists, versions or payers in headers of requests.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from minio.credentials.credentials import Credentials
from minio.signer import sign_v4_s3

from tideline.testing.loopback_listener import LoopbackListener
from tideline.testing.minio_server import MinioServer
from tideline.testing.spy_server import make_certificate

ZONE, REGION = "use1-az4", "us-east-1"
_NO_HEADERS = ("x-amz-server-side-encryption", "x-amz-tagging", "x-amz-acl", "x-amz-request-payer",
               "x-amz-security-token")  # fmt: skip
_HANDED_ON = re.compile(
    r"content-type|cache-control|content-md5|range|if-none-match|if-match|x-amz-meta-.*"
    r"|x-amz-(sdk-)?checksum.*"
)
_SHOWN = re.compile(r"content-type|content-range|cache-control|last-modified|x-amz-meta-.*")
_KEY_ID = re.compile(r"Credential=([^/]+)/")


class DirectoryBucketServer(LoopbackListener):
    """Serves one bucket, for the length of a `with` block. `sessions` are those that were opened,
    with their ends; `seen` the method and the query of each request. Of so many writes to come as
    `losing` says the answer is lost. `way` is the endpoint by which it asks the MinIO for clients:
    a proxy with faults, whose answers clients get."""

    def __init__(
        self,
        server: MinioServer,
        folder: Path,
        *,
        session_s: float = 300.0,
        way: str | None = None,
    ) -> None:
        super().__init__()
        self.server = server
        self.way = way or server.endpoint
        self.kept_in = server.create_bucket()
        self.bucket = f"{self.kept_in}--{ZONE}--x-s3"
        self.host = f"{self.bucket}.s3express-{ZONE}.{REGION}.amazonaws.com"
        self.session_s = session_s
        self.sessions: dict[str, tuple[str, float]] = {}
        self.etags: dict[str, tuple[str, str]] = {}
        self.uploads: dict[str, str] = {}
        self.rests: dict[str, list[str]] = {}
        self.seen: list[tuple[str, Mapping[str, str]]] = []
        self.losing = 0
        self.lock = threading.RLock()
        authority, pair = make_certificate(folder, "*" + self.host.removeprefix(self.bucket))
        self.authority = folder / "of-the-bucket.crt"
        self.authority.write_bytes(authority)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*pair)

    def environment(self) -> Mapping[str, str]:
        """Credentials, and the way to the bucket."""
        proxy = f"http://127.0.0.1:{self.port}"
        return {**self.server.environment(), "HTTPS_PROXY": proxy, "NO_PROXY": ""}

    def storage_options(self) -> Mapping[str, str]:
        return {"region": REGION, "ca_bundle": str(self.authority)}

    def serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head and (chunk := connection.recv(4096)):
                head += chunk
            if head.split()[:2] != [b"CONNECT", f"{self.host}:443".encode()]:
                connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with self._context.wrap_socket(connection, server_side=True) as secured:
                _Handler(secured, self)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def __init__(self, connection: socket.socket, served: DirectoryBucketServer) -> None:
        self.served = served
        nothing: Any = None
        super().__init__(connection, ("127.0.0.1", 0), nothing)

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        parts, served = urlsplit(self.path), self.served
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        served.seen.append((self.command, query))
        refusal = self._refusal(query)
        if refusal is not None:
            self._refuse(*refusal)
            return
        try:
            self._do(parts.path, query, body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    def _do(self, path: str, query: Mapping[str, str], body: bytes) -> None:
        """Raises OSError and HTTPException where MinIO's answer does not arrive."""
        served = self.served
        if "session" in query:
            self._open_session()
        elif path == "/" and self.command == "GET":
            self._list(query)
        elif self.command in ("PUT", "POST") and "partNumber" not in query:
            self._write(unquote(path[1:]), query, body)
        else:
            with served.lock:
                known, wanted = served.etags.get(unquote(path[1:])), self.headers["If-Match"]
                if known is not None and wanted == known[0]:
                    self.headers.replace_header("If-Match", known[1])
                status, headers, answer = self._asked(self.command, path, query, body)
                shown = self._shown(unquote(path[1:]), headers)
                if self.command == "DELETE":
                    served.uploads.pop(query.get("uploadId", ""), None)
            self._answer(status, answer, shown)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

    def _refusal(self, query: Mapping[str, str]) -> tuple[int, str] | None:
        served, headers = self.served, self.headers
        found = _KEY_ID.search(headers.get("Authorization", ""))
        key_id = found[1] if found else ""
        token = headers.get("x-amz-s3session-token")
        if "session" in query or "x-amz-copy-source" in headers:
            is_signed = token is None and key_id == served.server.access_key
            return None if is_signed else (403, "AccessDenied")
        session = served.sessions.get(token or "")
        if session is None or session[0] != key_id:
            return 403, "AccessDenied"
        if session[1] < time.monotonic():
            return 400, "ExpiredToken"
        if any(name in headers for name in _NO_HEADERS) or "versionId" in query:
            return 501, "NotImplemented"
        return None

    def _open_session(self) -> None:
        token, key_id = secrets.token_urlsafe(24), f"session-{secrets.token_hex(6)}"
        self.served.sessions[token] = key_id, time.monotonic() + self.served.session_s
        said = (f"<SessionToken>{token}</SessionToken><AccessKeyId>{key_id}</AccessKeyId>"
                "<SecretAccessKey>any</SecretAccessKey>"
                "<Expiration>2100-01-01T00:00:00Z</Expiration>")  # fmt: skip
        answer = f"<CreateSessionResult><Credentials>{said}</Credentials></CreateSessionResult>"
        self._answer(200, answer.encode(), {})

    def _write(self, key: str, query: Mapping[str, str], body: bytes) -> None:
        """What makes an object, a part of one, or a delete of many."""
        served, wanted = self.served, self.headers.get("If-Match")
        with served.lock:
            there = served.etags.get(key)
            if wanted is not None:
                if there is None or there[0] != wanted:
                    self._refuse(412 if there else 404, "PreconditionFailed")
                    return
                self.headers.replace_header("If-Match", there[1])
            path = urlsplit(self.path).path
            status = 0
            try:
                status, headers, answer = self._asked(self.command, path, query, body)
            finally:
                if key and (status == 0 or status >= 500):
                    self._look_again(key, path)
            text = answer.decode()
            made = re.search(r"<UploadId>([^<]+)<", text) if "uploads" in query else None
            if made:
                served.uploads[made[1]] = key
            elif status == 200 and key:
                own = headers.get("ETag") or _etag_in(text)
                served.etags[key] = f'"{secrets.token_hex(16)}"', own
                served.uploads.pop(query.get("uploadId", ""), None)
                new = f"<ETag>{escape(served.etags[key][0])}</ETag>"
                answer = re.sub(r"<ETag>[^<]*</ETag>", new, text).encode()
            shown, self.close_connection = self._shown(key, headers), served.losing > 0
            served.losing -= self.close_connection
        if not self.close_connection:
            self._answer(status, answer, shown)

    def _look_again(self, key: str, path: str) -> None:
        """Give an object another ETag if a write without a good answer took place."""
        way = self.served.server.endpoint
        status, headers, _ = self._asked("HEAD", path, {}, b"", way=way, bare=True)
        own, known = headers.get("ETag", ""), self.served.etags.get(key)
        if status == 200 and (known is None or known[1] != own):
            self.served.etags[key] = f'"{secrets.token_hex(16)}"', own

    def _list(self, query: Mapping[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        is_whole = not prefix or prefix.endswith("/")
        if not is_whole or delimiter not in ("", "/") or "start-after" in query:
            self._refuse(400, "InvalidRequest")
            return
        with self.served.lock:
            entries = self.served.rests.get(query.get("continuation-token", ""))
            if entries is None:
                found = self._entries(prefix, delimiter)
                if isinstance(found, tuple):
                    self._answer(*found, {})
                    return
                entries = found
                random.Random(len(entries)).shuffle(entries)
            end = int(query.get("max-keys") or 1000)
            page, rest, more = "".join(entries[:end]), entries[end:], ""
            if rest:
                token = secrets.token_hex(8)
                self.served.rests[token] = rest
                more = f"<NextContinuationToken>{token}</NextContinuationToken>"
        said = f"{page}<IsTruncated>{str(bool(rest)).lower()}</IsTruncated>{more}"
        self._answer(200, f"<ListBucketResult>{said}</ListBucketResult>".encode(), {})

    def _entries(self, prefix: str, delimiter: str) -> list[str] | tuple[int, bytes]:
        """All of a list, as elements of XML; or how MinIO refuses it."""
        entries: list[str] = []
        asked = {"list-type": "2", "prefix": prefix, "delimiter": delimiter}
        folders: set[str] = set()
        while True:
            status, _, answer = self._asked("GET", "/", asked, b"")
            if status != 200:
                return status, answer
            page = ElementTree.fromstring(re.sub(rb' xmlns="[^"]*"', b"", answer, count=1))
            folders |= {node.findtext("Prefix") or "" for node in page.findall("CommonPrefixes")}
            for node in page.findall("Contents"):
                known = self.served.etags.get(node.findtext("Key") or "")
                etag = node.find("ETag")
                if known is not None and etag is not None:
                    etag.text = known[0]
                entries.append(ElementTree.tostring(node, encoding="unicode"))
            if page.findtext("IsTruncated") != "true":
                break
            asked["continuation-token"] = page.findtext("NextContinuationToken") or ""
        if delimiter:
            under_way = (key for key in self.served.uploads.values() if key.startswith(prefix))
            deep = (key[len(prefix) :] for key in under_way)
            folders |= {f"{prefix}{key.partition('/')[0]}/" for key in deep if "/" in key}
        shown = (f"<Prefix>{escape(name)}</Prefix>" for name in folders)
        return entries + [f"<CommonPrefixes>{name}</CommonPrefixes>" for name in shown]

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
        *,
        way: str | None = None,
        bare: bool = False,
    ) -> tuple[int, Message, bytes]:
        """MinIO's answer to the request, with its own signature and, unless it is `bare`, the
        client's headers. Raises OSError and HTTPException."""
        served = self.served
        headers: dict[str, Any]
        headers = {name: text for name, text in self.headers.items()
                   if not bare and _HANDED_ON.fullmatch(name.lower())}  # fmt: skip
        source = self.headers.get("x-amz-copy-source")
        if source is not None and not bare:
            headers["x-amz-copy-source"] = source.replace(served.bucket, served.kept_in, 1)
        url = urlsplit(
            f"{way or served.way}/{served.kept_in}{path}?{urlencode(query, quote_via=quote)}"
        )
        digest, now = hashlib.sha256(body).hexdigest(), datetime.now(UTC)
        headers |= {"Host": url.netloc, "x-amz-content-sha256": digest,
                    "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ")}  # fmt: skip
        keys = Credentials(served.server.access_key, served.server.secret_key)
        signed: Any = sign_v4_s3(method=method, url=url, region=REGION, headers=headers,
                            credentials=keys, content_sha256=digest, date=now)  # fmt: skip
        connection = http.client.HTTPConnection(url.netloc, timeout=60)
        try:
            connection.request(method, f"{url.path}?{url.query}", body, signed)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def _shown(self, key: str, headers: Message) -> dict[str, str]:
        shown = {name: text for name, text in headers.items() if _SHOWN.fullmatch(name.lower())}
        known = self.served.etags.get(key)
        if "ETag" in headers:
            is_whole = known is not None and "partNumber" not in self.path
            shown["ETag"] = known[0] if is_whole and known else headers["ETag"]
        if self.command == "HEAD":
            shown["Content-Length"] = headers.get("Content-Length", "0")
        return shown

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode(), {})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag_in(text: str) -> str:
    found = re.search(r"<ETag>([^<]*)</ETag>", text)
    return found[1].replace("&#34;", '"').replace("&quot;", '"') if found else ""
