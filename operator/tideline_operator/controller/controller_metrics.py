"""The metrics of the controller's process: their names, labels and meanings, and who sets them.

A replica that waits to lead has `ProcessMetrics` alone; the leader adds `ControllerMetrics`. Names,
labels, texts and the bounds of histograms are what dashboards and alerts of others build on.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tideline.clock import Clock, SystemClock
from tideline.ingest.operation.result import OperationResult
from tideline_operator.controller.table_metrics import TableMetrics
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.status import (
    NO_TABLE,
    ConditionStatus,
    ConditionType,
    LakeTableStatus,
)
from tideline_operator.resources.store_status import LakeStoreStatus
from tideline_operator.resources.tables_status import TablesConditionType, TablesStatus

DURATION_BOUNDS_S = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)
TURN_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_TABLE = ("namespace", "table")

# A second series for every counter and histogram, which no dashboard uses.
disable_created_metrics()


class ProcessMetrics:
    """What every replica reports of itself."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.leader = Gauge(
            "tideline_leader", "1 in the controller that is the leader.", registry=registry
        )
        self.api_requests = Counter(
            "tideline_api_requests_total",
            "Requests to the Kubernetes API; code 0 means no answer.",
            ("verb", "resource", "code"),
            registry=registry,
        )

    def note_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request to the Kubernetes API."""
        self.api_requests.labels(verb=verb, resource=resource, code=str(code)).inc()

    def text(self) -> str:
        """Everything in the registry, in Prometheus' text format."""
        return generate_latest(self.registry).decode()


