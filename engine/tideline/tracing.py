"""Traces of OpenTelemetry: spans of operations and of their commits, sent by OTLP over HTTP.

Off unless OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT names a collector. The
other variables of OpenTelemetry's SDK (headers, certificate, timeout, sampler, resource attributes,
OTEL_SDK_DISABLED) mean what they mean there, and TRACEPARENT is the span that a process is part of.

1. One attempt at an operation is one trace. `AttemptSpans` is made of the attempt's name alone: an
   operator, one that was restarted and a pod come to the same ids, and tell each other nothing.
2. Spans wait in memory, are sent in batches by a thread, and are dropped where too many wait.
   `send_spans` waits for that thread, for a few seconds: a collector that is away costs spans and
   nothing else.

Source: OpenTelemetry specification (SDK variables, OTLP), W3C Trace Context.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tideline.distribution import installation, installed_version
from tideline.secret_values import masked, note_secrets

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACEPARENT = "TRACEPARENT"
ENGINE = "tideline-engine"
OPERATOR = "tideline-operator"
FOR_PODS = (
    *ENDPOINTS,
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
)
"""Variables of the operator that its pods get as well; headers, which are secrets, are not."""
_SECONDS_AT_END = 10.0
_TRACE_BYTES = 16
_SPAN_BYTES = 8
_SAMPLED = 1
_NS_PER_MS = 1_000_000
_log = logging.getLogger(__name__)

_PROVIDERS: dict[tuple[str, str], TracerProvider | None] = {}
"""By service and collector."""

Attributes = Mapping[str, str | int | float | bool]


class SpanKey(StrEnum):
    """Names of attributes of spans."""

    TABLE = "tideline.table"
    LOCATION = "tideline.location"
    OPERATION = "tideline.operation"
    KIND = "tideline.kind"
    ATTEMPT = "tideline.attempt"
    REASON = "tideline.reason"
    OUTCOME = "tideline.outcome"
    INSTANT = "tideline.instant"
    ROWS_WRITTEN = "tideline.rows_written"
    BYTES_WRITTEN = "tideline.bytes_written"
    WORKER = "tideline.worker"


@dataclass(frozen=True, slots=True)
class SpanPlace:
    """A span's place in a trace; `parent_id` is None for the first one."""

    trace_id: int
    span_id: int
    parent_id: int | None = None

    @classmethod
    def first(cls, *names: str) -> SpanPlace:
        """The first span of the trace that these names stand for."""
        trace_id = _digest("\n".join(names), _TRACE_BYTES)
        return cls(trace_id, _digest(f"{trace_id:032x}", _SPAN_BYTES))

    def child(self, name: str) -> SpanPlace:
        """The span of this name below it."""
        span_id = _digest(f"{self.trace_id:032x}\n{self.span_id:016x}\n{name}", _SPAN_BYTES)
        return replace(self, span_id=span_id, parent_id=self.span_id)

    @property
    def traceparent(self) -> str:
        """As W3C Trace Context writes it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{_SAMPLED:02x}"


@dataclass(frozen=True, slots=True)
class AttemptSpans:
    """The spans of an attempt at an operation on Kubernetes that others are below: the turn of the
    operator that started it, and its Job or its time at a worker."""

    reconcile: SpanPlace
    job: SpanPlace

    @classmethod
    def of(cls, table_uid: str, operation_id: str, attempt: int) -> AttemptSpans:
        """`table_uid` is the LakeTable's."""
        first = SpanPlace.first(table_uid, operation_id, str(attempt))
        return cls(first, first.child("job"))


class Traced:
    """A span under way; without a collector there is none, and nothing is kept."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self._span is not None:
            self._span.set_attributes(_masked(attributes))

    def note(self, text: str) -> None:
        """Add an event: something happened now."""
        if self._span is not None:
            self._span.add_event(masked(text))

    def fail(self, message: str) -> None:
        """What the span stands for failed."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, masked(message)))


@contextmanager
def traced(
    name: str, attributes: Attributes | None = None, *, parent: str | None = None
) -> Iterator[Traced]:
    """A span of the engine around what is done inside. An exception marks it as failed.

    Its parent is the span it is in, otherwise `parent` (a traceparent, TRACEPARENT where it is
    None); without either it is the first of a new trace.
    """
    tracer = _tracer(ENGINE)
    if tracer is None:
        yield Traced()
        return
    from opentelemetry.trace import use_span

    context = _context(os.environ.get(TRACEPARENT, "") if parent is None else parent)
    span = tracer.start_span(name, context, attributes=_masked(attributes or {}))
    # What an exception says may name a secret: the library would send it, and its traceback.
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        doing = Traced(span)
        try:
            yield doing
        except BaseException as error:
            doing.fail(f"{type(error).__name__}: {error}")
            raise


