"""One turn for one LakeCatalog: list its tables if that is due, keep a LakeTable for each, report.

1. A spec that is not valid, or names something that is missing, is reported; its LakeTables stay.
2. The catalog, or the store, is asked like those of tables: within the share of its endpoint, and
   not at all while that does not answer.
3. After a complete listing LakeTables are created, made to be as the policy says, and deleted. A
   deleted LakeTable leaves its table as it is. While there is no listing all of them stay, and also
   when nothing at all is found: a catalog shows nothing to those whose rights are gone.
4. The status is written when it changed. Turns without a listing only count.

Catalogs and tables are turns of one queue: a catalog's key has a name that no table can have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tideline.clock import Clock
from tideline.errors import ConfigError, TidelineError
from tideline.iceberg.table.found_table import FoundTable
from tideline.wording import counted
from tideline_operator.api_objects import (
    LAKE_CATALOGS,
    LAKE_TABLES,
    ApiRefusedError,
    ApiUnavailableError,
    Created,
    LeadershipLostError,
    Manifest,
    Replaced,
)
from tideline_operator.controller.controller_metrics import ControllerMetrics
from tideline_operator.controller.endpoints import Endpoints, endpoints_of
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.next_look import jittered
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.owned_tables import (
    Generation,
    OwnedTables,
    owned_tables,
    owner_of,
)
from tideline_operator.controller.status_writer import (
    StaleStatusError,
    status_content,
    status_manifest,
)
from tideline_operator.controller.table_source import TableSource, Unresolved
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.catalog_plan import plan_catalog
from tideline_operator.decide.observed import Problem
from tideline_operator.kube import KubeApi
from tideline_operator.observe.problems import problem_of
from tideline_operator.reading.reader import Reader
from tideline_operator.report.catalog_status import Listed, catalog_status, is_failing, is_late
from tideline_operator.resources.catalog_status import LakeCatalogStatus
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.parsing import parse_object, parse_stored

RETRY_S = 30.0
_MARK = "lakecatalog/"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What is remembered of one catalog: its last complete listing, for which version of the spec,
    and when the next is due; of its LakeTables those that were found to be as wanted."""

    found: tuple[FoundTable, ...] = ()
    listed: Listed | None = None
    version: object = None
    due_s: float = 0.0
    problem: Problem | None = None
    as_wanted: set[Generation] = field(default_factory=set)


