"""Deleting a LakeTable whose `deletionPolicy` is Delete: its data goes first.

Only such a table carries our finalizer; with Retain there is nothing to wait for.

1. Stop the table's Jobs, and wait until their pods are gone.
2. Delete the objects below its location, some at a time. Nothing is started for it: no Job could be
   in a namespace that is being deleted. Stores and Secrets that are gone already are remembered.
3. Take the finalizer away.

A place that is another table's is left alone. What cannot be deleted by the deadline is given up,
with an event: the deletion of a table, or of a namespace, never hangs on us.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from datetime import datetime

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline_operator.api_objects import (
    LAKE_TABLES,
    NAMESPACES,
    ApiRefused,
    LeadershipLost,
    Manifest,
)
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.job_starter import JobStarter
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.status_writer import StaleStatus
from tideline_operator.controller.table_source import (
    LOCATION_TAKEN,
    TableSource,
    Unresolved,
    declared_table,
)
from tideline_operator.controller.work_queue import Key
from tideline_operator.kube import KubeApi
from tideline_operator.resources.lake_table import DeletionPolicy
from tideline_operator.resources.resolved import ResolvedTable

FINALIZER = "tideline.dev/delete-data"
RETRY_S = 5.0
_OBJECTS_AT_ONCE = 1_000
_TURN_S = 20.0
_ENDED = ("Complete", "Failed")

_log = logging.getLogger(__name__)


class Deletion:
    """Keeps the finalizer where it belongs, and does what it stands for."""

    def __init__(
        self,
        api: KubeApi,
        source: TableSource,
        starter: JobStarter,
        events: EventRecorder,
        jobs: ObjectCache,
        pods: ObjectCache,
        clock: Clock,
        *,
        deadline_s: float,
        last_resolved: Callable[[Key], ResolvedTable | None],
    ) -> None:
        self._api = api
        self._source = source
        self._starter = starter
        self._events = events
        self._jobs = jobs
        self._pods = pods
        self._clock = clock
        self._deadline_s = deadline_s
        self._last_resolved = last_resolved

    def align(self, item: Manifest) -> Manifest:
        """See to it that a table carries the finalizer if its policy is Delete, and only then."""
        policy = (item.get("spec") or {}).get("deletionPolicy")
        is_wanted = policy == DeletionPolicy.DELETE.value
        if is_wanted == (FINALIZER in _finalizers(item)):
            return item
        others = [name for name in _finalizers(item) if name != FINALIZER]
        return self._with_finalizers(item, [*others, FINALIZER] if is_wanted else others)

    def step(self, key: Key, item: Manifest) -> float | None:
        """Go on with the deletion of `item`; seconds until the next step, None when it is done.

        Raises StaleStatus, ApiUnavailable.
        """
        if FINALIZER not in _finalizers(item):
            return None
        try:
            left = self._delete(key, item)
        except LeadershipLost:
            raise
        except TidelineError as error:
            left = str(error)
        if left is None:
            self._let_go(item)
            return None
        _log.info("deletes data: %s", left, extra={"table": "/".join(key)})
        if self._is_overdue(item):
            note = f"gave up deleting the data of {item['spec'].get('location')}: {left}"
            self._events.record(item, TableEvent("DeletionGaveUp", "", note, is_warning=True))
            self._let_go(item)
            return None
        return RETRY_S

    def _delete(self, key: Key, item: Manifest) -> str | None:
        """What is still to do; None when nothing is."""
        busy = self._stop_jobs(key)
        if busy:
            return busy
        status = item.get("status") or {}
        declared = declared_table(item, status.get("lastValidSpec") or {})
        table: ResolvedTable | None = None
        if declared.table is not None:
            found = self._source.resolve(item, declared.table)
            if isinstance(found, Unresolved):
                if found.reason == LOCATION_TAKEN:
                    note = f"nothing is deleted: {found.message}"
                    self._events.record(item, TableEvent("DataKept", "", note, is_warning=True))
                    return None
                declared_problem = found.message
            else:
                table, declared_problem = found, ""
        else:
            declared_problem = str(declared.problem)
        table = table or self._last_resolved(key)
        if table is None:
            if self._namespace_ends(key[0]):
                note = f"its data stays, and the namespace goes: {declared_problem}"
                self._events.record(item, TableEvent("DeletionGaveUp", "", note, is_warning=True))
                return None
            return declared_problem
        return self._delete_objects(item, table)

    def _delete_objects(self, item: Manifest, table: ResolvedTable) -> str | None:
        store = self._source.open_store(table, table.location)
        until_s = self._clock.monotonic_s() + _TURN_S
        deleted = 0
        paths = (found.path for found in store.list())
        while batch := list(itertools.islice(paths, _OBJECTS_AT_ONCE)):
            self._api.check_may_write()
            store.delete_many(batch)
            deleted += len(batch)
            if self._clock.monotonic_s() > until_s:
                return f"{deleted:,} objects deleted in this turn, more are left"
        note = f"deleted the data at {table.location.uri}"
        self._events.record(item, TableEvent("DataDeleted", "", note))
        return None

    def _stop_jobs(self, key: Key) -> str | None:
        """Stop what runs for the table; what is still running."""
        namespace, _ = key
        busy = []
        for job in self._jobs.labelled(*key):
            conditions = job.get("status", {}).get("conditions") or ()
            if any(item["type"] in _ENDED and item["status"] == "True" for item in conditions):
                continue
            busy.append(str(job["metadata"]["name"]))
            if not job["metadata"].get("deletionTimestamp"):
                self._starter.stop(namespace, busy[-1])
        busy += [
            str(pod["metadata"]["name"])
            for pod in self._pods.labelled(*key)
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        return f"waits for {', '.join(busy)} to end" if busy else None

    def _is_overdue(self, item: Manifest) -> bool:
        since = datetime.fromisoformat(str(item["metadata"]["deletionTimestamp"]))
        return self._clock.now_ms() / 1000 - since.timestamp() > self._deadline_s

    def _namespace_ends(self, namespace: str) -> bool:
        found = self._api.get(NAMESPACES, namespace)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    def _let_go(self, item: Manifest) -> None:
        self._with_finalizers(item, [name for name in _finalizers(item) if name != FINALIZER])

    def _with_finalizers(self, item: Manifest, finalizers: list[str]) -> Manifest:
        metadata = item["metadata"]
        change: Manifest = {
            "metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}
        }
        try:
            changed = self._api.patch(LAKE_TABLES, metadata["name"], change, metadata["namespace"])
        except ApiRefused as error:
            if error.status == 409:
                raise StaleStatus(error.message) from error
            raise
        return item if changed is None else changed


def _finalizers(item: Manifest) -> list[str]:
    return list(item["metadata"].get("finalizers") or ())
