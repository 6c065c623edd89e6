"""One turn for one LakeCatalog or LakeSource: list its tables if that is due, keep a LakeTable for
each, report.

1. A spec that is not valid, or names something that is missing, is reported; its LakeTables stay.
2. The catalog, the store or the server is asked like those of tables: within the share of its
   endpoint, and not at all while that does not answer.
3. After a complete listing LakeTables are created, made to be as the policy says, and deleted. A
   deleted LakeTable leaves its table as it is. While there is no listing all of them stay, and also
   when nothing at all is found: a catalog shows nothing to those whose rights are gone. Then the
   slot of a LakeSource moves.
4. The status is written when it changed. Turns without a listing only count.

Owners and tables are turns of one queue: an owner's key has a name that no table can have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tideline.clock import Clock
from tideline.errors import ConfigError, TidelineError
from tideline.wording import counted
from tideline_operator.api_objects import (
    LAKE_TABLES,
    ApiRefusedError,
    ApiResource,
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
    LABELS,
    Generation,
    OwnedTables,
    Owner,
    owned_tables,
    owner_key,
    owner_of,
)
from tideline_operator.controller.owner_kinds import ListedOwner, Listing, OwnerKind
from tideline_operator.controller.status_writer import (
    StaleStatusError,
    status_content,
    status_manifest,
)
from tideline_operator.controller.table_source import TableSource, Unresolved
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import Problem
from tideline_operator.kube import KubeApi
from tideline_operator.observe.problems import problem_of
from tideline_operator.reading.reader import Reader
from tideline_operator.report.tables_status import Listed, is_failing, is_late, tables_status
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable

RETRY_S = 30.0
_KINDS = {kind.kind: kind for kind in LABELS.values()}
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What is remembered of one owner: its last complete listing, for which version of the spec,
    and when the next is due; of its LakeTables those that were found to be as wanted."""

    owner: ListedOwner | None = None
    listing: Listing | None = None
    listed: Listed | None = None
    place: ResolvedTable | None = None
    parsed: object = None
    version: object = None
    due_s: float = 0.0
    problem: Problem | None = None
    as_wanted: set[Generation] = field(default_factory=set)


