"""Tables share an operator and a cluster: one in trouble does not hold up another."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.harness.cluster import condition
from e2e.harness.installation import Operator
from e2e.harness.lake import DRIVER, QUICK, SMALL_RESOURCES, Lake, some_rows

DEAD_ENDPOINTS = 40
EVERY_COMMIT = {"trigger": {"deltaCommits": 1}}
OPERATIONS_PER_NAMESPACE = "TIDELINE_OPERATIONS_PER_NAMESPACE_MAX"
NOWHERE = "http://10.255.255.{}:9000"
"""No host answers there, nor says that it does not."""


def seconds_between(earlier: str, later: str) -> float:
    return (moment(later) - moment(earlier)).total_seconds()


def test_forty_dead_endpoints_do_not_hold_up_a_healthy_table(
    lake: Lake, record_property: Callable[[str, object], None]
) -> None:
    for number in range(1, DEAD_ENDPOINTS + 1):
        lake.apply_store(f"dead-{number}", endpoint=NOWHERE.format(number))
        lake.apply_table(f"dead-{number}", storeRef=f"dead-{number}", ingest=dead_ingest(number))
    lake.wait_for(f"dead-{DEAD_ENDPOINTS}", "Ready", "False", reason="StorageUnavailable")
    lake.land("people", "a", some_rows(3))
    made = lake.apply_table("people", **QUICK)
    done = lake.wait_for_operation("people", "ingest")
    waited_s = seconds_between(made["metadata"]["creationTimestamp"], done["startedAt"])
    record_property("seconds from the LakeTable to its operation", waited_s)
    print("seconds from the LakeTable to its operation:", waited_s)
    # On a quiet machine it is 5 at most.
    assert waited_s <= 10
    lake.wait_for_ids("people", range(3))


def dead_ingest(number: int) -> list[dict[str, Any]]:
    source = {
        "format": "parquet",
        "path": f"s3://{number}-lake/landing/",
        "storeRef": f"dead-{number}",
    }
    return [{"name": "landing", "source": source, "trigger": {"every": "2s"}}]


def test_operations_without_room_hold_no_place(lake: Lake) -> None:
    """The operator has four places; five tables ask for more than any node has."""
    greedy = {**SMALL_RESOURCES, "driver": {"cpu": "200", "memory": "1200Mi"}}
    for number in range(5):
        lake.land(f"greedy-{number}", "a", some_rows(1))
        lake.apply_table(f"greedy-{number}", resources=greedy, **QUICK)
    lake.wait_for("greedy-0", "Ready", "False", reason="OperationStuck", timeout_s=90)
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", **QUICK)
    lake.wait_for_ids("people", range(3))
    # Corrected, it starts at once: the Job that never ran is replaced.
    lake.patch("greedy-0", {"resources": SMALL_RESOURCES})
    lake.wait_for_ids("greedy-0", range(1))


def test_a_quota_is_named_and_goes_on_when_it_is_raised(lake: Lake) -> None:
    lake.forbid_jobs()
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", **QUICK)
    refused = lake.wait_for("people", "Ready", "False", reason="OperationFailed", timeout_s=60)
    assert "exceeded quota" in refused["message"]
    lake.allow_jobs()
    lake.wait_for_ids("people", range(3))


def test_too_little_memory_is_named_and_recovers_with_more(lake: Lake) -> None:
    tiny = {**SMALL_RESOURCES, "driver": {"cpu": "200m", "memory": "900Mi"}}
    # Some kilobytes in the file, 180 MB in memory: too much for the driver alone, so Spark does it.
    rows = [{"id": number, "ts": 1, "name": "x" * 3_000_000 + str(number)} for number in range(60)]
    lake.land("people", "a", rows)
    lake.apply_table("people", resources=tiny, **QUICK)
    failed = lake.wait_for_operation("people", "ingest", "Failed")
    assert "raise spec.resources.executor.memory" in failed["message"], json.dumps(failed)
    more = {**SMALL_RESOURCES["executor"], "memory": "6Gi"}
    lake.patch("people", {"resources": {"driver": {"memory": "2Gi"}, "executor": more}})
    lake.wait_for_ids("people", range(60))


def test_several_tables_are_ingested_at_the_same_time(lake: Lake) -> None:
    names = [f"table-{number}" for number in range(4)]
    for name in names:
        lake.land(name, "a", some_rows(10))
        lake.apply_table(name, **QUICK)
    for name in names:
        lake.wait_for_ids(name, range(10))
    # When the first one ended, all were running.
    spans = [span for name in names for span in driver_spans(lake, name)]
    assert len(spans) == len(names)
    assert max(start for start, _ in spans) < min(end for _, end in spans), spans


def driver_spans(lake: Lake, table: str) -> list[tuple[datetime, datetime]]:
    """When the containers of a table's drivers began and ended."""
    labels = f"{DRIVER},tideline.dev/table={table}"

    def ends() -> list[dict[str, str]]:
        statuses = [
            status
            for pod in lake.pods(labels)
            for status in pod["status"].get("containerStatuses", ())
        ]
        return [item["state"]["terminated"] for item in statuses if "terminated" in item["state"]]

    lake.cluster.wait_until(ends, f"a driver of {table} ends", timeout_s=60)
    return [(moment(end["startedAt"]), moment(end["finishedAt"])) for end in ends()]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_a_namespace_has_no_more_places_than_its_budget(lake: Lake, operator: Operator) -> None:
    names = [f"table-{number}" for number in range(3)]
    with operator.setting(OPERATIONS_PER_NAMESPACE, "1"):
        for name in names:
            lake.land(name, "a", some_rows(10))
            lake.apply_table(name, **QUICK)
        lake.cluster.wait_until(
            lambda: any("is waiting" in said for said in ready_messages(lake, names)),
            "a table says that it waits for a place",
            timeout_s=60,
        )
        for name in names:
            lake.wait_for_ids(name, range(10))
        spans = sorted(span for name in names for span in driver_spans(lake, name))
    assert len(spans) == len(names)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), spans