def traced_commit(table: str, instant: object) -> AbstractContextManager[Traced]:
    """A span around a commit to a table, by its location or its name in a catalog."""
    return traced("commit", {SpanKey.TABLE: table, SpanKey.INSTANT: str(instant)})


def record_span(
    name: str,
    place: SpanPlace,
    *,
    started_ms: int,
    ended_ms: int,
    attributes: Attributes,
    failure: str = "",
) -> None:
    """A span of the operator, of what is over by now."""
    tracer = _tracer(OPERATOR)
    if tracer is None:
        return
    with _FIXED.ids(place):
        span = tracer.start_span(
            name,
            _remote(place.trace_id, place.parent_id) if place.parent_id else _nowhere(),
            attributes=_masked(attributes),
            start_time=started_ms * _NS_PER_MS,
        )
    if failure:
        Traced(span).fail(failure)
    span.end(max(started_ms, ended_ms) * _NS_PER_MS)


def send_spans(timeout_s: float = _SECONDS_AT_END) -> None:
    """Wait until what has ended is sent, and no longer than that."""
    for (_, endpoint), provider in tuple(_PROVIDERS.items()):
        if provider is None or endpoint != _settings():
            continue
        sending = threading.Thread(target=provider.force_flush, name="send spans", daemon=True)
        sending.start()
        sending.join(timeout_s)
        if sending.is_alive():
            _log.warning("spans of OpenTelemetry were not sent in time")


class _FixedIds:
    """Gives the next span of a thread the ids of a place, all others random ones."""

    def __init__(self) -> None:
        self._next = threading.local()

    @contextmanager
    def ids(self, place: SpanPlace) -> Iterator[None]:
        self._next.place = place
        try:
            yield
        finally:
            self._next.place = None

    def generate_span_id(self) -> int:
        place: SpanPlace | None = getattr(self._next, "place", None)
        return place.span_id if place else int.from_bytes(os.urandom(_SPAN_BYTES)) or 1

    def generate_trace_id(self) -> int:
        place: SpanPlace | None = getattr(self._next, "place", None)
        return place.trace_id if place else int.from_bytes(os.urandom(_TRACE_BYTES)) or 1

    def is_trace_id_random(self) -> bool:
        return False


_FIXED = _FixedIds()


def _settings() -> str:
    """The collector; empty where there is none."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    if os.environ.get("OTEL_TRACES_EXPORTER", "").lower() == "none":
        return ""
    return next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")


def _tracer(service: str) -> Tracer | None:
    """What makes the spans of a service; None without a collector, or without the library, which is
    logged once."""
    endpoint = _settings()
    if not endpoint:
        return None
    if (service, endpoint) not in _PROVIDERS:
        _PROVIDERS[service, endpoint] = _new_provider(service)
    provider = _PROVIDERS[service, endpoint]
    return None if provider is None else provider.get_tracer("tideline", installed_version())


def _new_provider(service: str) -> TracerProvider | None:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        _log.warning("no span is sent to the collector: %s", installation("tracing"))
        return None
    try:
        note_secrets(_header_values())
        named = Resource({"service.name": service, "service.version": installed_version()})
        resource = named.merge(OTELResourceDetector().detect())
        # It is shut down by nobody: what is left at the end of a process is `send_spans`'s.
        provider = TracerProvider(
            resource=resource,
            id_generator=_FIXED,  # type: ignore[arg-type]
            shutdown_on_exit=False,
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except Exception as error:
        _log.warning("no span is sent to the collector: %s", masked(str(error)))
        return None
    return provider


def _context(traceparent: str) -> Context | None:
    """That of the span around, or below a traceparent; None is a new trace."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if get_current_span().get_span_context().is_valid or not traceparent:
        return None
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


def _remote(trace_id: int, span_id: int) -> Context:
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        set_span_in_context,
    )

    at = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(_SAMPLED))
    return set_span_in_context(NonRecordingSpan(at))


def _nowhere() -> Context:
    from opentelemetry.context import Context

    return Context()


def _header_values() -> list[str]:
    names = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
    pairs = (pair for name in names for pair in os.environ.get(name, "").split(","))
    return [unquote(pair.partition("=")[2]) for pair in pairs]


def _masked(attributes: Attributes) -> dict[str, str | int | float | bool]:
    return {
        name: masked(value) if isinstance(value, str) else value
        for name, value in attributes.items()
    }


def _digest(text: str, size_bytes: int) -> int:
    # An id is never 0.
    return int.from_bytes(blake2b(text.encode(), digest_size=size_bytes).digest()) or 1
