"""The first steps of a user: apply a table, land files, query it with another engine."""

from __future__ import annotations

import pytest

from e2e.harness.cluster import condition
from e2e.harness.lake import SMALL_RESOURCES, Lake


@pytest.mark.ci
def test_files_that_land_become_rows_that_hudi_rs_reads_from_outside(lake: Lake) -> None:
    first = [{"id": number, "ts": 1, "name": f"first {number}"} for number in range(100)]
    lake.land("people", "first", first)
    # Executors come with the work.
    executor = {**SMALL_RESOURCES["executor"], "min": 0, "max": 2}
    lake.apply_table("people", resources={**SMALL_RESOURCES, "executor": executor})
    lake.wait_for("people", "Ready")
    assert lake.wait_for_ids("people", range(100)) == {row["id"]: row for row in first}

    changed = [{"id": number, "ts": 2, "name": f"second {number}"} for number in range(50, 150)]
    lake.land("people", "second", changed)
    rows = lake.wait_for_ids("people", range(150))
    assert rows == {row["id"]: row for row in first + changed}


def test_status_reports_what_was_done_and_kubectl_shows_it(lake: Lake) -> None:
    lake.land("people", "first", [{"id": 1, "ts": 1, "name": "Ada"}])
    table = lake.apply_table("people")
    namespace = ["--namespace", lake.namespace]
    lake.cluster.kubectl(
        "wait", "--for=condition=Ready", "laketable/people", "--timeout=240s", *namespace
    )
    lake.wait_for_ids("people", [1])
    done = lake.wait_for_operation("people", "ingest")
    assert (done.get("attempt", 1), done.get("exitCode", 0)) == (1, 0)
    status = lake.get("people")["status"]
    assert status["observedGeneration"] == table["metadata"]["generation"]
    assert status["timeline"]["latest"] == done["instant"]
    for kind in ("Ready", "Ingesting", "Healthy", "ServicesCurrent", "SpecValid"):
        found = condition(lake.get("people"), kind)
        assert found.get("status") == "True", found
        assert found["reason"], found
    assert condition(lake.get("people"), "Paused")["status"] == "False"

    header, line = lake.cluster.kubectl("get", "laketables", *namespace).splitlines()
    columns = ("NAME", "FORMAT", "READY", "LATEST", "PENDING", "FILES", "REASON", "LAG", "AGE")
    assert tuple(header.split()) == columns
    assert line.split()[:4] == ["people", "Hudi", "True", status["timeline"]["latest"]]
    described = lake.cluster.kubectl("describe", "laketable", "people", *namespace)
    assert "Events:" in described
    assert "<none>" not in described.partition("Events:")[2]


def test_services_become_due_and_run(lake: Lake) -> None:
    lake.apply_table(
        "people",
        services={
            "compaction": {"trigger": {"deltaCommits": 2}},
            "cleaning": {"policy": "KEEP_LATEST_COMMITS", "retain": 1},
        },
    )
    for batch in range(3):
        lake.land("people", f"batch-{batch}", [{"id": 1, "ts": batch, "name": f"name {batch}"}])
        lake.wait_for_operation("people", "ingest", count=batch + 1)
    lake.wait_for_operation("people", "compaction")
    lake.wait_for_operation("people", "cleaning")
    assert lake.by_id("people") == {1: {"id": 1, "ts": 2, "name": "name 2"}}
    services = lake.get("people")["status"]["services"]
    assert services["compaction"]["lastRun"]
    assert services["cleaning"]["lastRun"]
