"""The page about the LakeTables of a cluster: those first that need somebody."""

from __future__ import annotations

from typing import Any

from tideline.report.level import Level
from tideline_operator.report.fleet_rows import cluster_page, fleet_row_of


def table(name: str, *conditions: tuple[str, str, str], **status: Any) -> dict[str, Any]:
    listed = [dict(zip(("type", "status", "reason"), one, strict=True)) for one in conditions]
    return {
        "metadata": {"name": name, "namespace": "lake", "generation": 1},
        "status": {"observedGeneration": 1, "conditions": listed, **status},
    }


READY = ("Ready", "True", "Current")
DUE = {"services": {"cleaning": {"isDue": True}}}


def test_a_row_has_what_the_status_says() -> None:
    files = {"bytes": 3_000_000, "smallFilePercent": 40}
    row = fleet_row_of(table("orders", READY, lagFiles=2, table=files))
    assert (row.name, row.level, row.line) == ("lake/orders", Level.HEALTHY, "nothing is due")
    assert (row.facts["size"], row.facts["small files"]) == ("3.0 MB", "40 %")
    assert row.facts["waits"] == "2 files"


def test_levels_follow_from_conditions() -> None:
    assert fleet_row_of(table("a", READY, **DUE)).level is Level.DUE
    broken = fleet_row_of(table("b", ("Ready", "False", "SecretMissing"), **DUE))
    assert (broken.level, broken.line) == (Level.BROKEN, "SecretMissing")
    paused = table("c", ("Ready", "Unknown", "Paused"), ("Paused", "True", "Suspended"))
    assert (fleet_row_of(paused).level, fleet_row_of(paused).line) == (Level.HEALTHY, "paused")
    new = {"metadata": {"name": "d", "namespace": "lake", "generation": 1}}
    assert fleet_row_of(new).level is Level.BROKEN
    dead = table("e", READY, ("Healthy", "False", "DeadWriter"))
    assert (fleet_row_of(dead).level, fleet_row_of(dead).line) == (Level.DUE, "Healthy: DeadWriter")


def test_the_page_lists_what_needs_somebody_first() -> None:
    page = cluster_page([table("fine", READY), table("odd", ("Ready", "False", "StoreMissing"))])
    assert page.index("lake/odd") < page.index("lake/fine")
    assert "2 LakeTables of this cluster" in page
