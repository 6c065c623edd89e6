"""Kubernetes events of tables and stores: one object for each series, counted as it continues.

1. An event belongs to a series: object, reason and subject. The series has one Event, whose name is
   made from them, so that another process finds it and continues it.
2. A one-time event (an attempt that failed) has an `occurrence`. One that was recorded before
   changes nothing, so a turn that is repeated counts once; a new one raises `count` and moves
   `lastTimestamp`.
3. A lasting condition (a bucket that is missing) has none. It counts again every `REPEAT_MS` while
   it is seen, often enough that the API server, which drops events after an hour, keeps it.
4. A recurrence after a recovery is another series: callers put its start into the subject.
5. The commits of a stream are one series. Those that follow within `FREQUENT_MS` are counted with
   the next: an Event for each would fill the API server's store.

Events are for people: one that cannot be written is logged with its note and dropped. Secrets are
masked in their notes.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b

from tideline.errors import TidelineError
from tideline.secret_values import masked
from tideline_operator.api_objects import EVENTS, Exists, Manifest
from tideline_operator.kube import FIELD_MANAGER, KubeApi

REPEAT_MS = 600_000
FREQUENT_MS = 10_000
_OCCURRENCE = "tideline.dev/occurrence"
_NOTE_LENGTH_MAX = 1_000
_REMEMBERED = 5_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableEvent:
    """What happened: `subject` identifies a series of one reason, `occurrence` an event in it,
    which `is_frequent` where others follow within seconds."""

    reason: str
    subject: str
    note: str
    is_warning: bool = False
    occurrence: str = ""
    is_frequent: bool = False


@dataclass(frozen=True, slots=True)
class _Series:
    """What is known of a series, from its Event; `count` may be ahead of that."""

    count: int
    occurrence: str
    last_ms: int

    def is_news(self, event: TableEvent, now_ms: int) -> bool:
        if event.occurrence:
            return event.occurrence != self.occurrence
        return now_ms - self.last_ms >= REPEAT_MS


class EventRecorder:
    """Writes events. `now_ms` is the time they are given. For any number of threads."""

    def __init__(self, api: KubeApi, instance: str, now_ms: Callable[[], int]) -> None:
        self._api = api
        self._instance = instance
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Series] = OrderedDict()

    def record(self, item: Manifest, event: TableEvent) -> None:
        """Write `event` about the object `item`, or count it, unless it was recorded before."""
        event = replace(event, note=masked(event.note))
        name, now_ms = _name(item, event), self._now_ms()
        with self._lock:
            known = self._known.get(name)
        if known is not None and not known.is_news(event, now_ms):
            return
        if known is not None and event.is_frequent and now_ms - known.last_ms < FREQUENT_MS:
            counted = replace(known, count=known.count + 1, occurrence=event.occurrence)
            with self._lock:
                self._known[name] = counted
            return
        try:
            series = self._write(name, item, event, known, now_ms)
        except TidelineError as error:
            # What it says is said here at least: a namespace that ends takes no events.
            extra = {"table": _about(item), "reason": event.reason}
            _log.warning("%s; cannot write this as an event: %s", event.note, error, extra=extra)
            # Not retried at once: a server that refuses events refuses the next as well.
            series = _Series(known.count if known else 0, event.occurrence, now_ms)
        with self._lock:
            self._known[name] = series
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def _write(
        self, name: str, item: Manifest, event: TableEvent, known: _Series | None, now_ms: int
    ) -> _Series:
        """Create or update the Event of the series; the series after that."""
        namespace = item["metadata"]["namespace"]
        if known is None:
            made = self._api.create(
                EVENTS, self._manifest(name, item, event, now_ms, count=1), namespace
            )
            if not isinstance(made, Exists):
                _log_event(item, event)
                return _Series(1, event.occurrence, now_ms)
            found = self._api.get(EVENTS, name, namespace)
            known = _Series(0, "", 0) if found is None else _series_of(found)
            if not known.is_news(event, now_ms):
                return known
        _log_event(item, event)
        count = known.count + 1
        change: Manifest = {
            "metadata": {"annotations": {_OCCURRENCE: event.occurrence}},
            "count": count,
            "lastTimestamp": _moment(now_ms),
            "message": event.note[:_NOTE_LENGTH_MAX],
        }
        if self._api.patch(EVENTS, name, change, namespace) is None:
            manifest = self._manifest(name, item, event, now_ms, count=count)
            self._api.create(EVENTS, manifest, namespace)
        return _Series(count, event.occurrence, now_ms)

    def _manifest(
        self, name: str, item: Manifest, event: TableEvent, now_ms: int, *, count: int
    ) -> Manifest:
        metadata = item["metadata"]
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "annotations": {_OCCURRENCE: event.occurrence},
            },
            "involvedObject": {
                "apiVersion": item["apiVersion"],
                "kind": item["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "reason": event.reason,
            "message": event.note[:_NOTE_LENGTH_MAX],
            "type": "Warning" if event.is_warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._instance,
            "firstTimestamp": _moment(now_ms),
            "lastTimestamp": _moment(now_ms),
            "count": count,
        }


def _log_event(item: Manifest, event: TableEvent) -> None:
    """Log the event."""
    level = logging.WARNING if event.is_warning else logging.INFO
    _log.log(level, event.note, extra={"table": _about(item), "reason": event.reason})


def _about(item: Manifest) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _series_of(event: Manifest) -> _Series:
    """What an Event of ours says of its series."""
    annotations = event["metadata"].get("annotations") or {}
    last = datetime.fromisoformat(str(event.get("lastTimestamp") or "1970-01-01T00:00:00Z"))
    count = int(event.get("count") or 1)
    return _Series(count, str(annotations.get(_OCCURRENCE, "")), int(last.timestamp() * 1000))


def _moment(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(item: Manifest, event: TableEvent) -> str:
    metadata = item["metadata"]
    digest = blake2b(digest_size=8)
    for part in (str(metadata.get("uid", "")), event.reason, event.subject):
        digest.update(len(part).to_bytes(4, "big") + part.encode())
    return f"{metadata['name']}.{digest.hexdigest()}"