def ready_messages(lake: Lake, tables: list[str]) -> list[str]:
    found = [condition(lake.get(name), kind) for name in tables for kind in ("Ready", "Ingesting")]
    return [str(item.get("message", "")) for item in found]


def test_services_wait_for_their_window(lake: Lake) -> None:
    closed = {"maintenanceWindow": a_minute_half_a_year_away(), "compaction": EVERY_COMMIT}
    lake.apply_table("people", services=closed, **QUICK)
    for ts in range(2):
        lake.land("people", f"file-{ts}", [{"id": 1, "ts": ts, "name": f"row {ts}"}])
        lake.wait_for_operation("people", "ingest", count=ts + 1)
    found = lake.wait_for("people", "ServicesCurrent", "False", timeout_s=60)
    assert "compaction" in found["message"], found
    assert runs_of(lake, "people", "compaction") == 0
    lake.patch("people", {"services": {"maintenanceWindow": "* * * * *"}})
    lake.wait_for_operation("people", "compaction")
    lake.wait_for("people", "ServicesCurrent", timeout_s=60)
    assert lake.by_id("people")[1]["name"] == "row 1"


def a_minute_half_a_year_away() -> str:
    then = datetime.now(UTC) + timedelta(days=180)
    return f"{then.minute} {then.hour} {then.day} {then.month} *"


def runs_of(lake: Lake, table: str, kind: str) -> int:
    operations = lake.get(table).get("status", {}).get("operations", [])
    return sum(item["kind"] == kind for item in operations)


def test_a_paused_namespace_stands_still(lake: Lake) -> None:
    pause = {"metadata": {"annotations": {"tideline.dev/paused": "true"}}}
    lake.cluster.patch("Namespace", lake.namespace, None, pause)
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", **QUICK)
    assert lake.wait_for("people", "Paused", timeout_s=60)["reason"] == "NamespacePaused"
    assert lake.jobs("people") == []
    resume = {"metadata": {"annotations": {"tideline.dev/paused": None}}}
    lake.cluster.patch("Namespace", lake.namespace, None, resume)
    lake.wait_for_ids("people", range(3))
