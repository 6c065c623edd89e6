"""The page about the LakeTables of a cluster: those first that need somebody."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.report.fleet_page import FleetRow
from tideline.report.level import Level
from tideline_operator.report.fleet_rows import cluster_page, fleet_row_of
from tideline_operator.report.lake_table_page import lake_table_page
from tideline_operator.resources.schedule import Timestamp


def table(name: str, *conditions: tuple[str, str, str], **status: Any) -> dict[str, Any]:
    listed = [
        dict(zip(("type", "status", "reason"), condition, strict=True)) for condition in conditions
    ]
    return {
        "metadata": {"name": name, "namespace": "lake", "generation": 1},
        "status": {"observedGeneration": 1, "conditions": listed, **status},
    }


NOW_MS = Timestamp.parse("2026-01-31T08:00:00Z").ms


def row_of(item: dict[str, Any]) -> FleetRow:
    return fleet_row_of(item, NOW_MS)


READY = ("Ready", "True", "Current")
DUE = {"services": {"cleaning": {"isDue": True}}}


def test_a_row_has_what_the_status_says() -> None:
    files = {"bytes": 3_000_000, "smallFilePercent": 40}
    row = row_of(table("orders", READY, lagFiles=2, table=files))
    assert (row.name, row.level, row.line) == ("lake/orders", Level.HEALTHY, "nothing is due")
    assert (row.facts["size"], row.facts["small files"]) == ("3.0 MB", "40 %")
    assert row.facts["waits"] == "2 files"
    changes = {"orders": {"lagFiles": 1, "lagRecords": 1_500}}
    assert row_of(table("orders", READY, lagFiles=1, ingest=changes)).facts["waits"] == (
        "1,500 records"
    )


@pytest.mark.parametrize("oldest", ["oldestFileAt", "oldestRecordAt"])
def test_late_and_expensive_tables_show_it(oldest: str) -> None:
    ingest: dict[str, dict[str, str]] = {"a": {oldest: "2026-01-31T07:00:00Z"}, "b": {}}
    spent = {"ingest": {"podMs": 5_400_000}, "clustering": {"podMs": 1_800_000}}
    row = row_of(table("orders", READY, ingest=ingest, spent=spent))
    assert (row.facts["oldest"], row.facts["pod hours"]) == (
        "2026-01-31 07:00 UTC, 60 min ago",
        "2.0",
    )
    assert row.link == "tables/lake/orders"


def test_the_page_of_a_table_has_its_plan_its_operations_and_what_they_took() -> None:
    operation = {
        "kind": "ingest",
        "subject": "orders",
        "phase": "Failed",
        "attempt": 2,
        "startedAt": "2026-01-31T07:00:00.000Z",
        "finishedAt": "2026-01-31T07:01:05.000Z",
        "message": "a column is called <b>",
    }
    page = lake_table_page(
        table(
            "orders",
            READY,
            services={"cleaning": {"isDue": True, "reason": "12 commits"}},
            operations=[operation],
            spent={"ingest": {"runs": 3, "failures": 1, "podMs": 5_400_000, "requests": 1_200}},
            ingest={"orders": {"lagRecords": 7, "retainedBytes": 3_000_000}},
        )
    )
    kept = "<b>3.0 MB</b><span>log kept by the server</span>"
    shown = ("12 commits", "ingest orders", "65 s", "a column is called &lt;b&gt;", "1.50")
    for text in ("7 records", kept, *shown):
        assert text in page, text
    assert "<b>" not in page.split("What they took")[0].split("Operations")[1]
    assert lake_table_page({"metadata": {"name": "d", "namespace": "lake", "generation": 1}})


def test_levels_follow_from_conditions() -> None:
    assert row_of(table("a", READY, **DUE)).level is Level.DUE
    broken = row_of(table("b", ("Ready", "False", "SecretMissing"), **DUE))
    assert (broken.level, broken.line) == (Level.BROKEN, "SecretMissing")
    paused = table("c", ("Ready", "Unknown", "Paused"), ("Paused", "True", "Suspended"))
    assert (row_of(paused).level, row_of(paused).line) == (Level.HEALTHY, "paused")
    new = {"metadata": {"name": "d", "namespace": "lake", "generation": 1}}
    assert row_of(new).level is Level.BROKEN
    dead = table("e", READY, ("Healthy", "False", "DeadWriter"))
    assert (row_of(dead).level, row_of(dead).line) == (Level.DUE, "Healthy: DeadWriter")


def test_many_broken_tables_are_told_by_their_reason() -> None:
    gone = [table(f"gone-{n}", ("Ready", "False", "StoreMissing")) for n in range(30)]
    odd = table("odd", ("Ready", "False", "TableConflict"))
    page = cluster_page([*gone, odd, table("fine", READY)], NOW_MS)
    assert "<b>StoreMissing</b> 30 tables" in page
    assert "<b>TableConflict</b> 1 table<" in page
    assert page.index("StoreMissing") < page.index("TableConflict") < page.index("<section>")
    assert "<b>StoreMissing</b>" not in cluster_page(gone[:2], NOW_MS)


def test_the_page_lists_what_needs_somebody_first() -> None:
    odd = table("odd", ("Ready", "False", "StoreMissing"))
    page = cluster_page([table("fine", READY), odd], NOW_MS)
    assert page.index("lake/odd") < page.index("lake/fine")
    assert "2 LakeTables of this cluster" in page
