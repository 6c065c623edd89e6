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

from tideline.formats.avro import encode_records


@dataclass
class SchemaRegistry:
    """Schemas by number, from 1. `answers` are those that are given instead: status and body."""

    address: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    authorizations: list[str | None] = field(default_factory=list)

    def register(self, schema: Any, **more: Any) -> int:
        """The number of a schema."""
        self.schemas.append({"schema": json.dumps(schema), **more})
        return len(self.schemas)

    def encode(self, number: int, value: Any) -> bytes:
        """A value as Confluent's serializer writes it."""
        (body,) = encode_records(self.schemas[number - 1]["schema"], [value])
        return struct.pack(">bI", 0, number) + body

    def answer(self, path: str) -> tuple[int, bytes]:
        number = int(path.rpartition("/")[2])
        if number in self.answers:
            return self.answers[number]
        if not path.startswith("/schemas/ids/") or number > len(self.schemas):
            return 404, b'{"error_code": 40403, "message": "Schema not found"}'
        return 200, json.dumps(self.schemas[number - 1]).encode()


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
