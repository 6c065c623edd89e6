"""The controller's metrics: names, meanings, and the gauges of a table."""

from __future__ import annotations

from tideline_operator.controller.metrics import Metrics
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.status import ConditionType, LakeTableStatus, Truth

TABLES = "tideline_tables"
TABLE_READY = "tideline_table_ready"
LAG_FILES = "tideline_table_lag_files"
LAG_BYTES = "tideline_table_lag_bytes"
PENDING = "tideline_table_pending_instants"
DEAD = "tideline_table_dead_instants"
QUARANTINED = "tideline_table_quarantined_files"
QUARANTINED_ROWS = "tideline_table_quarantined_rows"
TABLE_FILES = "tideline_table_files"
TABLE_BYTES = "tideline_table_bytes"
LOG_FILES = "tideline_table_log_files"
STORE_READY = "tideline_store_ready"
OPERATIONS = "tideline_operations_total"
OPERATION_SECONDS = "tideline_operation_duration_seconds"
OPERATIONS_RUNNING = "tideline_operations_running"
OPERATIONS_WAITING = "tideline_operations_waiting"
OPERATIONS_MEMORY = "tideline_operations_memory_bytes"
RECONCILES = "tideline_reconciles_total"
RECONCILE_SECONDS = "tideline_reconcile_duration_seconds"
QUEUE_READY = "tideline_queue_depth"
QUEUE_DELAYED = "tideline_queue_delayed"
QUEUE_OLDEST = "tideline_queue_oldest_seconds"
API_REQUESTS = "tideline_api_requests_total"
WATCH_SILENT = "tideline_watch_silent_seconds"
LEADER = "tideline_leader"
MEMORY = "process_resident_memory_bytes"
CPU = "process_cpu_seconds_total"

_MEANINGS = {
    TABLES: ("gauge", "LakeTables that this controller manages."),
    TABLE_READY: ("gauge", "1 while a table is Ready, 0 while it is not; absent while paused."),
    LAG_FILES: ("gauge", "Files of a table that wait to be ingested."),
    LAG_BYTES: ("gauge", "Their size."),
    PENDING: ("gauge", "Instants of a table that are not complete."),
    DEAD: ("gauge", "Those whose writer is gone."),
    QUARANTINED: ("gauge", "Files of a table that were set aside."),
    QUARANTINED_ROWS: ("gauge", "Rows that were set aside from files that were ingested."),
    TABLE_FILES: ("gauge", "Base files of a table's latest snapshot."),
    TABLE_BYTES: ("gauge", "Size of a table's latest snapshot."),
    LOG_FILES: ("gauge", "Log files of a table that wait for compaction."),
    STORE_READY: (
        "gauge",
        "1 while all buckets of a LakeStore are reachable and pass their checks.",
    ),
    OPERATIONS: ("counter", "Operations that ended, by kind and result."),
    OPERATION_SECONDS: ("histogram", "From the start of an operation's Job to its end."),
    OPERATIONS_RUNNING: ("gauge", "Operations under way."),
    OPERATIONS_WAITING: ("gauge", "Operations that wait for a place."),
    OPERATIONS_MEMORY: ("gauge", "Memory that the pods of operations under way may ask for."),
    RECONCILES: ("counter", "Reconciles of a table, by result."),
    RECONCILE_SECONDS: ("histogram", "How long a reconcile takes."),
    QUEUE_READY: ("gauge", "Tables that wait for a worker."),
    QUEUE_DELAYED: ("gauge", "Tables that are scheduled for a later look."),
    QUEUE_OLDEST: ("gauge", "The longest time that a table has waited for a worker."),
    API_REQUESTS: ("counter", "Requests to the Kubernetes API; code 0 means no answer."),
    WATCH_SILENT: ("gauge", "Seconds since the API server last answered a watch."),
    LEADER: ("gauge", "1 in the controller that is the leader."),
    MEMORY: ("gauge", "Resident memory of the process."),
    CPU: ("counter", "CPU time of the process."),
}


def described_metrics() -> Metrics:
    """Metrics that know what their names mean."""
    metrics = Metrics()
    for name, (kind, text) in _MEANINGS.items():
        metrics.describe(name, kind, text)
    return metrics


def note_status(metrics: Metrics, key: Key, status: LakeTableStatus) -> None:
    """Bring the gauges of one table up to date."""
    labels = {"namespace": key[0], "table": key[1]}
    ready = next((item for item in status.conditions if item.type is ConditionType.READY), None)
    ingests = status.ingest.values()
    if ready is None or ready.status is Truth.UNKNOWN:
        metrics.unset(TABLE_READY, **labels)
    else:
        metrics.set(TABLE_READY, float(ready.status is Truth.TRUE), **labels)
    metrics.set(LAG_FILES, sum(item.lag_files for item in ingests), **labels)
    metrics.set(LAG_BYTES, sum(item.lag_bytes for item in ingests), **labels)
    metrics.set(QUARANTINED, sum(item.quarantined_files for item in ingests), **labels)
    metrics.set(QUARANTINED_ROWS, sum(item.quarantined_rows for item in ingests), **labels)
    metrics.set(PENDING, len(status.timeline.pending), **labels)
    metrics.set(DEAD, sum(item.is_dead for item in status.timeline.pending), **labels)
    if status.table is not None:
        metrics.set(TABLE_FILES, status.table.files, **labels)
        metrics.set(TABLE_BYTES, status.table.bytes, **labels)
        metrics.set(LOG_FILES, status.table.log_files, **labels)


def forget_table(metrics: Metrics, key: Key) -> None:
    """A table is gone: so are its gauges."""
    metrics.forget(namespace=key[0], table=key[1])
