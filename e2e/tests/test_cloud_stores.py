"""Tables on other clouds' storage: what differs is the LakeStore, and the scheme of locations."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import tideline
from e2e.harness.azure_storage import AzureStorage, runs_here
from e2e.harness.cloud_storage import CloudStorage
from e2e.harness.google_storage import GoogleStorage
from e2e.harness.lake import Lake, some_rows

ROWS = some_rows(100)


@pytest.fixture(params=["google", "azure"])
def cloud(
    lake: Lake, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudStorage]:
    if request.param == "azure" and not (runs_here(lake.cluster) and shutil.which("npm")):
        pytest.skip("Azurite needs npm, and a node that reaches this machine")
    store = GoogleStorage(lake) if request.param == "google" else AzureStorage(lake)
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    store.start()
    yield store
    store.stop()


def by_id(found: pa.Table) -> Mapping[int, Mapping[str, Any]]:
    rows = found.select(["id", "ts", "name"]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a record key appears twice"
    return {row["id"]: row for row in rows}


def test_a_hudi_table_by_drivers_and_executors_of_spark(lake: Lake, cloud: CloudStorage) -> None:
    cloud.land("people", "1", ROWS)
    services = {"compaction": {"trigger": {"deltaCommits": 1}}}
    lake.apply_table(
        "people", **cloud.table("people", engine={"small": "Spark"}, services=services)
    )
    lake.wait_for_operation("people", "ingest")
    changed = [{**row, "ts": 2, "name": "changed"} for row in ROWS[:10]]
    cloud.land("people", "2", changed)
    lake.wait_for_operation("people", "ingest", count=2)
    lake.wait_for_operation("people", "compaction")
    place = cloud.location("people")
    table = tideline.LakeTable.open(place.uri, storage_options=dict(place.options))
    assert by_id(table.to_arrow()) == {row["id"]: row for row in [*ROWS, *changed]}
    assert not table.check()


def test_an_iceberg_table(lake: Lake, cloud: CloudStorage) -> None:
    cloud.land("orders", "1", ROWS[:50])
    table = lake.table("orders", **cloud.table("orders", format="Iceberg"))
    for name in ("type", "ordering"):
        del table["spec"][name]
    lake.cluster.apply(table)
    lake.wait_for_operation("orders", "ingest")
    cloud.land("orders", "2", ROWS[50:])
    lake.wait_for_operation("orders", "ingest", count=2)
    place = cloud.location("orders")
    found = tideline.open_iceberg(place.uri, storage_options=dict(place.options))
    assert by_id(found.to_arrow()) == {row["id"]: row for row in ROWS}
