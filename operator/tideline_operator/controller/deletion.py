"""Deleting a LakeTable whose `deletionPolicy` is Delete: its data goes first.

Only such a table carries our finalizer; with Retain there is nothing to wait for.

1. Record in the status when this was seen. The deadline counts from there, however long no
   controller was running.
2. Stop the table's Jobs, and the warm workers that have its operations, and wait until their pods
   are gone.
3. Check whose data it is (reading/deleted_table.py). The data of another table is kept.
4. Delete the table's own files (reading/table_removal.py), in batches. No Job is started for it:
   none could run in a namespace that is being deleted. Stores and Secrets that were deleted before
   are remembered. A catalog is not asked: an event says where the table was published.
5. Remove the finalizer.

Landing prefixes, locations of other LakeTables, tables below this one and files that are not the
table's stay, and an event says so; in a namespace that is being deleted, which takes no events, the
log and a metric do. At the deadline the rest is left, with an event: Tideline never
blocks the deletion of a table or a namespace for longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.wording import counted
from tideline_operator.api_objects import (
    LAKE_TABLES,
    NAMESPACES,
    ApiRefusedError,
    LeadershipLostError,
    Manifest,
)
from tideline_operator.controller.controller_metrics import ControllerMetrics
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.job_starter import JobStarter
from tideline_operator.controller.object_cache import ObjectCache, without_managed_fields
from tideline_operator.controller.status_writer import StaleStatusError, StatusWriter
from tideline_operator.controller.table_source import TableSource, declared_table
from tideline_operator.controller.work_queue import Key
from tideline_operator.controller.worker_settlement import WorkerSettler
from tideline_operator.decide.observed import LOCATION_TAKEN
from tideline_operator.kube import KubeApi
from tideline_operator.reading.access import Access
from tideline_operator.reading.deleted_table import (
    LEFT_COUNTED,
    LEFT_NAMED,
    DeletionCheck,
    Removal,
    RemovalStep,
)
from tideline_operator.reading.reader import Reader
from tideline_operator.reading.table_removal import Kept
from tideline_operator.resources.lake_table import DeletionPolicy
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import DeletionStatus, LakeTableStatus

FINALIZER = "tideline.dev/delete-data"
RETRY_S = 5.0
_ENDED = ("Complete", "Failed")
_RESULTS = {"DataDeleted": "deleted", "DataKept": "kept", "DeletionGaveUp": "gave_up"}
"""What becomes of data, as the metric counts it, by the reason of the event."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ToDo:
    """The deletion is not complete: what is left to do."""

    message: str


@dataclass(frozen=True, slots=True)
class _Done:
    """Nothing is left to do: `reason` of the event that says how it ended, and its note."""

    reason: str
    note: str
    kept: Kept | None = None


_Outcome = _ToDo | _Done


@dataclass(slots=True)
class _Case:
    """One table that is to be deleted. `item` is the object as it was last read or written."""

    key: Key
    item: Manifest
    status: LakeTableStatus
    deletion: DeletionStatus


