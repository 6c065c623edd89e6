"""The metrics of the controller, read from their text as Prometheus reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.services.benefit import Benefit
from tideline.testing.fake_clock import FakeClock
from tideline_operator.controller.controller_metrics import ControllerMetrics, ProcessMetrics
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.spent import Spent
from tideline_operator.resources.status import (
    NO_TABLE,
    Condition,
    ConditionStatus,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    TableStatus,
)

KEY = ("lake", 'a"b\\c')
TABLE = {"namespace", "table"}
OF_KIND = TABLE | {"kind"}
SAVED = Benefit(files_opened=3, bytes_scanned=-7, bytes_stored=5)
SUCCEEDED = OperationResult("a", Outcome.SUCCEEDED, core_seconds=1.5, requests=31, saved=SAVED,
                            index_lookups=4, index_fallbacks=1)  # fmt: skip
FAILED = OperationResult("b", Outcome.FAILED, core_seconds=0.5, requests=9)
PROMISED: dict[str, tuple[str, set[str]]] = {
    "process_cpu_seconds": ("counter", set()),
    "process_resident_memory_bytes": ("gauge", set()),
    "tideline_api_requests": ("counter", {"verb", "resource", "code"}),
    "tideline_leader": ("gauge", set()),
    "tideline_operation_benefit_bytes": ("counter", {"kind"}),
    "tideline_operation_core_seconds": ("counter", {"kind"}),
    "tideline_operation_index_fallbacks": ("counter", {"kind"}),
    "tideline_operation_index_lookups": ("counter", {"kind"}),
    "tideline_operation_duration_seconds": ("histogram", {"kind"}),
    "tideline_operation_requests": ("counter", {"kind"}),
    "tideline_operation_saved_files": ("counter", {"kind"}),
    "tideline_operation_saved_scan_bytes": ("counter", {"kind"}),
    "tideline_operation_saved_stored_bytes": ("counter", {"kind"}),
    "tideline_operations": ("counter", {"kind", "result"}),
    "tideline_deletions": ("counter", {"result"}),
    "tideline_operations_memory_bytes": ("gauge", set()),
    "tideline_operations_running": ("gauge", set()),
    "tideline_operations_waiting": ("gauge", set()),
    "tideline_warm_workers": ("gauge", {"state"}),
    "tideline_warm_workers_awaited": ("gauge", set()),
    "tideline_queue_delayed": ("gauge", set()),
    "tideline_queue_depth": ("gauge", set()),
    "tideline_queue_oldest_seconds": ("gauge", set()),
    "tideline_reconcile_duration_seconds": ("histogram", set()),
    "tideline_reconciles": ("counter", {"result"}),
    "tideline_store_ready": ("gauge", {"namespace", "store"}),
    "tideline_catalog_ready": ("gauge", {"namespace", "catalog"}),
    "tideline_source_ready": ("gauge", {"namespace", "source"}),
    "tideline_table_bytes": ("gauge", TABLE),
    "tideline_table_core_seconds": ("counter", OF_KIND),
    "tideline_table_dead_instants": ("gauge", TABLE),
    "tideline_table_files": ("gauge", TABLE),
    "tideline_table_gib_seconds": ("counter", OF_KIND),
    "tideline_table_lag_bytes": ("gauge", TABLE),
    "tideline_table_lag_files": ("gauge", TABLE),
    "tideline_table_lag_records": ("gauge", TABLE),
    "tideline_table_log_files": ("gauge", TABLE),
    "tideline_table_oldest_file_age_seconds": ("gauge", TABLE),
    "tideline_table_oldest_record_age_seconds": ("gauge", TABLE),
    "tideline_table_operations": ("counter", OF_KIND | {"result"}),
    "tideline_table_pending_instants": ("gauge", TABLE),
    "tideline_table_pod_seconds": ("counter", OF_KIND),
    "tideline_table_quarantined_files": ("gauge", TABLE),
    "tideline_table_quarantined_rows": ("gauge", TABLE),
    "tideline_table_read_bytes": ("counter", OF_KIND),
    "tideline_table_ready": ("gauge", TABLE),
    "tideline_table_requests": ("counter", OF_KIND),
    "tideline_table_slot_at_risk": ("gauge", TABLE),
    "tideline_table_slot_retained_bytes": ("gauge", TABLE),
    "tideline_table_slot_safe_bytes": ("gauge", TABLE),
    "tideline_table_written_bytes": ("counter", OF_KIND),
    "tideline_tables": ("gauge", set()),
    "tideline_endpoint_unavailable": ("gauge", {"namespace", "endpoint"}),
    "tideline_endpoint_waiting_tables": ("gauge", set()),
    "tideline_operations_stuck": ("gauge", set()),
    "tideline_watch_silent_seconds": ("gauge", {"resource"}),
    "tideline_watch_lists": ("counter", {"resource"}),
    "tideline_worker_threads": ("gauge", set()),
}
"""What dashboards and alerts of others build on."""


PAUSED = (
    Condition(
        type=ConditionType.PAUSED,
        status=ConditionStatus.TRUE,
        reason="Suspended",
        last_transition_time=Timestamp(0),
    ),
)
SPENT = Spent(
    runs=5,
    failures=2,
    pod_ms=90_500,
    mib_seconds=2_048,
    core_ms=1_500,
    bytes_read=7,
    bytes_written=9,
    requests=11,
)


@pytest.fixture
def process() -> ProcessMetrics:
    return ProcessMetrics()


def status(ready: ConditionStatus, reason: str = "Because") -> LakeTableStatus:
    condition = Condition(
        type=ConditionType.READY,
        status=ready,
        reason=reason,
        last_transition_time=Timestamp(0),
    )
    table = TableStatus(files=3, bytes=12_345_678_901)
    return LakeTableStatus(
        conditions=(condition,),
        table=table,
        spent={"ingest": SPENT},
        ingest={"feed": IngestStatus(retained_bytes=5, safe_bytes=9)},
    )


def families(process: ProcessMetrics) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(process.text())}


def series(process: ProcessMetrics) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in families(process).values():
        yield from ((sample.name, sample.labels, sample.value) for sample in family.samples)


def test_metrics_have_the_names_types_and_labels_that_were_promised(
    process: ProcessMetrics,
) -> None:
    metrics = ControllerMetrics(process)
    metrics.note_status(KEY, status(ConditionStatus.TRUE))
    metrics.note_end("ingest", SUCCEEDED, 61.0)
    metrics.note_turn("done", 0.2)
    metrics.show_unavailable(lambda: [("lake", "http://minio.lake.svc:9000")])
    metrics.watch_silent.labels(resource="pods").set(1.5)
    metrics.lists.labels(resource="pods").inc()
    metrics.deletions.labels(result="kept").inc()
    metrics.store_ready.labels("lake", "minio").set(1)
    metrics.owner_ready["LakeCatalog"].labels("lake", "sales").set(1)
    metrics.owner_ready["LakeSource"].labels("lake", "shop").set(1)
    metrics.workers.labels(state="busy").set(1)
    process.note_request("get", "jobs", 200)
    found = {
        name: (family.type, {label for sample in family.samples for label in sample.labels})
        for name, family in families(process).items()
    }
    assert found == {
        name: (kind, labels | {"le"} if kind == "histogram" else labels)
        for name, (kind, labels) in PROMISED.items()
    }
    assert all(family.documentation.endswith(".") for family in families(process).values())


def test_values_and_labels_come_through_as_they_are(process: ProcessMetrics) -> None:
    ControllerMetrics(process).note_status(KEY, status(ConditionStatus.FALSE))
    process.note_request("get", "jobs", 200)
    process.note_request("get", "jobs", 200)
    found = list(series(process))
    labels = {"namespace": KEY[0], "table": KEY[1]}
    assert ("tideline_table_ready", labels, 0.0) in found
    assert ("tideline_table_bytes", labels, 12_345_678_901.0) in found
    asked = {"verb": "get", "resource": "jobs", "code": "200"}
    assert ("tideline_api_requests_total", asked, 2.0) in found


def test_a_table_that_waits_for_its_first_files_sets_off_no_alert(process: ProcessMetrics) -> None:
    metrics = ControllerMetrics(process)
    metrics.note_status(KEY, status(ConditionStatus.FALSE))
    metrics.note_status(KEY, status(ConditionStatus.FALSE, NO_TABLE))
    assert "tideline_table_ready" not in {name for name, _, _ in series(process)}


def test_what_a_table_took_is_what_its_status_says(process: ProcessMetrics) -> None:
    metrics = ControllerMetrics(process)
    metrics.note_status(KEY, status(ConditionStatus.TRUE))
    found = {(name, labels.get("result")): value for name, labels, value in series(process)
             if labels.get("kind") == "ingest"}  # fmt: skip
    assert found == {
        ("tideline_table_operations_total", "failed"): 2,
        ("tideline_table_operations_total", "succeeded"): 3,
        ("tideline_table_pod_seconds_total", None): 90.5,
        ("tideline_table_gib_seconds_total", None): 2,
        ("tideline_table_core_seconds_total", None): 1.5,
        ("tideline_table_read_bytes_total", None): 7,
        ("tideline_table_written_bytes_total", None): 9,
        ("tideline_table_requests_total", None): 11,
    }
    metrics.forget_table(KEY)
    assert not [labels for _, labels, _ in series(process) if labels.get("kind") == "ingest"]


@pytest.mark.parametrize("what", ["file", "record"])
def test_the_oldest_that_waits_gets_older_between_two_looks(
    what: str, process: ProcessMetrics
) -> None:
    clock = FakeClock()
    metrics = ControllerMetrics(process, clock)

    def age(*landed_s_ago: float | None, paused: bool = False) -> float | None:
        landed = (None if ago is None else Timestamp(clock.now_ms() - int(ago * 1000))
                  for ago in landed_s_ago)  # fmt: skip
        ingests = {
            str(n): IngestStatus(oldest_file_at=at)
            if what == "file"
            else IngestStatus(oldest_record_at=at)
            for n, at in enumerate(landed)
        }
        truth = ConditionStatus.TRUE if paused else ConditionStatus.FALSE
        condition = Condition(
            type=ConditionType.PAUSED,
            status=truth,
            reason="Because",
            last_transition_time=Timestamp(0),
        )
        metrics.note_status(KEY, LakeTableStatus(conditions=(condition,), ingest=ingests))
        return now()

    def now() -> float | None:
        name = f"tideline_table_oldest_{what}_age_seconds"
        return next((value for found, _, value in series(process) if found == name), None)

    assert age() == 0
    assert age(None, None) == 0
    assert age(None, 30, 70) == 70
    clock.advance(5)
    assert now() == 75
    assert age(70, paused=True) is None
    assert age(None) == 0


def test_slots_have_metrics_where_there_are_some(process: ProcessMetrics) -> None:
    """Those of a paused table as well: its log grows."""
    metrics = ControllerMetrics(process)

    def slots(*ingests: IngestStatus) -> dict[str, float]:
        by_name = {str(number): ingest for number, ingest in enumerate(ingests)}
        metrics.note_status(KEY, LakeTableStatus(conditions=PAUSED, ingest=by_name))
        return found()

    def found() -> dict[str, float]:
        prefix = "tideline_table_slot_"
        return {
            name.removeprefix(prefix): value
            for name, _, value in series(process)
            if name.startswith(prefix)
        }

    assert slots(IngestStatus()) == {}
    assert slots(IngestStatus(retained_bytes=5)) == {"retained_bytes": 5, "at_risk": 0}
    lost = IngestStatus(retained_bytes=7, safe_bytes=-3, slot_risk="raise it")
    assert slots(IngestStatus(retained_bytes=5, safe_bytes=9), lost, IngestStatus()) == {
        "retained_bytes": 12,
        "safe_bytes": -3,
        "at_risk": 1,
    }
    metrics.forget_table(KEY)
    assert found() == {}


def test_bounds_of_histograms_are_printed_without_a_point(process: ProcessMetrics) -> None:
    metrics = ControllerMetrics(process)
    metrics.note_end("ingest", SUCCEEDED, 61.0)
    metrics.note_end("ingest", FAILED, 5.0)
    metrics.note_turn("done", 31.0)
    ends = buckets(process, "tideline_operation_duration_seconds_bucket")
    assert " ".join(ends) == "1 5 15 30 60 120 300 600 1800 3600 +Inf"
    assert [*ends.values()] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    turns = buckets(process, "tideline_reconcile_duration_seconds_bucket")
    assert " ".join(turns) == "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 +Inf"
    assert (turns["30"], turns["+Inf"]) == (0, 1)
    kind = {"kind": "ingest"}
    assert ("tideline_operation_duration_seconds_sum", kind, 66.0) in series(process)
    assert ("tideline_operation_core_seconds_total", kind, 2.0) in series(process)
    assert ("tideline_operation_requests_total", kind, 40.0) in series(process)
    assert ("tideline_operation_index_lookups_total", kind, 4.0) in series(process)
    assert ("tideline_operation_index_fallbacks_total", kind, 1.0) in series(process)
    assert ("tideline_operation_saved_files_total", kind, 3.0) in series(process)
    # More bytes to read are nothing saved; what is worth it is counted in all.
    assert ("tideline_operation_saved_scan_bytes_total", kind, 0.0) in series(process)
    assert ("tideline_operation_saved_stored_bytes_total", kind, 5.0) in series(process)
    benefit = float(SAVED.benefit_bytes)
    assert ("tideline_operation_benefit_bytes_total", kind, benefit) in series(process)


def buckets(process: ProcessMetrics, name: str) -> dict[str, float]:
    return {labels["le"]: value for entry, labels, value in series(process) if entry == name}


def test_what_is_unknown_or_gone_has_no_series(process: ProcessMetrics) -> None:
    metrics = ControllerMetrics(process)
    other = ("lake", "other")
    for key in (KEY, other):
        metrics.note_status(key, status(ConditionStatus.TRUE))
    metrics.note_status(other, status(ConditionStatus.UNKNOWN))
    tables = [labels["table"] for name, labels, _ in series(process) if name.endswith("_ready")]
    assert tables == [KEY[1]]
    metrics.forget_table(KEY)
    assert {labels["table"] for _, labels, _ in series(process) if "table" in labels} == {"other"}
    metrics.forget_table(other)
    metrics.forget_table(other)
    assert not [labels for _, labels, _ in series(process) if "table" in labels]


def test_a_replica_that_waits_says_nothing_of_tables(process: ProcessMetrics) -> None:
    process.leader.set(False)
    process.note_request("get", "leases", 200)
    assert {name for name, *_ in series(process)} == {
        "tideline_leader",
        "tideline_api_requests_total",
    }


def test_the_handbook_lists_every_metric() -> None:
    page = Path(__file__).parents[3] / "docs" / "operations.md"
    listed = set(re.findall(r"`((?:tideline|process)_[a-z_]+)`", page.read_text("utf-8")))
    names = {name + "_total" * (kind == "counter") for name, (kind, _) in PROMISED.items()}
    assert names <= listed
