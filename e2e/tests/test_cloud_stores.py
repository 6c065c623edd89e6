"""Tables on another cloud's storage: what differs is the LakeStore, and the scheme of locations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import tideline
from e2e.harness.google_storage import NAME, UNSIGNED, GoogleStorage, unsigned_pods
from e2e.harness.lake import EVERY, SMALL_RESOURCES, Lake, some_rows

ROWS = some_rows(100)


@pytest.fixture
def google(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleStorage]:
    for name, value in UNSIGNED.items():
        monkeypatch.setenv(name, value)
    store = GoogleStorage(lake)
    store.start()
    yield store
    store.stop()


def on_google(name: str, **changes: Any) -> Mapping[str, Any]:
    """What differs from a table on MinIO."""
    source = {"format": "parquet", "path": f"gs://lake/landing/{name}/"}
    return {
        "storeRef": NAME,
        "location": f"gs://lake/{name}",
        "ingest": [{"name": "landing", "source": source, "trigger": {"every": EVERY}}],
        "podTemplate": unsigned_pods(),
        **changes,
    }


def by_id(found: pa.Table) -> Mapping[int, Mapping[str, Any]]:
    rows = found.select(["id", "ts", "name"]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a record key appears twice"
    return {row["id"]: row for row in rows}


def test_a_hudi_table_by_drivers_and_executors_of_spark(lake: Lake, google: GoogleStorage) -> None:
    google.land("landing/people/1.parquet", ROWS)
    services = {"compaction": {"trigger": {"deltaCommits": 1}}}
    lake.apply_table("people", **on_google("people", engine={"small": "Spark"}, services=services))
    lake.wait_for_operation("people", "ingest")
    changed = [{**row, "ts": 2, "name": "changed"} for row in ROWS[:10]]
    google.land("landing/people/2.parquet", changed)
    lake.wait_for_operation("people", "ingest", count=2)
    lake.wait_for_operation("people", "compaction")
    place = google.location("people")
    table = tideline.LakeTable.open(place.uri, storage_options=dict(place.options))
    assert by_id(table.to_arrow()) == {row["id"]: row for row in [*ROWS, *changed]}
    assert not table.check()


def test_an_iceberg_table(lake: Lake, google: GoogleStorage) -> None:
    google.land("landing/orders/1.parquet", ROWS[:50])
    declared = on_google("orders", format="Iceberg", resources=SMALL_RESOURCES)
    table = lake.table("orders", **declared)
    for name in ("type", "ordering"):
        del table["spec"][name]
    lake.cluster.apply(table)
    lake.wait_for_operation("orders", "ingest")
    google.land("landing/orders/2.parquet", ROWS[50:])
    lake.wait_for_operation("orders", "ingest", count=2)
    place = google.location("orders")
    found = tideline.open_iceberg(place.uri, storage_options=dict(place.options))
    assert by_id(found.to_arrow()) == {row["id"]: row for row in ROWS}
