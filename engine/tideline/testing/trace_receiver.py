"""A collector of OpenTelemetry's spans, which come to it by OTLP over HTTP."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tideline.testing.loopback_server import LoopbackServer


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it was sent; ids in hexadecimal digits, `error` is None where it did not fail."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    events: tuple[str, ...]
    error: str | None


Trace = dict[str, ReceivedSpan]
"""The spans of a trace by their names, which are unique in it."""


@dataclass
class TraceReceiver:
    """Keeps what it gets, in the order in which it comes; `status` is its answer."""

    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> LoopbackServer:
        """A server that takes spans for it."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = zlib.decompress(body, wbits=31)
                with receiver._lock:
                    receiver.headers.append(dict(self.headers))
                    if receiver.status < 300:
                        receiver.spans += _spans_of(body)
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return LoopbackServer(Handler)

    def trace(self, trace_id: str) -> Trace:
        return {span.name: span for span in self.spans if span.trace_id == trace_id}

    def named(self, name: str) -> ReceivedSpan:
        """The only span of this name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def path(self, name: str) -> list[str]:
        """As `path_in` the trace of the only span of this name."""
        return path_in(self.trace(self.named(name).trace_id), name)


def path_in(trace: Trace, name: str) -> list[str]:
    """The names from the first span of the trace to this one."""
    by_id = {span.span_id: span for span in trace.values()}
    names = [name]
    while above := by_id.get(trace[names[0]].parent_id):
        names.insert(0, above.name)
    return names


def _spans_of(body: bytes) -> list[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            _values(group.resource.attributes)["service.name"],
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _values(span.attributes),
            tuple(event.name for event in span.events),
            span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}