class ControllerMetrics:
    """What the leader reports of its tables, stores, operations and queue."""

    def __init__(self, process: ProcessMetrics, clock: Clock | None = None) -> None:
        self._registry = process.registry
        self._of_tables = TableMetrics(clock or SystemClock())
        self._table_gauges: list[Gauge] = []
        self._name_tables()
        self._name_operations()
        self._name_savings()
        self._name_warm_workers()
        self._name_queue()
        self._registry.register(_ProcessUse())
        self._registry.register(self._of_tables)
        self._endpoints = _UnavailableEndpoints()
        self._registry.register(self._endpoints)

    def _name_tables(self) -> None:
        self.tables = self._gauge("tideline_tables", "LakeTables that this controller manages.")
        self.table_ready = self._of_table(
            "tideline_table_ready",
            "1 while a table is Ready, 0 while it is not; absent while paused, or not made yet.",
        )
        self.lag_files = self._of_table(
            "tideline_table_lag_files", "Files of a table that wait to be ingested."
        )
        self.lag_bytes = self._of_table("tideline_table_lag_bytes", "Their size.")
        self.lag_records = self._of_table(
            "tideline_table_lag_records",
            "Records of topics, and changes of tables of Postgres, that wait to be ingested.",
        )
        self.pending = self._of_table(
            "tideline_table_pending_instants", "Instants of a table that are not complete."
        )
        self.dead = self._of_table("tideline_table_dead_instants", "Those whose writer is gone.")
        self.quarantined = self._of_table(
            "tideline_table_quarantined_files", "Files of a table that were set aside."
        )
        self.quarantined_rows = self._of_table(
            "tideline_table_quarantined_rows",
            "Rows that were set aside from files that were ingested.",
        )
        self.table_files = self._of_table(
            "tideline_table_files", "Base files of a table's latest snapshot."
        )
        self.table_bytes = self._of_table(
            "tideline_table_bytes", "Size of a table's latest snapshot."
        )
        self.log_files = self._of_table(
            "tideline_table_log_files", "Log files of a table that wait for compaction."
        )
        self.store_ready = self._gauge(
            "tideline_store_ready",
            "1 while all buckets of a LakeStore are reachable and pass their checks.",
            ("namespace", "store"),
        )
        self.owner_ready = {
            kind: self._gauge(
                f"tideline_{name}_ready",
                f"1 while the tables of a {kind} are listed as its spec says.",
                ("namespace", name),
            )
            for kind, name in (("LakeCatalog", "catalog"), ("LakeSource", "source"))
        }

    def _name_operations(self) -> None:
        self.operations = self._counter(
            "tideline_operations_total",
            "Operations that ended, by kind and result.",
            ("kind", "result"),
        )
        self.operation_seconds = self._histogram(
            "tideline_operation_duration_seconds",
            "From the start of an operation's Job to its end.",
            DURATION_BOUNDS_S,
            ("kind",),
        )
        self.operation_core_seconds = self._counter(
            "tideline_operation_core_seconds_total",
            "Seconds of processor cores that drivers of operations took, executors left out.",
            ("kind",),
        )
        self.operation_requests = self._counter(
            "tideline_operation_requests_total",
            "Requests that drivers of operations sent to object stores.",
            ("kind",),
        )
        self.index_lookups = self._counter(
            "tideline_operation_index_lookups_total",
            "Looks of operations into an index of a table instead of its files.",
            ("kind",),
        )
        self.index_fallbacks = self._counter(
            "tideline_operation_index_fallbacks_total",
            "Looks of operations into files though the table has an index, which lagged or could "
            "not be read.",
            ("kind",),
        )
        self.operations_running = self._gauge(
            "tideline_operations_running", "Operations under way."
        )
        self.operations_waiting = self._gauge(
            "tideline_operations_waiting", "Operations that wait for a place."
        )
        self.operations_stuck = self._gauge(
            "tideline_operations_stuck",
            "Operations that cannot start, such as for an image or a quota, and hold no place.",
        )
        self.operations_memory = self._gauge(
            "tideline_operations_memory_bytes",
            "Memory that the pods of operations under way may ask for.",
        )

    def _name_savings(self) -> None:
        self.operation_saved_files = self._counter(
            "tideline_operation_saved_files_total",
            "Files that scans of the tables no longer open, by what services did.",
            ("kind",),
        )
        self.operation_saved_scan_bytes = self._counter(
            "tideline_operation_saved_scan_bytes_total",
            "Bytes that scans of the tables no longer read.",
            ("kind",),
        )
        self.operation_saved_stored_bytes = self._counter(
            "tideline_operation_saved_stored_bytes_total",
            "Bytes that stores no longer keep.",
            ("kind",),
        )
        self.operation_benefit_bytes = self._counter(
            "tideline_operation_benefit_bytes_total",
            "All that services save, as bytes that one scan no longer reads.",
            ("kind",),
        )

    def _name_warm_workers(self) -> None:
        self.workers = self._gauge(
            "tideline_warm_workers", "Warm workers, by whether they have an operation.", ("state",)
        )
        self.workers_awaited = self._gauge(
            "tideline_warm_workers_awaited", "Operations that wait for a busy warm worker."
        )

    def _name_queue(self) -> None:
        self.deletions = self._counter(
            "tideline_deletions_total",
            "LakeTables with deletionPolicy Delete that went, by what became of their data.",
            ("result",),
        )
        self.reconciles = self._counter(
            "tideline_reconciles_total", "Reconciles of a table, by result.", ("result",)
        )
        self.reconcile_seconds = self._histogram(
            "tideline_reconcile_duration_seconds", "How long a reconcile takes.", TURN_BOUNDS_S
        )
        self.queue_ready = self._gauge("tideline_queue_depth", "Tables that wait for a worker.")
        self.queue_delayed = self._gauge(
            "tideline_queue_delayed", "Tables that are scheduled for a later look."
        )
        self.queue_oldest = self._gauge(
            "tideline_queue_oldest_seconds",
            "The longest time that a table has waited for a worker.",
        )
        self.worker_threads = self._gauge(
            "tideline_worker_threads",
            "Threads that reconcile tables; more while some have to wait.",
        )
        self.endpoint_line = self._gauge(
            "tideline_endpoint_waiting_tables",
            "Tables that wait because as many of their endpoint's as may be are being reconciled.",
        )
        self.lists = self._counter(
            "tideline_watch_lists_total",
            "Full lists asked of the API server: at the start, and after a watch that broke.",
            ("resource",),
        )
        self.watch_silent = self._gauge(
            "tideline_watch_silent_seconds",
            "Seconds since the API server last answered a watch.",
            ("resource",),
        )

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _of_table(self, name: str, text: str) -> Gauge:
        gauge = self._gauge(name, text, _TABLE)
        self._table_gauges.append(gauge)
        return gauge

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        histogram = Histogram(name, text, labels, buckets=bounds, registry=None)
        self._registry.register(_WholeBounds(histogram))
        return histogram

    def note_status(self, key: Key, status: LakeTableStatus) -> None:
        """Bring the metrics of one table up to date."""
        self._of_tables.note(key, status)
        ready = next((item for item in status.conditions if item.type is ConditionType.READY), None)
        ingests = status.ingest.values()
        pending = status.timeline.pending
        # A table that waits for its first files is not at fault.
        is_known = ready is not None and ready.reason != NO_TABLE
        _set_condition(
            self.table_ready, key, ready.status if ready and is_known else ConditionStatus.UNKNOWN
        )
        self.lag_files.labels(*key).set(sum(item.lag_files for item in ingests))
        self.lag_bytes.labels(*key).set(sum(item.lag_bytes for item in ingests))
        self.lag_records.labels(*key).set(sum(item.lag_records for item in ingests))
        self.quarantined.labels(*key).set(sum(item.quarantined_files for item in ingests))
        self.quarantined_rows.labels(*key).set(sum(item.quarantined_rows for item in ingests))
        self.pending.labels(*key).set(len(pending))
        self.dead.labels(*key).set(sum(item.is_dead for item in pending))
        if status.table is not None:
            self.table_files.labels(*key).set(status.table.files)
            self.table_bytes.labels(*key).set(status.table.bytes)
            self.log_files.labels(*key).set(status.table.log_files)

    def note_store(self, key: Key, status: LakeStoreStatus) -> None:
        """Bring the gauge of one LakeStore up to date."""
        (ready,) = status.conditions
        _set_condition(self.store_ready, key, ready.status)

    def note_owner(self, kind: str, key: Key, status: TablesStatus) -> None:
        """Bring the gauge of one LakeCatalog or LakeSource up to date."""
        ready = next(
            condition
            for condition in status.conditions
            if condition.type is TablesConditionType.READY
        )
        _set_condition(self.owner_ready[kind], key, ready.status)

    def note_end(self, kind: str, result: OperationResult, seconds: float) -> None:
        """Count an operation that ended, what it took and what it saved."""
        self.operations.labels(kind=kind, result=result.outcome.value).inc()
        self.operation_seconds.labels(kind=kind).observe(seconds)
        self.operation_core_seconds.labels(kind=kind).inc(result.core_seconds)
        self.operation_requests.labels(kind=kind).inc(result.requests)
        self.index_lookups.labels(kind=kind).inc(result.index_lookups)
        self.index_fallbacks.labels(kind=kind).inc(result.index_fallbacks)
        # A counter never falls: what became more is left out.
        saved = result.saved
        for counter, saved_now in (
            (self.operation_saved_files, saved.files_opened),
            (self.operation_saved_scan_bytes, saved.bytes_scanned),
            (self.operation_saved_stored_bytes, saved.bytes_stored),
            (self.operation_benefit_bytes, saved.benefit_bytes),
        ):
            counter.labels(kind=kind).inc(max(saved_now, 0))

    def show_unavailable(self, look: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """At each scrape: namespaces and URLs of endpoints that are left alone."""
        self._endpoints.look = look

    def note_turn(self, result: str, seconds: float) -> None:
        """Count a turn taken for a table."""
        self.reconciles.labels(result=result).inc()
        self.reconcile_seconds.observe(seconds)

    def forget_table(self, key: Key) -> None:
        """A table is gone: so are its metrics."""
        self._of_tables.forget(key)
        for gauge in self._table_gauges:
            gauge.remove(*key)

    def forget_store(self, key: Key) -> None:
        """A LakeStore is gone: so is its gauge."""
        self.store_ready.remove(*key)

    def forget_owner(self, kind: str, key: Key) -> None:
        """A LakeCatalog or LakeSource is gone: so is its gauge."""
        self.owner_ready[kind].remove(*key)


def _set_condition(gauge: Gauge, key: Key, status: ConditionStatus) -> None:
    """1 or 0; of what is unknown there is no series."""
    if status is ConditionStatus.UNKNOWN:
        gauge.remove(*key)
    else:
        gauge.labels(*key).set(status is ConditionStatus.TRUE)


class _WholeBounds:
    """A histogram whose whole bounds are printed `1`, not `1.0`: dashboards select them by that."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram

    def describe(self) -> Iterable[Metric]:
        return self._histogram.describe()

    def collect(self) -> Iterable[Metric]:
        for metric in self._histogram.collect():
            for at, sample in enumerate(metric.samples):
                if (bound := sample.labels.get("le", "")).endswith(".0"):
                    labels = {**sample.labels, "le": bound.removesuffix(".0")}
                    metric.samples[at] = sample._replace(labels=labels)
            yield metric


class _UnavailableEndpoints:
    """Endpoints that do not answer; there is no series for one that does."""

    def __init__(self) -> None:
        self.look: Callable[[], Iterable[tuple[str, str]]] = tuple

    def collect(self) -> Iterable[Metric]:
        found = GaugeMetricFamily(
            "tideline_endpoint_unavailable",
            "1 for an endpoint that does not answer and is left alone.",
            labels=("namespace", "endpoint"),
        )
        for labels in sorted(set(self.look())):
            found.add_metric(labels, 1)
        yield found

    def describe(self) -> Iterable[Metric]:
        return self.collect()


class _ProcessUse:
    """What the process takes of the machine."""

    def collect(self) -> Iterable[Metric]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield CounterMetricFamily(
            "process_cpu_seconds_total",
            "CPU time of the process.",
            value=usage.ru_utime + usage.ru_stime,
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes",
            "Resident memory of the process.",
            value=resident_bytes(),
        )

    def describe(self) -> Iterable[Metric]:
        return self.collect()


def resident_bytes() -> int:
    """Memory this process holds now; at its largest where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return pages * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
