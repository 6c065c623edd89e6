"""Kubernetes events of tables, each told once.

An event's name is made from what it says (table, reason, subject), so telling it again, also after
a restart, finds it there. Events are for people: one that cannot be written is logged and gone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from tideline.errors import TidelineError
from tideline_operator.api_objects import EVENTS, LAKE_TABLES, Manifest
from tideline_operator.kube import FIELD_MANAGER, KubeApi

_NOTE_LENGTH_MAX = 1_000
_REMEMBERED = 5_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableEvent:
    """What happened to a table: `subject` tells events of one reason apart."""

    reason: str
    subject: str
    note: str
    is_warning: bool = False


class EventRecorder:
    """Writes events. `now_ms` is the time they are given."""

    def __init__(self, api: KubeApi, instance: str, now_ms: Callable[[], int]) -> None:
        self._api = api
        self._instance = instance
        self._now_ms = now_ms
        self._told: OrderedDict[str, None] = OrderedDict()

    def tell(self, table: Manifest, event: TableEvent) -> None:
        """Write `event` about the LakeTable `table` unless it was told before."""
        name = _name(table, event)
        if name in self._told:
            return
        self._told[name] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        namespace = table["metadata"]["namespace"]
        level = logging.WARNING if event.is_warning else logging.INFO
        _log.log(
            level,
            event.note,
            extra={"table": f"{namespace}/{table['metadata']['name']}", "reason": event.reason},
        )
        try:
            self._api.create(EVENTS, self._manifest(name, table, event), namespace)
        except TidelineError as error:
            _log.warning("cannot write an event: %s", error)

    def _manifest(self, name: str, table: Manifest, event: TableEvent) -> Manifest:
        metadata = table["metadata"]
        moment = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        seconds = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": LAKE_TABLES.api_version,
                "kind": LAKE_TABLES.kind,
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
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "count": 1,
        }


def _name(table: Manifest, event: TableEvent) -> str:
    metadata = table["metadata"]
    digest = blake2b(digest_size=8)
    for part in (str(metadata.get("uid", "")), event.reason, event.subject):
        digest.update(len(part).to_bytes(4, "big") + part.encode())
    return f"{metadata['name']}.{digest.hexdigest()}"
