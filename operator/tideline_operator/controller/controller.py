"""The controller: caches, queue and workers around `TableReconciler`.

Watches only put keys into the queue; workers reconcile them, one key at a time each. A turn that
fails is retried with growing delays; no table can block the others. What they share is limited for
each: places (budgets.py), endpoints (endpoints.py), threads (workers.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from tideline.clock import Clock, SystemClock
from tideline.storage.egress.proxy import EgressProxy
from tideline_operator.api_objects import (
    JOBS,
    LAKE_STORES,
    LAKE_TABLES,
    PODS,
    ApiRefusedError,
    ApiResource,
    ApiUnavailableError,
    LeadershipLostError,
    Manifest,
)
from tideline_operator.controller.budgets import Budgets
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.connections import Connections, StoreAccess
from tideline_operator.controller.controller_metrics import ControllerMetrics, ProcessMetrics
from tideline_operator.controller.deletion import Deletion
from tideline_operator.controller.endpoints import Endpoints
from tideline_operator.controller.event_recorder import EventRecorder
from tideline_operator.controller.job_starter import JobControl, JobStarter
from tideline_operator.controller.locations import Locations
from tideline_operator.controller.namespace_access import NamespaceAccess
from tideline_operator.controller.namespace_pauses import NamespacePauses
from tideline_operator.controller.namespace_usage import NamespaceSpending
from tideline_operator.controller.object_cache import (
    ObjectCache,
    condition_of,
    key_of,
    without_managed_fields,
)
from tideline_operator.controller.owner_kinds import CatalogKind, SourceKind
from tideline_operator.controller.owner_reconcile import OwnerReconciler, owner_kind
from tideline_operator.controller.pod_meter import PodMeter
from tideline_operator.controller.poll_pacing import PollPacing
from tideline_operator.controller.reconcile import Parts, TableReconciler
from tideline_operator.controller.reflector import OnChange, Reflector
from tideline_operator.controller.secret_variables import SecretVariables
from tideline_operator.controller.settings import ControllerSettings
from tideline_operator.controller.settlement import Settler
from tideline_operator.controller.slot_positions import SlotPositions
from tideline_operator.controller.source_secrets import SourceSecrets
from tideline_operator.controller.status_writer import StaleStatusError, StatusWriter
from tideline_operator.controller.store_watch import StoreWatch
from tideline_operator.controller.table_session import TableSessions
from tideline_operator.controller.table_source import TableSource
from tideline_operator.controller.trimming import short, short_pod
from tideline_operator.controller.turn_failures import TurnFailures
from tideline_operator.controller.warm_workers import WarmWorkers
from tideline_operator.controller.work_queue import Key, WorkQueue
from tideline_operator.controller.worker_places import WorkerPlaces
from tideline_operator.controller.worker_settlement import WorkerSettler
from tideline_operator.controller.workers import Workers
from tideline_operator.controller.writer_state import WriterStates
from tideline_operator.kube import KubeApi
from tideline_operator.launch.driver_job import TABLE_LABEL
from tideline_operator.launch.engine_pod import MANAGED_BY, MANAGED_BY_LABEL
from tideline_operator.launch.job_launcher import JobLauncher
from tideline_operator.launch.worker_launcher import WorkerLauncher
from tideline_operator.reading.reader import Reader
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.status import LakeTableStatus

STARVING_S = 30.0
"""A table that waits this long for a worker is not served as it should be."""
EGRESS_REMEDY = ": egress.allowedRanges of the chart opens ranges of addresses"
_POLL_S = 1.0
_OURS = f"{MANAGED_BY_LABEL}={MANAGED_BY}"

_log = logging.getLogger(__name__)


class Controller:
    """See the module. `start` returns when the caches are filled and the workers run. Without a
    `reader` tables are read in this process."""

    def __init__(
        self,
        api: KubeApi,
        settings: ControllerSettings,
        *,
        job_control: JobControl | None = None,
        process: ProcessMetrics | None = None,
        clock: Clock | None = None,
        allows_local: bool = False,
        before_store_write: Callable[[], None] | None = None,
        reader: Reader | None = None,
    ) -> None:
        """`before_store_write` raises in a process that may not write to stores any more."""
        self._settings = settings
        self._clock = clock = clock or SystemClock()
        self._metrics = ControllerMetrics(process or ProcessMetrics(), clock)
        self._reader = reader or TableReading(clock)
        self.queue = WorkQueue(clock)
        self.tables, self._stores = ObjectCache(), ObjectCache()
        self._jobs = ObjectCache(label=TABLE_LABEL, trim=short)
        self._pods = ObjectCache(label=TABLE_LABEL, trim=short_pod)
        self._meter = PodMeter()
        self.budgets = Budgets(settings.limits, NamespaceSpending(settings.hourly, clock))
        self.endpoints = Endpoints(clock)
        self._workers = self._make_workers()
        self.warm_workers = warm = WarmWorkers(clock)
        self._egress = EgressProxy(settings.addresses, remedy=EGRESS_REMEDY)
        connections = self._make_connections(api, before_store_write or api.check_may_write)
        access = self._make_access(api)
        self._source = source = self._make_source(api, connections, access, local=allows_local)
        self._events = EventRecorder(api, settings.pod_name, clock.now_ms)
        starter = JobStarter(job_control or JobLauncher(api, settings.launch), access)
        settler = WorkerSettler(api, warm, WorkerLauncher(api, settings.launch))
        places = WorkerPlaces(starter, settler.launcher, access, warm, source, self._stores)
        self._sessions = TableSessions(self._reader.forget)
        self._writer = StatusWriter(api, self.tables, self._written)
        parts = self._parts(api, source, starter, places, settler)
        self._reconciler = TableReconciler(parts)
        self._deletion = Deletion(
            api,
            source,
            starter,
            self._events,
            self._metrics,
            self._jobs,
            self._pods,
            settler,
            parts.writer,
            self._reader,
            clock,
            deadline_s=settings.deletion_deadline_s,
            last_resolved=self._sessions.resolved,
        )
        self._owner_turns = self._make_owner_turns(api)
        self._failures = self._make_failures(api)
        self._store_watch = self._make_store_watch(api)
        self._follow_tables(parts)
        self._reflectors = self._make_reflectors(api)
        self._stop = threading.Event()
        self._measure_on_scrape()

    def _follow_tables(self, parts: Parts) -> None:
        budgets, metrics, claims = self.budgets, self._metrics, parts.source.claims
        for registry in (self.endpoints, budgets.spending, self.warm_workers, parts.pacing):
            self._sessions.on_end(registry.forget)
        self._sessions.on_end(claims.release, budgets.release, metrics.forget_table)
        self._sessions.on_end(self._store_watch.forget, self.queue.forget, self._positions.forget)
        self._reconciler.on_resolved = self._store_watch.note
        self._reconciler.on_observed = self._positions.note

    def _make_workers(self) -> Workers:
        return Workers(
            self.queue,
            self._take_turn,
            self._clock,
            workers=self._settings.workers,
            waiting=self.endpoints.waiting_threads,
        )

    def _make_store_watch(self, api: KubeApi) -> StoreWatch:
        return StoreWatch(
            api,
            self._stores,
            self._reader,
            self._source.store_access,
            self._events,
            self._metrics,
            self._clock,
            self.queue.add,
        )

    def _make_owner_turns(self, api: KubeApi) -> OwnerReconciler:
        self._positions = SlotPositions()
        return OwnerReconciler(
            api,
            (CatalogKind(), SourceKind(self._positions)),
            self.tables,
            self._source,
            self._reader,
            self.endpoints,
            self._events,
            self.queue.add,
            self._clock,
            self._settings.resync_s,
            self._metrics,
        )

    def _make_failures(self, api: KubeApi) -> TurnFailures:
        owners = self._owner_turns.caches
        return TurnFailures(api, self.tables, owners, self._events, self._metrics, self._clock)

    def _make_access(self, api: KubeApi) -> NamespaceAccess:
        account = self._settings.launch.service_account
        return NamespaceAccess(api, self._clock, account, self._settings.pod_namespace)

    def _make_connections(self, api: KubeApi, may_write: Callable[[], None]) -> Connections:
        account = self._settings.launch.service_account
        at_stores = StoreAccess(self._egress, self._settings.ambient_namespaces)
        return Connections(api, self._clock, account, self.endpoints, may_write, at_stores)

    def _make_source(
        self,
        api: KubeApi,
        connections: Connections,
        access: NamespaceAccess,
        *,
        local: bool,
    ) -> TableSource:
        secrets = SecretVariables(api, self._clock)
        return TableSource(
            self._stores,
            connections,
            CatalogSecrets(secrets),
            SourceSecrets(secrets),
            Locations(),
            self.endpoints,
            self.queue.add,
            self._clock,
            access,
            self._reader,
            self._egress,
            allows_local=local,
        )

    def _parts(
        self,
        api: KubeApi,
        source: TableSource,
        starter: JobStarter,
        places: WorkerPlaces,
        at_workers: WorkerSettler,
    ) -> Parts:
        settings, clock = self._settings, self._clock
        return Parts(
            sessions=self._sessions,
            source=source,
            pauses=NamespacePauses(api, clock),
            settler=Settler(
                api,
                self._jobs,
                self._pods,
                settings.start_deadline_s,
                at_workers,
                self._meter,
                settings.launch.deadline_s,
            ),
            reader=self._reader,
            writer_states=WriterStates(api, self._pods),
            starter=starter,
            places=places,
            budgets=self.budgets,
            endpoints=self.endpoints,
            wake=self.queue.add,
            writer=self._writer,
            events=self._events,
            pacing=PollPacing(settings.idle_polls_per_s),
            metrics=self._metrics,
            clock=clock,
            resync_s=settings.resync_s,
        )

    def start(self, *, timeout_s: float | None = None) -> bool:
        """Fill the caches, then start the workers; False when that took longer than `timeout_s`."""
        self._egress.start()
        for reflector in self._reflectors:
            reflector.start()
        for reflector in self._reflectors:
            while not reflector.synced.wait(_POLL_S if timeout_s is None else timeout_s):
                if self._stop.is_set() or timeout_s is not None:
                    return False
        for item in self.tables.all():
            self._take_over(item)
            self._store_watch.expect(key_of(item), _stores_named(item))
        self._workers.start()
        self._store_watch.start()
        return True

    def stop(self, timeout_s: float = 20.0) -> None:
        """Take no more turns; those under way get `timeout_s`."""
        self._stop.set()
        self._store_watch.stop()
        self.queue.close()
        for reflector in self._reflectors:
            reflector.stop()
        self._workers.stop(timeout_s)
        self._egress.close()

    @property
    def is_ready(self) -> bool:
        """Whether the caches are filled and the workers run."""
        return not self.missing()

    def missing(self) -> list[str]:
        """What it waits for before the first turn: lists that the API server did not give yet."""
        unfilled = [item for item in self._reflectors if not item.synced.is_set()]
        if unfilled or self._workers.is_running:
            return [f"{items} have not been listed yet{items.why_not}" for items in unfilled]
        return ["the workers have not started yet"]

    def problems(self) -> list[str]:
        """What is stuck and a restart may fix."""
        found = [f"the watch of {item} is stuck" for item in self._reflectors if item.is_stuck]
        if self._workers.is_running and not self._workers.threads:
            found.append("no worker is alive")
        return found

    def delays(self) -> list[str]:
        """Why tables are not served in time. A restart would only make it worse."""
        waited_s = self.queue.state.oldest_ready_s
        if waited_s <= STARVING_S:
            return []
        return [f"a table has waited for a worker for {waited_s:.0f} s"]

    def _make_reflectors(self, api: KubeApi) -> list[Reflector]:
        owners = self._owner_turns
        followed: tuple[tuple[ApiResource, ObjectCache, OnChange, str], ...] = (
            (LAKE_STORES, self._stores, self._store_changed, ""),
            (JOBS, self._jobs, self._job_changed, _OURS),
            (PODS, self._pods, self._pod_changed, _OURS),
            (LAKE_TABLES, self.tables, self._table_changed, ""),
            *((kind, cache, owners.changed, "") for kind, cache in owners.caches.items()),
        )
        return [
            Reflector(
                api,
                kind,
                cache,
                on_change,
                self._clock,
                namespace=namespace,
                labels=labels,
                # An upgrade by Helm leaves the definitions as they were.
                may_be_missing=kind in owners.caches,
                on_list=self._metrics.lists.labels(resource=str(kind)).inc,
            )
            for kind, cache, on_change, labels in followed
            for namespace in self._settings.namespaces or (None,)
        ]

    def _table_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        if item is None:
            return
        self._owner_turns.table_changed(before, after)
        if not self._writer.is_own(before, after):
            # The first list is routine; after a change a user waits for the result.
            self.queue.add(key_of(item), urgent=self._workers.is_running)

    def _written(self, before: Manifest, after: Manifest) -> None:
        self._owner_turns.table_changed(before, after)

    def _store_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        if item is None or not self._workers.is_running:
            return
        if before is not None and after is not None and _declared(before) == _declared(after):
            return
        namespace, name = key_of(item)
        self._owner_turns.store_changed(namespace, name)
        if after is None:
            self._metrics.forget_store(key_of(item))
        for table in self.tables.all():
            if key_of(table)[0] == namespace and name in _stores_named(table):
                self.queue.add(key_of(table))

    def _job_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self.warm_workers.note_job(before, after)
        self._part_changed(before, after)

    def _pod_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        self._meter.note(before, after, self._clock.now_ms())
        holder = self.warm_workers.note_pod(before, after)
        if holder is not None and self._workers.is_running:
            # The next table in line has the worker while the result is written into a status.
            for key in (holder, *self.warm_workers.next_in_line()):
                self.queue.add(key, urgent=True)
        self._part_changed(before, after)

    def _part_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        item = after or before
        if item is None or not self._workers.is_running:
            return
        if before is not None and after is not None and condition_of(before) == condition_of(after):
            return
        name = item["metadata"].get("labels", {}).get(TABLE_LABEL)
        if name:
            self.queue.add((key_of(item)[0], str(name)), urgent=True)

    def _take_over(self, item: Manifest) -> None:
        """Continue where the previous process ended: its gauges, and places for what is under way.

        A table whose status does not change is never written, so nothing else would set them.
        """
        status = parse_stored(LakeTableStatus, item.get("status") or {}) or LakeTableStatus()
        self._source.claims.restore(item)
        self._metrics.note_status(key_of(item), status)
        self.budgets.spending.note(key_of(item), status.spent)
        for entry in status.operations:
            if entry.is_under_way:
                self.budgets.hold(key_of(item), entry.memory_bytes, entry.id)
        self.warm_workers.set_held(key_of(item), status.workers)

    def _take_turn(self, key: Key) -> None:
        self._turn_and_retry(key)
        for waiting in (*self.budgets.next_in_line(), *self.warm_workers.next_in_line()):
            self.queue.add(waiting)

    def _turn_and_retry(self, key: Key) -> None:
        started_s = self._clock.monotonic_s()
        is_owner = owner_kind(key) is not None
        item = self._owner_turns.item(key) if is_owner else self.tables.get(key)
        result = "done"
        table = "/".join(key)
        try:
            delay_s = self._turn(key, item)
            self.queue.succeeded(key)
            self._failures.over(key)
            if delay_s is not None:
                self.queue.wake_at(key, self._clock.monotonic_s() + delay_s)
        except (StaleStatusError, LeadershipLostError):
            result = "stale"
            self.queue.retry(key)
        except ApiUnavailableError as error:
            result = "unavailable"
            delay_s = self.queue.retry(key, at_least_s=error.retry_after_s or 0.0)
            _log.warning("retrying in %.0f s: %s", delay_s, error, extra={"table": table})
        except BaseException as error:
            # Also SystemExit and MemoryError: what a table leads to is that table's trouble.
            result = "refused" if isinstance(error, ApiRefusedError) else "error"
            delay_s = self.queue.retry(key)
            _log.exception("retrying in %.0f s", delay_s, extra={"table": table})
            if item is not None:
                self._failures.record(key, item, error)
        self._store_watch.had_turn(key)
        self._metrics.note_turn(result, self._clock.monotonic_s() - started_s)

    def _turn(self, key: Key, item: Manifest | None) -> float | None:
        if owner_kind(key) is not None:
            return self._owner_turns.reconcile(key)
        if item is None:
            self._sessions.end(key)
            return None
        if item["metadata"].get("deletionTimestamp"):
            return self._deletion.step(key, item)
        aligned = self._deletion.align(item)
        if aligned is not item:
            self.tables.put_written(aligned)
        return self._reconciler.reconcile(key, without_managed_fields(aligned))

    def _measure_on_scrape(self) -> None:
        """Gauges of what can be looked up are looked up at every scrape."""
        metrics, queue, budgets = self._metrics, self.queue, self.budgets
        metrics.tables.set_function(lambda: len(self.tables))
        metrics.queue_ready.set_function(lambda: queue.state.ready)
        metrics.queue_delayed.set_function(lambda: queue.state.delayed)
        metrics.queue_oldest.set_function(lambda: queue.state.oldest_ready_s)
        metrics.operations_running.set_function(lambda: budgets.running)
        metrics.operations_waiting.set_function(lambda: budgets.waiting)
        metrics.operations_stuck.set_function(lambda: budgets.stuck)
        metrics.worker_threads.set_function(lambda: self._workers.threads)
        metrics.endpoint_line.set_function(lambda: self.endpoints.waiting)
        metrics.show_unavailable(
            lambda: ((server.namespace, server.server) for server in self.endpoints.unavailable)
        )
        metrics.operations_memory.set_function(lambda: budgets.memory_bytes)
        for state, is_busy in (("busy", True), ("idle", False)):
            gauge = metrics.workers.labels(state=state)
            gauge.set_function(partial(self.warm_workers.count, is_busy=is_busy))
        metrics.workers_awaited.set_function(lambda: self.warm_workers.waiting)
        for reflector in self._reflectors:
            silent = metrics.watch_silent.labels(resource=str(reflector))
            silent.set_function(partial(getattr, reflector, "silent_s"))


def _declared(item: Manifest) -> tuple[object, object]:
    """The parts of a LakeStore that matter to its tables: not its status."""
    return item["metadata"].get("uid"), item["metadata"].get("generation")


def _stores_named(table: Manifest) -> set[str]:
    """The LakeStores that a LakeTable object refers to, valid or not, and those of its last valid
    spec, which may be the one in force."""
    names: set[object] = set()
    for spec in (table.get("spec") or {}, (table.get("status") or {}).get("lastValidSpec") or {}):
        names.add(spec.get("storeRef"))
        for ingest in spec.get("ingest") or ():
            source = ingest.get("source") if isinstance(ingest, dict) else None
            names.add(source.get("storeRef") if isinstance(source, dict) else None)
    return {str(name) for name in names if name}
