"""Turns that fail: an event, and from the second failure in a row on the condition Ready.

A status that the API server refuses as a whole would stay as the last good turn wrote it, Ready for
ever. So the condition goes another way: a merge of the conditions alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.secret_values import masked
from tideline_operator.api_objects import LAKE_TABLES, ApiResource, Manifest
from tideline_operator.controller.controller_metrics import ControllerMetrics
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.owner_reconcile import owner_kind
from tideline_operator.controller.work_queue import Key
from tideline_operator.kube import KubeApi
from tideline_operator.resources.schedule import Timestamp

FAILED = "ReconcileFailed"
_READY = "Ready"
_MESSAGE_LENGTH_MAX = 1_000

_log = logging.getLogger(__name__)


class TurnFailures:
    """Those of tables and their owners since this process began."""

    def __init__(
        self,
        api: KubeApi,
        tables: ObjectCache,
        owners: Mapping[ApiResource, ObjectCache],
        events: EventRecorder,
        metrics: ControllerMetrics,
        clock: Clock,
    ) -> None:
        self._api = api
        self._caches = {LAKE_TABLES: tables, **owners}
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._since_ms: dict[Key, int] = {}

    def record(self, key: Key, item: Manifest, error: BaseException) -> None:
        """A turn for `item` failed."""
        now_ms = self._clock.now_ms()
        kind = owner_kind(key)
        note = f"cannot reconcile this {'table' if kind is None else kind.kind}: {error}"
        is_repeated = key in self._since_ms
        since_ms = self._since_ms.setdefault(key, now_ms)
        subject = f"{type(error).__name__}@{since_ms}"
        self._events.record(item, TableEvent(FAILED, subject, note, is_warning=True))
        if not is_repeated:
            return
        metrics = self._metrics
        gauge = metrics.table_ready if kind is None else metrics.owner_ready[kind.kind]
        gauge.labels(*key_of(item)).set(0)
        kind = kind or LAKE_TABLES
        write_failure(self._api, kind, self._caches[kind], item, note, now_ms)

    def over(self, key: Key) -> None:
        """A turn succeeded, or there is nothing left to take one for."""
        self._since_ms.pop(key, None)


def write_failure(
    api: KubeApi, kind: ApiResource, cache: ObjectCache, item: Manifest, note: str, now_ms: int
) -> None:
    """Make the condition Ready of `item` False with `note`, unless it is for this reason already.

    Written over the version in `cache` only. What prevents it is logged: the next failure repeats
    it.
    """
    newest = cache.get(key_of(item))
    conditions = None if newest is None else _with_failure(newest, note, now_ms)
    if newest is None or conditions is None:
        return
    metadata = newest["metadata"]
    version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    change = {"metadata": version, "status": {"conditions": conditions}}
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    try:
        written = api.patch(kind, name, change, namespace, subresource="status")
    except TidelineError as error:
        _log.warning("cannot write the condition of %s/%s: %s", namespace, name, error)
        return
    if written is not None:
        cache.put_written(written)


def _with_failure(item: Manifest, note: str, now_ms: int) -> list[Mapping[str, object]] | None:
    """The conditions of `item` with the failure; None when it is there."""
    before = (item.get("status") or {}).get("conditions") or []
    ready: Mapping[str, Any] = next((entry for entry in before if entry.get("type") == _READY), {})
    if (ready.get("status"), ready.get("reason")) == ("False", FAILED):
        return None
    since = ready.get("lastTransitionTime") if ready.get("status") == "False" else None
    failed = {
        "type": _READY,
        "status": "False",
        "reason": FAILED,
        "message": masked(note)[:_MESSAGE_LENGTH_MAX],
        "lastTransitionTime": since or str(Timestamp(now_ms)),
    }
    return [failed, *(entry for entry in before if entry.get("type") != _READY)]
