"""`tideline run` makes the indexes that a LakeTable lists, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tideline
from tideline.hudi.open_table import open_table
from tideline.storage.location import StoreLocation
from tideline_operator.testing.local_run import run_apart

YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: table
  recordKey: [id]
  ordering: [ts]
  services: {cleaning: {enabled: false}, archiving: {enabled: false}}
  ingest:
  - name: landing
    source: {format: parquet, path: landing}
    maxFilesPerCommit: 1
    trigger: {every: 1h}
"""


def land(folder: Path, number: int, city: str) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    rows = pa.table({"id": [number, number + 1], "ts": [number] * 2, "city": [city] * 2})
    pq.write_table(rows, folder / f"landing/{number}.parquet")


def run(folder: Path, indexes: str, *, exit_code: int = 0) -> list[dict[str, Any]]:
    """What a run finished."""
    (folder / "table.yaml").write_text(f"{YAML}  indexes: [{indexes}]\n")
    events = run_apart(folder, "table.yaml", code=exit_code)
    return [event for event in events if event["event"] == "finished"]


def listed(folder: Path) -> set[str]:
    config = open_table(StoreLocation.of(str(folder / "table"))).config
    return {*config.metadata_partitions} - {"files"}


def status(folder: Path) -> Any:
    stored = json.loads((folder / ".tideline/default.people.status.json").read_text())
    return stored["status"]["services"]["indexing"]


def test_they_are_made_after_the_first_commit_and_kept(tmp_path: Path) -> None:
    land(tmp_path, 0, "x")
    land(tmp_path, 2, "y")
    done = run(tmp_path, "column_stats, record_index")
    assert [event["kind"] for event in done] == ["ingest", "indexing", "ingest"]
    assert done[1]["message"].startswith("made column_stats (")
    assert listed(tmp_path) == {"column_stats", "record_index"}
    assert status(tmp_path)["lastResult"].startswith("made column_stats (")
    assert run(tmp_path, "column_stats, record_index") == []

    # One more in the spec is made at the next run, and one that another process dropped.
    tideline.open(str(tmp_path / "table")).indexes().drop("column_stats")
    (again,) = run(tmp_path, "column_stats, record_index, secondary_index_city")
    (audit,) = again["audit"]
    assert [index["name"] for index in audit["made"]] == ["column_stats", "secondary_index_city"]
    assert listed(tmp_path) == {"column_stats", "record_index", "secondary_index_city"}

    # What is not listed any more stays.
    land(tmp_path, 3, "z")
    assert [event["kind"] for event in run(tmp_path, "record_index")] == ["ingest"]
    assert listed(tmp_path) == {"column_stats", "record_index", "secondary_index_city"}
    rows = tideline.open(str(tmp_path / "table")).to_arrow().to_pylist()
    assert sorted((row["id"], row["city"]) for row in rows) == [
        (0, "x"), (1, "x"), (2, "y"), (3, "z"), (4, "z"),
    ]  # fmt: skip


def test_one_that_cannot_be_made_is_reported_and_stops_no_ingest(tmp_path: Path) -> None:
    land(tmp_path, 0, "x")
    land(tmp_path, 2, "y")
    done = run(tmp_path, "record_index, secondary_index_none", exit_code=1)
    assert [(event["kind"], event["outcome"]) for event in done] == [
        ("ingest", "succeeded"),
        ("indexing", "succeeded"),
        ("ingest", "succeeded"),
        ("indexing", "failed"),
    ]
    assert done[1]["notes"][0].startswith("left undone: secondary_index_none cannot be made")
    assert status(tmp_path)["isDue"]
    assert status(tmp_path)["reason"] == "the table has no secondary_index_none"
    assert listed(tmp_path) == {"record_index"}
