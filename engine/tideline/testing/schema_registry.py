"""A schema registry on the loopback interface, for tests: what readers need of its interface."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from tideline.formats.avro import encode_records


@dataclass
class SchemaRegistry:
    """Schemas by number, from 1. `answers` are those that are given instead: status and body."""

    address: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Numbers of schemas by subject and version."""
    authorizations: list[str | None] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def register(self, schema: Any, **more: Any) -> int:
        """The number of a schema."""
        self.schemas.append({"schema": json.dumps(schema), **more})
        return len(self.schemas)

    def refer(self, subject: str, schema: Any, *references: dict[str, Any]) -> int:
        """The number of a schema that is the next version of a subject and refers to others."""
        number = self.register(schema, references=list(references))
        version = sum(known == subject for known, _ in self.versions) + 1
        self.versions[subject, version] = number
        return number

    def guid(self, number: int) -> UUID:
        """Of the schema of this number."""
        return UUID(int=number + (1 << 120))

    def encode(self, number: int, value: Any, schema: Any = None) -> bytes:
        """A value as Confluent's serializer writes it, by `schema` where the registered one is not
        whole."""
        return struct.pack(">bI", 0, number) + self.datum(number, value, schema)

    def datum(self, number: int, value: Any, schema: Any = None) -> bytes:
        """The value alone."""
        text = self.schemas[number - 1]["schema"] if schema is None else json.dumps(schema)
        (body,) = encode_records(text, [value])
        return bytes(body)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        number = self._number(path)
        if number in self.answers:
            return self.answers[number]
        if not 0 < number <= len(self.schemas):
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        return 200, json.dumps(self.schemas[number - 1]).encode()

    def _number(self, path: str) -> int:
        """0 where there is none. Deleted versions are given to those that ask for them."""
        match path.partition("?")[0].split("/"):
            case ["", "schemas", "ids", number]:
                return int(number)
            case ["", "schemas", "guids", guid]:
                return UUID(guid).int - (1 << 120)
            case ["", "subjects", subject, "versions", version] if path.endswith("?deleted=true"):
                return self.versions.get((unquote(subject), int(version)), 0)
        return 0


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """One that answers until the end."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.authorizations.append(self.headers.get("Authorization"))
            status, body = registry.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


CONNECT = "org.apache.kafka.connect.data."


def connect_envelope(row: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of change events whose rows have these fields, as Connect's converter for JSON
    writes it beside each value."""
    struct = {"type": "struct", "optional": True, "fields": list(row)}
    return {
        "type": "struct",
        "fields": [
            {**struct, "field": "before"},
            {**struct, "field": "after"},
            {"type": "struct", "field": "source", "fields": []},
            {"type": "string", "field": "op"},
        ],
    }