@dataclass(slots=True)
class CatalogReconciler:
    """Takes turns for catalogs; any number of threads, one per catalog at a time."""

    api: KubeApi
    tables: ObjectCache
    source: TableSource
    reader: Reader
    endpoints: Endpoints
    events: EventRecorder
    wake: Callable[[Key], None]
    clock: Clock
    resync_s: float
    metrics: ControllerMetrics
    catalogs: ObjectCache = field(default_factory=ObjectCache)
    _memories: dict[Key, _Memory] = field(default_factory=dict)

    def changed(self, before: Manifest | None, after: Manifest | None) -> None:
        """A LakeCatalog changed: the key to be queued."""
        item = after or before
        if item is not None and _declared(before) != _declared(after):
            self.wake(catalog_key(*key_of(item)))

    def table_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        """A LakeTable changed: wake the catalogs that it concerns."""
        item = after or before
        if item is None:
            return
        namespace = key_of(item)[0]
        owner = owner_of(item)
        if _declared(before) != _declared(after):
            for catalog in self.catalogs.all():
                if key_of(catalog)[0] == namespace:
                    self.wake(catalog_key(*key_of(catalog)))
        elif owner is not None and _health(before) != _health(after):
            self.wake(catalog_key(namespace, owner))

    def store_changed(self, namespace: str, name: str) -> None:
        """A LakeStore changed: wake the catalogs that name it."""
        for catalog in self.catalogs.all():
            spec = catalog.get("spec") or {}
            if key_of(catalog)[0] == namespace and spec.get("storeRef") == name:
                key = catalog_key(*key_of(catalog))
                if (memory := self._memories.get(key)) is not None:
                    memory.due_s = 0.0
                self.wake(key)

    def item(self, key: Key) -> Manifest | None:
        """The LakeCatalog of a key."""
        return self.catalogs.get((key[0], catalog_name(key) or ""))

    def reconcile(self, key: Key) -> float | None:
        """Take a turn; seconds until the next, None when the catalog was deleted.

        Raises StaleStatusError, ApiUnavailableError, ApiRefusedError: repeat the turn.
        """
        item = self.item(key)
        if item is None:
            self._memories.pop(key, None)
            self.endpoints.forget(key)
            self.metrics.forget_catalog((key[0], catalog_name(key) or ""))
            return None
        if item["metadata"].get("deletionTimestamp"):
            # Its LakeTables are deleted with it, by Kubernetes.
            return None
        memory = self._memories.setdefault(key, _Memory())
        delay_s = self._take(key, item, memory)
        self._publish(item, memory)
        return jittered(delay_s)

    def _take(self, key: Key, item: Manifest, memory: _Memory) -> float:
        try:
            catalog = parse_object(LakeCatalog, item)
        except ConfigError as error:
            memory.problem = Problem("SpecInvalid", error.message, error.exit_code, False)
            return self.resync_s
        now_s = self.clock.monotonic_s()
        is_due = now_s >= memory.due_s or memory.version != _version(item)
        if is_due and not self._list(key, item, catalog, memory):
            return RETRY_S
        if memory.listed is not None and memory.version == _version(item):
            self._keep_tables(item, catalog, memory)
        return min(self.resync_s, max(0.0, memory.due_s - self.clock.monotonic_s()))

    def _list(self, key: Key, item: Manifest, catalog: LakeCatalog, memory: _Memory) -> bool:
        """List the catalog; whether that was possible."""
        memory.due_s = self.clock.monotonic_s() + RETRY_S
        place = self.source.resolve_place(catalog.place())
        if isinstance(place, Unresolved):
            memory.problem = Problem(place.reason, place.message, 2, place.may_heal)
            return False
        if not self.endpoints.enter(key, endpoints_of(place)):
            memory.due_s = 0.0  # it is woken when there is room at its endpoint
            return False
        try:
            found = self.reader.list_place(self.source.access(place), place)
        except (ApiUnavailableError, ApiRefusedError, LeadershipLostError):
            raise
        except TidelineError as error:
            memory.problem = problem_of(error)
            return False
        finally:
            for waiting in self.endpoints.leave(key):
                self.wake(waiting)
        if not found and (owned := self._owned(item)):
            memory.problem = Problem("NothingFound", _nothing_found(len(owned)), 1, True)
            return False
        plan = plan_catalog(catalog.spec, found)
        if memory.version != _version(item):
            memory.as_wanted.clear()
        memory.found, memory.problem, memory.version = plan.wanted, None, _version(item)
        memory.listed = Listed(self.clock.now_ms(), plan.found, plan.excluded, 0, plan.left)
        memory.due_s = self.clock.monotonic_s() + catalog.spec.every.ms / 1000
        return True

    def _keep_tables(self, item: Manifest, catalog: LakeCatalog, memory: _Memory) -> None:
        namespace = key_of(item)[0]
        tables = [entry for entry in self.tables.all() if key_of(entry)[0] == namespace]
        catalogs = {
            key_of(entry)[1]: entry
            for entry in self.catalogs.all()
            if key_of(entry)[0] == namespace
        }
        wanted = owned_tables(item, catalog, memory.found, tables, catalogs, memory.as_wanted)
        assert memory.listed is not None
        memory.listed = replace(memory.listed, left_to_others=wanted.left_to_others)
        for table in wanted.gone:
            metadata = table["metadata"]
            # It leaves the cache with the watch, which tells all that it concerns.
            self.api.delete(LAKE_TABLES, metadata["name"], namespace, uid=metadata["uid"])
        for table in wanted.changed:
            outcome = self.api.replace(LAKE_TABLES, table, namespace)
            if not isinstance(outcome, Replaced):
                raise StaleStatusError(f"LakeTable {table['metadata']['name']} was changed")
            self._take_in(outcome.object)
        for table in wanted.missing:
            made = self.api.create(LAKE_TABLES, table, namespace)
            if isinstance(made, Created):
                self._take_in(made.object)
        self._report_changes(item, wanted)

    def _owned(self, item: Manifest) -> list[Manifest]:
        namespace, name = key_of(item)
        return [
            table
            for table in self.tables.all()
            if key_of(table)[0] == namespace and owner_of(table) == name
        ]

    def _take_in(self, table: Manifest) -> None:
        """The watch reports nothing new when it brings what is known."""
        self.tables.put_written(table)
        self.wake(key_of(table))

    def _report_changes(self, item: Manifest, wanted: OwnedTables) -> None:
        parts = [
            f"{counted(len(tables), 'table')} {what}"
            for tables, what in ((wanted.missing, "more"), (wanted.gone, "no more"))
            if tables
        ]
        if parts:
            named = [table["metadata"]["name"] for table in (*wanted.missing, *wanted.gone)]
            note = f"maintains {', '.join(parts)}: {', '.join(named[:5])}"
            subject = f"{self.clock.now_ms()}"
            event = TableEvent("TablesChanged", subject, note, occurrence=subject)
            self.events.record(item, event)

    def _publish(self, item: Manifest, memory: _Memory) -> None:
        namespace = key_of(item)[0]
        owned = self._owned(item)
        before = parse_stored(LakeCatalogStatus, item.get("status") or {}) or LakeCatalogStatus()
        status = catalog_status(
            before,
            memory.listed,
            owned,
            memory.problem,
            generation=int(item["metadata"].get("generation") or 0),
            now_ms=self.clock.now_ms(),
        )
        self.metrics.note_catalog(key_of(item), status)
        if memory.problem is not None:
            problem = memory.problem
            since = next(iter(status.conditions)).last_transition_time.ms
            subject = f"{problem.reason}@{since}"
            event = TableEvent(problem.reason, subject, problem.message, is_warning=True)
            self.events.record(item, event)
        if status == before:
            return
        manifest = status_manifest(LAKE_CATALOGS, item, status_content(status))
        try:
            written = self.api.apply(LAKE_CATALOGS, manifest, namespace, subresource="status")
        except ApiRefusedError as error:
            if error.status in (404, 409):
                raise StaleStatusError(error.message) from error
            raise
        self.catalogs.put_written(written)


def _nothing_found(owned: int) -> str:
    return (
        f"no table is found any more where {counted(owned, 'table')} had been: are rights "
        "missing, or is it another place? Their LakeTables stay; delete them if it is right"
    )


def catalog_key(namespace: str, name: str) -> Key:
    """The key of a LakeCatalog in the queue of tables."""
    return namespace, f"{_MARK}{name}"


def catalog_name(key: Key) -> str | None:
    """The name of the LakeCatalog whose key it is; None for that of a table."""
    return key[1].removeprefix(_MARK) if key[1].startswith(_MARK) else None


def _version(item: Manifest) -> object:
    """The spec that a listing was for, with the annotation that pauses it."""
    metadata = item["metadata"]
    return metadata.get("uid"), metadata.get("generation"), str(metadata.get("annotations"))


def _declared(item: Manifest | None) -> object:
    return None if item is None else _version(item)


def _health(item: Manifest | None) -> object:
    return None if item is None else (is_failing(item), is_late(item))