class Deletion:
    """Adds the finalizer where it belongs, and does its work."""

    def __init__(
        self,
        api: KubeApi,
        source: TableSource,
        starter: JobStarter,
        events: EventRecorder,
        metrics: ControllerMetrics,
        jobs: ObjectCache,
        pods: ObjectCache,
        at_workers: WorkerSettler,
        writer: StatusWriter,
        reader: Reader,
        clock: Clock,
        *,
        deadline_s: float,
        last_resolved: Callable[[Key], ResolvedTable | None],
    ) -> None:
        self._api = api
        self._source = source
        self._starter = starter
        self._events = events
        self._metrics = metrics
        self._jobs = jobs
        self._pods = pods
        self._at_workers = at_workers
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._deadline_s = deadline_s
        self._last_resolved = last_resolved
        self._deleted: dict[str, int] = {}

    def align(self, item: Manifest) -> Manifest:
        """Make a table have the finalizer if its policy is Delete, and only then."""
        policy = (item.get("spec") or {}).get("deletionPolicy")
        is_wanted = policy == DeletionPolicy.DELETE.value
        if is_wanted == (FINALIZER in _finalizers(item)):
            return item
        others = [name for name in _finalizers(item) if name != FINALIZER]
        return self._with_finalizers(item, [*others, FINALIZER] if is_wanted else others) or item

    def step(self, key: Key, item: Manifest) -> float | None:
        """Continue with the deletion of `item`; seconds until the next step, None when it is done.

        Raises StaleStatusError, ApiUnavailableError.
        """
        if FINALIZER not in _finalizers(item):
            return None
        case = self._begin(key, item)
        try:
            outcome = self._delete(case)
        except LeadershipLostError:
            raise
        except TidelineError as error:
            outcome = _ToDo(str(error))
        if isinstance(outcome, _ToDo):
            _log.info("deleting data: %s", outcome.message, extra={"table": "/".join(key)})
            if not self._is_overdue(case):
                self._note(case, message=outcome.message)
                return RETRY_S
            location = item["spec"].get("location")
            note = f"gave up deleting the data at {location}: {outcome.message}"
            outcome = _Done("DeletionGaveUp", note)
        self._end(case, outcome)
        return None

    def _begin(self, key: Key, item: Manifest) -> _Case:
        """Record when this was seen, before anything is done about it."""
        status = parse_stored(LakeTableStatus, item.get("status") or {}) or LakeTableStatus()
        seen_at = Timestamp(self._clock.now_ms())
        case = _Case(key, item, status, status.deletion or DeletionStatus(seen_at=seen_at))
        if status.deletion is None:
            self._note(case)
        return case

    def _note(self, case: _Case, *, message: str | None = None, is_verified: bool = False) -> None:
        """Write the progress into the status."""
        before = case.deletion
        case.deletion = replace(
            before,
            message=before.message if message is None else message,
            is_verified=before.is_verified or is_verified,
        )
        case.status = replace(case.status, deletion=case.deletion)
        case.item = self._writer.write(without_managed_fields(case.item), case.status)

    def _end(self, case: _Case, done: _Done) -> None:
        is_warning = done.reason != "DataDeleted"
        self._events.record(case.item, TableEvent(done.reason, "", done.note, is_warning))
        if done.kept is not None and done.kept.count:
            event = TableEvent("DataKept", "files", str(done.kept), is_warning=True)
            self._events.record(case.item, event)
        self._deleted.pop(_uid(case), None)
        if self._let_go(case.item):
            self._metrics.deletions.labels(result=_RESULTS[done.reason]).inc()

    def _delete(self, case: _Case) -> _Outcome:
        busy = self._stop_jobs(case.key, case.status)
        if busy:
            return _ToDo(busy)
        declared = declared_table(case.item, case.status.last_valid_spec)
        problem = str(declared.problem)
        if declared.table is not None:
            found = self._source.resolve(case.item, declared.table)
            if isinstance(found, ResolvedTable):
                return self._delete_table(case, found)
            if found.reason == LOCATION_TAKEN:
                return _kept(found.message)
            problem = found.message
        table = self._last_resolved(case.key)
        if table is not None:
            return self._delete_table(case, table)
        if self._namespace_ends(case.key[0]):
            note = f"the data stays because the namespace is being deleted: {problem}"
            return _Done("DeletionGaveUp", note)
        return _ToDo(problem)

    def _delete_table(self, case: _Case, table: ResolvedTable) -> _Outcome:
        access = replace(self._source.access(table), may_write=self._api.check_may_write)
        if not case.deletion.is_verified:
            checked = self._reader.check_deletion(access, table, case.status)
            if not checked.has_table:
                return _without_table(checked, table.location.uri)
            if checked.objection is not None:
                return _kept(f"{checked.objection}; the data at {table.location.uri} stays")
            case.status = replace(case.status, owned=checked.owned)
            self._note(case, is_verified=True)
        return self._remove(case, access, table)

    def _remove(self, case: _Case, access: Access, table: ResolvedTable) -> _Outcome:
        others = self._source.claims.others_below(case.key, table)
        removal = Removal(_uid(case), case.status.owned, tuple(others.items()))
        step = self._reader.remove(access, table, removal)
        if not step.has_table:
            # Its last files went in a step whose answer was lost, or others took them.
            return _without_table(
                self._reader.check_deletion(access, table, case.status), table.location.uri
            )
        if step.is_other:
            return _kept(f"another table is at {table.location.uri} by now; it stays")
        deleted = self._deleted[_uid(case)] = self._deleted.get(_uid(case), 0) + step.deleted
        if not step.is_done:
            return _ToDo(f"{counted(deleted, 'object')} deleted, more are left")
        note = f"deleted the table at {table.location.uri}: {counted(deleted, 'object')}"
        if step.published is not None:
            note += f"; {step.published} is still named there: drop it from the catalog"
        return _Done("DataDeleted", note, _kept_files(step))

    def _stop_jobs(self, key: Key, status: LakeTableStatus) -> str | None:
        """Stop the Jobs of the table, and the workers that have, or may have, its operations; which
        are still running."""
        namespace, now_ms = key[0], self._clock.now_ms()
        busy = []
        for job in self._jobs.labelled(*key):
            conditions = job.get("status", {}).get("conditions") or ()
            if any(item["type"] in _ENDED and item["status"] == "True" for item in conditions):
                continue
            busy.append(str(job["metadata"]["name"]))
            if not job["metadata"].get("deletionTimestamp"):
                self._starter.stop(namespace, busy[-1])
        for entry in status.operations:
            worker = self._at_workers.is_at_work(key, entry, now_ms) if entry.is_under_way else None
            if worker is not None:
                self._starter.stop(namespace, worker)
                busy.append(worker)
        busy += [
            str(pod["metadata"]["name"])
            for pod in self._pods.labelled(*key)
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        return f"waiting for {', '.join(busy)} to end" if busy else None

    def _is_overdue(self, case: _Case) -> bool:
        waited_ms = self._clock.now_ms() - case.deletion.seen_at.ms
        return waited_ms > self._deadline_s * 1000

    def _namespace_ends(self, namespace: str) -> bool:
        found = self._api.get(NAMESPACES, namespace)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    def _let_go(self, item: Manifest) -> bool:
        """Whether it was still there: a cache may show what has gone in the turn before."""
        others = [name for name in _finalizers(item) if name != FINALIZER]
        return self._with_finalizers(item, others) is not None

    def _with_finalizers(self, item: Manifest, finalizers: list[str]) -> Manifest | None:
        metadata = item["metadata"]
        change: Manifest = {
            "metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}
        }
        try:
            return self._api.patch(LAKE_TABLES, metadata["name"], change, metadata["namespace"])
        except ApiRefusedError as error:
            if error.status == 409:
                raise StaleStatusError(error.message) from error
            raise


def _kept(reason: str) -> _Done:
    return _Done("DataKept", f"nothing is deleted: {reason}")


def _without_table(found: DeletionCheck, uri: str) -> _Done:
    """There is no table: any files there are not ours, or were kept before."""
    if not found.left:
        return _Done("DataDeleted", f"there is nothing at {uri}")
    number = f"{counted(found.left, 'file')}" + (" or more" if found.left == LEFT_COUNTED else "")
    more = "" if found.left <= LEFT_NAMED else " and others"
    named = ", ".join(found.left_named)
    return _kept(f"there is no table at {uri}; kept {number}: {named}{more}")


def _kept_files(step: RemovalStep) -> Kept:
    return Kept(step.kept, dict(step.kept_named))


def _uid(case: _Case) -> str:
    return str(case.item["metadata"].get("uid"))


def _finalizers(item: Manifest) -> list[str]:
    return list(item["metadata"].get("finalizers") or ())