@dataclass(slots=True)
class OwnerReconciler:
    """Takes turns for what has many tables; any number of threads, one per owner at a time."""

    api: KubeApi
    kinds: Sequence[OwnerKind]
    tables: ObjectCache
    source: TableSource
    reader: Reader
    endpoints: Endpoints
    events: EventRecorder
    wake: Callable[[Key], None]
    clock: Clock
    resync_s: float
    metrics: ControllerMetrics
    caches: Mapping[ApiResource, ObjectCache] = field(init=False)
    _memories: dict[Key, _Memory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.caches = {kind.resource: ObjectCache() for kind in self.kinds}

    def changed(self, before: Manifest | None, after: Manifest | None) -> None:
        """An owner changed: it takes a turn, as do those that it may keep from tables or a slot."""
        item = after or before
        if item is not None and _declared(before) != _declared(after):
            self.wake(_key(key_of(item)[0], owner_key(item)))
            self._wake_all(key_of(item)[0])

    def table_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        """A LakeTable changed: wake the owners that it concerns."""
        item = after or before
        if item is None:
            return
        namespace = key_of(item)[0]
        owner = owner_of(item)
        if _declared(before) != _declared(after):
            self._wake_all(namespace)
        elif owner is not None and _health(before) != _health(after):
            self.wake(_key(namespace, owner))

    def store_changed(self, namespace: str, name: str) -> None:
        """A LakeStore changed: wake the owners that name it."""
        for owner, item in self._owners(namespace).items():
            if (item.get("spec") or {}).get("storeRef") == name:
                key = _key(namespace, owner)
                if (memory := self._memories.get(key)) is not None:
                    memory.due_s = 0.0
                self.wake(key)

    def item(self, key: Key) -> Manifest | None:
        """The owner of a key."""
        kind, name = _owner(key)
        return self.caches[_KINDS[kind]].get((key[0], name))

    def reconcile(self, key: Key) -> float | None:
        """Take a turn; seconds until the next, None when the owner was deleted.

        Raises StaleStatusError, ApiUnavailableError, ApiRefusedError: repeat the turn.
        """
        item = self.item(key)
        if item is None:
            self._memories.pop(key, None)
            self.endpoints.forget(key)
            kind, name = _owner(key)
            self.metrics.forget_owner(kind, (key[0], name))
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
            if memory.owner is None or memory.parsed != _version(item):
                memory.owner, memory.parsed = self._kind(item).parse(item), _version(item)
        except ConfigError as error:
            memory.problem = Problem("SpecInvalid", error.message, error.exit_code, False)
            return self.resync_s
        refusal = self._refusal(item)
        if refusal is not None:
            memory.problem, memory.due_s = refusal, 0.0
            return self.resync_s
        now_s = self.clock.monotonic_s()
        is_due = now_s >= memory.due_s or memory.version != _version(item)
        if is_due and not self._list(key, item, memory.owner, memory):
            return RETRY_S
        if memory.listing is not None and memory.version == _version(item):
            own = self._keep_tables(item, memory.listing, memory)
            if is_due and not self._settle(memory.owner, own, memory):
                return RETRY_S
        return min(self.resync_s, max(0.0, memory.due_s - self.clock.monotonic_s()))

    def _refusal(self, item: Manifest) -> Problem | None:
        namespace, name = key_of(item)
        others = (
            other
            for (kind, named), other in self._owners(namespace).items()
            if kind == item["kind"] and named != name
        )
        return self._kind(item).refusal(item, others, self._tables(namespace))

    def _list(self, key: Key, item: Manifest, owner: ListedOwner, memory: _Memory) -> bool:
        """List its tables; whether that was possible."""
        memory.due_s = self.clock.monotonic_s() + RETRY_S
        place = self.source.resolve_place(owner.place)
        if isinstance(place, Unresolved):
            memory.problem = Problem(place.reason, place.message, 2, place.may_heal)
            return False
        if not self.endpoints.enter(key, endpoints_of(place)):
            memory.due_s = 0.0  # it is woken when there is room at its endpoint
            return False
        try:
            listing = owner.list(self.reader, self.source.access(place), place)
        except (ApiUnavailableError, ApiRefusedError, LeadershipLostError):
            raise
        except TidelineError as error:
            memory.problem = problem_of(error)
            return False
        finally:
            for waiting in self.endpoints.leave(key):
                self.wake(waiting)
        if not listing.found and (owned := self._owned(item)):
            memory.problem = Problem("NothingFound", _nothing_found(len(owned)), 1, True)
            return False
        if memory.version != _version(item):
            memory.as_wanted.clear()
        memory.place, memory.listing = place, listing
        memory.problem, memory.version = None, _version(item)
        memory.listed = Listed(
            self.clock.now_ms(), listing.found, listing.excluded, 0, listing.left
        )
        memory.due_s = self.clock.monotonic_s() + owner.every_s
        return True

    def _settle(self, owner: ListedOwner, own: Mapping[str, str], memory: _Memory) -> bool:
        """What follows a listing; whether that was possible."""
        place = memory.place
        assert place is not None
        try:
            access = replace(self.source.access(place), may_write=self.api.check_may_write)
            owner.settle(own, partial(self.reader.advance_slot, access, place))
        except (ApiUnavailableError, ApiRefusedError, LeadershipLostError):
            raise
        except TidelineError as error:
            found = problem_of(error)
            memory.problem = replace(found, message=f"the slot does not move: {found.message}")
            return False
        return True

    def _keep_tables(self, item: Manifest, listing: Listing, memory: _Memory) -> Mapping[str, str]:
        """Make the LakeTables as they are wanted; those of the owner, as in `OwnedTables`."""
        namespace = key_of(item)[0]
        wanted = owned_tables(
            item,
            listing.tables,
            self._tables(namespace),
            self._owners(namespace),
            memory.as_wanted,
        )
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
        return wanted.own

    def _kind(self, item: Manifest) -> OwnerKind:
        return next(kind for kind in self.kinds if kind.resource.kind == item["kind"])

    def _tables(self, namespace: str) -> list[Manifest]:
        return [entry for entry in self.tables.all() if key_of(entry)[0] == namespace]

    def _owners(self, namespace: str) -> dict[Owner, Manifest]:
        return {
            owner_key(entry): entry
            for cache in self.caches.values()
            for entry in cache.all()
            if key_of(entry)[0] == namespace
        }

    def _wake_all(self, namespace: str) -> None:
        for owner in self._owners(namespace):
            self.wake(_key(namespace, owner))

    def _owned(self, item: Manifest) -> list[Manifest]:
        tables = self._tables(key_of(item)[0])
        return [table for table in tables if owner_of(table) == owner_key(item)]

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
        kind = self._kind(item)
        before = parse_stored(kind.status, item.get("status") or {}) or kind.status()
        status = tables_status(
            before,
            memory.listed,
            owned,
            memory.problem,
            generation=int(item["metadata"].get("generation") or 0),
            now_ms=self.clock.now_ms(),
        )
        if memory.owner is not None:
            status = memory.owner.with_own(status)
        self.metrics.note_owner(item["kind"], key_of(item), status)
        if memory.problem is not None:
            problem = memory.problem
            since = next(iter(status.conditions)).last_transition_time.ms
            subject = f"{problem.reason}@{since}"
            event = TableEvent(problem.reason, subject, problem.message, is_warning=True)
            self.events.record(item, event)
        if status == before:
            return
        manifest = status_manifest(kind.resource, item, status_content(status))
        try:
            written = self.api.apply(kind.resource, manifest, namespace, subresource="status")
        except ApiRefusedError as error:
            if error.status in (404, 409):
                raise StaleStatusError(error.message) from error
            raise
        self.caches[kind.resource].put_written(written)


def _nothing_found(owned: int) -> str:
    return (
        f"no table is found any more where {counted(owned, 'table')} had been: are rights "
        "missing, or is it another place? Their LakeTables stay; delete them if it is right"
    )


def owner_kind(key: Key) -> ApiResource | None:
    """The kind of the owner whose key it is; None for that of a table."""
    kind, separator, _ = key[1].partition("/")
    return _KINDS[kind] if separator else None


def _key(namespace: str, owner: Owner) -> Key:
    """The key of an owner in the queue of tables."""
    return namespace, "/".join(owner)


def _owner(key: Key) -> Owner:
    kind, _, name = key[1].partition("/")
    return kind, name


def _version(item: Manifest) -> object:
    """The spec that a listing was for, with the annotation that pauses it."""
    metadata = item["metadata"]
    return metadata.get("uid"), metadata.get("generation"), str(metadata.get("annotations"))


def _declared(item: Manifest | None) -> object:
    return None if item is None else _version(item)


def _health(item: Manifest | None) -> object:
    return None if item is None else (is_failing(item), is_late(item))
