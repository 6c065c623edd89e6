"""A REST catalog on loopback whose answers can be altered, and a spy that should hear nothing.

    with Spy() as spy, HostileCatalog(location) as catalog:
        catalog.alter("config", overriding({"py-io-impl": CODE}))
        open_catalog("lake", {"uri": catalog.url})

It keeps one table, `shop.orders`, and answers as an honest catalog until `alter` changes the answer
to one kind of request. It records what it was sent.
"""

from __future__ import annotations

import itertools
import json
import random
import socket
import socketserver
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

from tideline.testing.loopback_server import LoopbackServer

CODE = "tideline.testing.hostile_canary.Canary"
CODE_MODULE = CODE.rpartition(".")[0]
KINDS = ("config", "token", "namespaces", "tables", "table", "commit")
TOKEN = "tok-of-the-house-4711"
EXCHANGED = "exchanged-token-0815"
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Answer:
    """What is sent back; `endless` is repeated until the client goes away, `drips` sends one byte
    after another, in the head as well. One that is `lost` is not sent: the connection ends."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bytes = b""
    drips: str = ""
    lost: bool = False

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def saying(self, document: object) -> Answer:
        return replace(self, body=json.dumps(document).encode())


@dataclass(frozen=True)
class Received:
    """A request."""

    kind: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """Everything in it."""
        return f"{self.method} {self.path} {dict(self.headers)} {self.body!r}"


Alteration = Callable[[Answer, Received], Answer]


class HostileCatalog(LoopbackServer):
    """See the module."""

    def __init__(self, location: str) -> None:
        self.metadata = table_metadata(location)
        self.received: list[Received] = []
        self._alterations: dict[str, Alteration] = {}
        super().__init__(_handler(self))

    def alter(self, kind: str, alteration: Alteration) -> None:
        """Change what is answered to requests of this kind."""
        self._alterations[kind] = alteration

    def answered(self, request: Received) -> Answer:
        """The answer to a request, which is recorded."""
        self.received.append(request)
        alteration = self._alterations.get(request.kind)
        honest = self._honest(request)
        return honest if alteration is None else alteration(honest, request)

    def _honest(self, request: Received) -> Answer:
        table = {
            "metadata-location": f"{self.metadata['location']}/metadata/0.metadata.json",
            "metadata": self.metadata,
        }
        documents: dict[str, object] = {
            "config": {"defaults": {}, "overrides": {}},
            "token": {"access_token": EXCHANGED, "token_type": "bearer"},
            "namespaces": {"namespaces": [] if "parent=" in request.path else [["shop"]]},
            "tables": {"identifiers": [{"namespace": ["shop"], "name": "orders"}]},
            "table": {**table, "config": {}},
            "commit": table,
        }
        return Answer().saying(documents[request.kind])


class Spy(LoopbackServer):
    """A server that only listens; `heard` is what each connection began with."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        super().__init__(self._handler())

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        heard = self.heard

        class Listener(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                heard.append(b"")
                self.request.settimeout(1)
                try:
                    heard[-1] = self.request.recv(65_536)
                except OSError:
                    return
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        return Listener


def dangerous_properties(spy: str) -> dict[str, object]:
    """Properties that name code, files, addresses, identities and secrets, by their names."""
    custom = {"type": "custom", "impl": CODE, "custom": {}}
    return {
        "py-io-impl": CODE,
        "py-catalog-impl": CODE,
        "io-impl": CODE,
        "auth": custom,
        "auth.type": "custom",
        "auth.impl": CODE,
        "auth.manager": CODE,
        "write.py-location-provider.impl": CODE,
        "s3.retry-strategy-impl": CODE,
        "s3.signer": CODE,
        "ssl": {"cabundle": "/dev/zero", "client": {"cert": "/etc/passwd", "key": "/etc/passwd"}},
        "ssl.cabundle": "/dev/zero",
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "us-east-1",
        "rest.signing-name": "s3",
        "header.Authorization": "Bearer other",
        "header.Host": "internal.example",
        "header.X-Forwarded-User": "admin",
        "uri": spy,
        "oauth2-server-uri": spy,
        "token": "another-token",
        "credential": "another:credential",
        "scope": "everything",
        "s3.endpoint": spy,
        "s3.proxy-uri": spy,
        "s3.signer.uri": spy,
        "prefix": "../../admin",
        "namespace-separator": "/../",
        "rest-page-size": "0000000000000000000000000000000",
        "snapshot-loading-mode": "refs",
        "scan-planning-mode": "server",
        "type": "sql",
        "warehouse": {"nested": ["list"]},
    }


def ending_programs() -> tuple[str, ...]:
    """Names of things in Python's own library that end or start programs."""
    return ("sys.exit", "os.abort", "os.system", "subprocess.Popen")


def defaulting(properties: Mapping[str, object]) -> Alteration:
    """Of `config`: these properties as defaults."""
    return _with_field("defaults", properties)


def overriding(properties: Mapping[str, object]) -> Alteration:
    """Of `config`: these properties as overrides."""
    return _with_field("overrides", properties)


def configuring_table(properties: Mapping[str, object]) -> Alteration:
    """Of `table` and `commit`: these properties as the table's configuration."""
    return _with_field("config", properties)


def naming_in_table(properties: Mapping[str, object]) -> Alteration:
    """Of `table` and `commit`: these properties as the table's own."""

    def altered(answer: Answer, _: Received) -> Answer:
        document = answer.document
        texts = {name: _text(value) for name, value in properties.items()}
        document["metadata"] = {**document["metadata"], "properties": texts}
        return answer.saying(document)

    return altered


def redirecting(status: int, to: str) -> Alteration:
    """A redirect to the same path at another place."""

    def altered(answer: Answer, request: Received) -> Answer:
        return replace(answer, status=status, headers={"Location": f"{to}{request.path}"})

    return altered


def repeating_credentials(status: int, *, is_json: bool = True) -> Alteration:
    """A refusal that says what it was sent, with all headers and the body."""

    def altered(answer: Answer, request: Received) -> Answer:
        said = f"\x1b[31mno: {request.headers.get('Authorization')} {request.text}\r\n\0"
        if not is_json:
            return replace(answer, status=status, body=said.encode())
        if request.kind == "token":
            document: dict[str, object] = {"error": "invalid_client", "error_description": said}
        else:
            document = {"error": {"message": said, "type": said, "code": status}}
        return replace(answer.saying(document), status=status)

    return altered


def saying(body: bytes, **headers: str) -> Alteration:
    """Always this body."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda answer, _: replace(answer, body=body, headers=named)


def endless(chunk: bytes, status: int = 200) -> Alteration:
    """A body without an end."""
    return lambda answer, _: replace(answer, status=status, endless=chunk)


def dripping(where: str) -> Alteration:
    """An answer without an end, a byte at a time: in its `head`, its `body` or its
    `chunks`."""
    return lambda answer, _: replace(answer, drips=where)


def _with_field(name: str, properties: Mapping[str, object]) -> Alteration:
    def altered(answer: Answer, _: Received) -> Answer:
        return answer.saying({**answer.document, name: dict(properties)})

    return altered


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def table_metadata(location: str) -> dict[str, Any]:
    """The metadata of an empty table with one column."""
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [
            {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
            }
        ],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
    }


def _kind_of(method: str, path: str) -> str:
    plain = path.partition("?")[0]
    if "oauth" in plain or plain.endswith("/tokens"):
        return "token"
    if plain.endswith("/config"):
        return "config"
    if plain.endswith("/tables"):
        return "tables"
    if "/tables/" in plain:
        return "commit" if method == "POST" else "table"
    return "namespaces"


def _handler(catalog: HostileCatalog) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"catalog": catalog})


class _Handler(BaseHTTPRequestHandler):
    catalog: HostileCatalog
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = _kind_of(self.command, self.path)
        headers = dict(self.headers.items())
        request = Received(kind, self.command, self.path, headers, body)
        answer = self.catalog.answered(request)
        try:
            self._send(answer)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    do_GET = do_POST = do_HEAD = do_DELETE = _answer

    def _send(self, answer: Answer) -> None:
        if answer.lost:
            self.close_connection = True
            return
        if answer.drips or answer.endless:
            self.close_connection = True
            self._without_end(answer)
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _without_end(self, answer: Answer) -> None:
        head = f"HTTP/1.1 {answer.status} OK\r\nContent-Type: application/json\r\n"
        match answer.drips:
            case "head":
                self._drip(head, b"X-More: yes")
            case "chunks":
                self._drip(f"{head}Transfer-Encoding: chunked\r\n\r\n1;", b"x")
            case "body":
                self._drip(f"{head}\r\n", b" ")
        self.wfile.write(f"{head}\r\n".encode())
        while True:
            self.wfile.write(answer.endless)

    def _drip(self, head: str, chunk: bytes) -> None:
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wfile.write(head.encode())
        for number in itertools.cycle(chunk):
            self.wfile.write(bytes((number,)))
            time.sleep(_PAUSE_S)

    def log_message(self, *_: object) -> None:
        pass


def fuzzed(seed: int) -> Alteration:
    """An answer with odd values in the place of some of its own, or with bytes that are wrong: the
    same for every answer of one seed."""

    def alter(answer: Answer, request: Received) -> Answer:  # noqa: ARG001
        chance = random.Random(seed)
        if chance.random() < 0.2:
            return replace(answer, body=_with_odd_bytes(answer.body, chance))
        document: object = answer.document
        for _ in range(chance.randint(1, 4)):
            document = _with_an_odd_part(document, chance)
        return replace(answer, body=json.dumps(document).encode())

    return alter


def _odd_value(chance: random.Random) -> object:
    deep: object = 1
    for _ in range(chance.choice((3, 300))):
        deep = [deep]
    return chance.choice(
        (None, True, -1, 0, 1.5, 2**70, "", "x" * 100_000, "\u0000\ud800", "../..", [], {}, [[]],
         {"": None}, "file:///etc/passwd", float("nan"), float("inf"), deep)
    )  # fmt: skip


def _with_an_odd_part(document: object, chance: random.Random) -> object:
    """The document with a value somewhere in it replaced, gone or doubled."""
    if not isinstance(document, (dict, list)) or not document or chance.random() < 0.15:
        return _odd_value(chance)
    if isinstance(document, list):
        number = chance.randrange(len(document))
        changed = [*document]
        changed[number : number + 1] = [_with_an_odd_part(document[number], chance)] * (
            chance.choice((0, 1, 1, 1, 2))
        )
        return changed
    name = chance.choice(sorted(document))
    kept = {item: value for item, value in document.items() if item != name}
    if chance.random() < 0.2:
        return kept
    return {**kept, name: _with_an_odd_part(document[name], chance)}


def _with_odd_bytes(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randint(0, len(changed))] if chance.random() < 0.5 else changed)
