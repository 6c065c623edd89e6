"""`tideline run` of tables and landing folders on Google's and Azure's storage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.storage.location import StoreLocation
from tideline_operator.testing.local_run import run_process

FILES = 4
HUDI = """
  recordKey: [id]
  ordering: [at]
  services: {clustering: {enabled: true, everyCommits: 2}, cleaning: {retain: 2}}
"""
ICEBERG = """
  format: Iceberg
  recordKey: [id]
  services: {rewriteDataFiles: {minInputFiles: 3}}
"""
YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {{name: people}}
spec:
  location: {location}
  storeRef: cloud{table}
  ingest:
  - name: landing
    source: {{format: parquet, path: "{landing}"}}
    operation: {operation}
    maxFilesPerCommit: 1
    trigger: {{every: 1h}}
{store}
"""
CATALOG = """
apiVersion: tideline.dev/v1alpha1
kind: LakeCatalog
metadata: {{name: lake}}
spec:
  location: {location}
  storeRef: cloud
  services: {{quietFor: 1ms, rewriteDataFiles: {{minInputFiles: 2}}}}
{store}
"""
STORE = """
---
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {{name: cloud}}
spec:
  {kind}
  credentials: {{secretName: cloud-credentials}}
"""


@pytest.fixture(params=["gcs_location", pytest.param("azure_location", marks=pytest.mark.azurite)])
def location(request: pytest.FixtureRequest) -> StoreLocation:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, StoreLocation)
    return found


def root_of(location: StoreLocation) -> str:
    return location.uri.removesuffix("/table")


def store_of(location: StoreLocation) -> str:
    options = dict(location.options)
    if location.scheme == "gs":
        return STORE.format(kind=f"gcs: {{endpoint: {options['gcs_endpoint']}}}")
    return STORE.format(kind=f"azure: {{account: tideacct, endpoint: {options['azure_endpoint']}}}")


def land(location: StoreLocation, numbers: range) -> None:
    landing = StoreLocation.of(f"{root_of(location)}/landing", dict(location.options)).open()
    for number in numbers:
        rows = {"id": ["a", f"b{number}"], "at": [number, number]}
        with landing.open_writer(f"{number}.parquet") as sink:
            pq.write_table(pa.table(rows), sink)


def run(folder: Path, text: str, *options: str, code: int = 0) -> list[Mapping[str, Any]]:
    """The events of a run over a file with this text."""
    (folder / "people.yaml").write_text(text)
    done = run_process(folder, "people.yaml", "--json", *options)
    assert done.returncode == code, done.stderr + done.stdout
    shown = done.stdout + done.stderr
    assert "some-bearer-token" not in shown
    return [json.loads(line) for line in done.stdout.splitlines()]


def declared(location: StoreLocation, table: str, operation: str = "upsert") -> str:
    return YAML.format(
        location=location.uri,
        landing=f"{root_of(location)}/landing/",
        table=table.rstrip(),
        operation=operation,
        store=store_of(location),
    )


def test_a_hudi_table_is_fed_and_maintained(location: StoreLocation, tmp_path: Path) -> None:
    land(location, range(FILES))
    run(tmp_path, declared(location, HUDI))
    land(location, range(FILES, FILES + 1))
    (tmp_path / ".tideline/default.people.status.json").unlink()
    run(tmp_path, declared(location, HUDI))
    table = tideline.LakeTable.open(location.uri, storage_options=dict(location.options))
    rows = table.to_arrow(["id", "at"]).to_pylist()
    assert {row["id"]: row["at"] for row in rows} == {
        "a": FILES,
        **{f"b{number}": number for number in range(FILES + 1)},
    }
    assert len(rows) == FILES + 2


def test_an_iceberg_table_is_fed_and_maintained(location: StoreLocation, tmp_path: Path) -> None:
    land(location, range(FILES))
    text = declared(location, ICEBERG, "insert")
    run(tmp_path, text, "--dry-run")
    assert [*location.open().list()] == []
    run(tmp_path, text)
    table = tideline.open_iceberg(location.uri, storage_options=dict(location.options))
    operations = [snapshot.operation for snapshot in table.snapshots]
    assert operations == ["append"] * FILES + ["replace"]
    expected = [*("a" for _ in range(FILES)), *(f"b{number}" for number in range(FILES))]
    assert sorted(table.to_arrow(["id"])["id"].to_pylist()) == expected


def test_the_tables_of_a_folder_are_maintained(location: StoreLocation, tmp_path: Path) -> None:
    options, folder = dict(location.options), root_of(location)
    rows = pa.table({"id": ["a", "b"]})
    places = [f"{folder}/{name}" for name in ("first", "second")]
    for place in places:
        table = tideline.create_iceberg(place, rows.schema, storage_options=options)
        for _ in range(3):
            table.write(rows)
    run(tmp_path, CATALOG.format(location=folder, store=store_of(location)))
    for place in places:
        table = tideline.open_iceberg(place, storage_options=options)
        assert [snapshot.operation for snapshot in table.snapshots][-1] == "replace"


def test_credentials_that_spark_does_not_take_are_refused_by_name(
    gcs_location: StoreLocation, tmp_path: Path
) -> None:
    land(gcs_location, range(1))
    text = declared(gcs_location, HUDI.replace("recordKey", "engine: {small: Spark}\n  recordKey"))
    events = run(tmp_path, text, code=2)
    assert "Spark does not read Google Cloud Storage with the token of GOOGLE_BEARER" in str(events)
