"""A store of a private authority that demands certificates: drivers and executors show theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.harness.lake import QUICK, Lake, some_rows
from e2e.harness.mutual_tls import NAME, MutualTls

ROWS = some_rows(100)


@pytest.fixture
def demanding(lake: Lake, tmp_path: Path) -> MutualTls:
    front = MutualTls(lake, tmp_path)
    front.start()
    return front


def test_drivers_and_executors_of_spark_show_the_certificate(
    lake: Lake, demanding: MutualTls
) -> None:
    demanding.declare()
    lake.land("people", "1", ROWS)
    services = {"compaction": {"trigger": {"deltaCommits": 1}}}
    lake.apply_table("people", storeRef=NAME, engine={"small": "Spark"}, services=services)
    lake.wait_for_operation("people", "ingest")
    changed = [{**row, "ts": 2, "name": "changed"} for row in ROWS[:10]]
    lake.land("people", "2", changed)
    lake.wait_for_operation("people", "ingest", count=2)
    lake.wait_for_operation("people", "compaction")
    assert lake.by_id("people") == {row["id"]: row for row in [*ROWS, *changed]}


def test_a_store_without_the_certificate_says_so_until_it_names_it(
    lake: Lake, demanding: MutualTls
) -> None:
    demanding.declare(shows=False)
    lake.land("orders", "1", ROWS)
    lake.apply_table("orders", storeRef=NAME, **QUICK)
    refused = lake.wait_for("orders", "Ready", "False")
    assert "the server demands a certificate of its clients" in refused["message"]
    demanding.declare()
    lake.wait_for_ids("orders", [row["id"] for row in ROWS])
