"""`tideline run` keeps the table services of small tables running, and the rows stay the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action
from tideline.storage.location import StoreLocation
from tideline_operator.testing.local_run import run_apart

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 7
YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: table
  recordKey: [id]
  ordering: [ts]
  ingest:
  - name: landing
    source: {format: csv, path: landing}
    maxFilesPerCommit: 1
    trigger: {every: 1h}
"""
COPY_ON_WRITE = """
  services:
    clustering: {enabled: true, everyCommits: 4, sortBy: [v]}
    cleaning: {retain: 2}
    archiving: {minCommits: 4, maxCommits: 5}
"""
MERGE_ON_READ = """
  type: MERGE_ON_READ
  properties: {hoodie.parquet.small.file.limit: "0"}
  services:
    compaction: {trigger: {deltaCommits: 3}}
    cleaning: {enabled: false}
    archiving: {enabled: false}
"""


class Workspace:
    """A folder with a resource and files that overlap: each updates half of the one before."""

    def __init__(self, folder: Path, services: str) -> None:
        self.folder = folder
        self.declare(services)
        (folder / "landing").mkdir()
        for number in range(FILES):
            ids = range(number * 5, number * 5 + 10)
            rows = "".join(f"{key},{number},v{number}\n" for key in ids)
            path = folder / f"landing/{number}.csv"
            path.write_text(f"id,ts,v\n{rows}")
            os.utime(path, (number + 1, number + 1))

    def declare(self, services: str) -> None:
        (self.folder / "table.yaml").write_text(YAML + services)

    def run(self) -> list[dict[str, Any]]:
        """The events of a run that ends well."""
        return run_apart(self.folder, "table.yaml")

    def table(self) -> HoodieTable:
        return open_table(StoreLocation.of(str(self.folder / "table")))

    def rows(self) -> dict[int, str]:
        """What the newest base files hold, by id."""
        table = self.table()
        view = table.files.view(table.timeline())
        found: dict[int, str] = {}
        for partition in view.partitions:
            for base_file in view.latest_base_files(partition):
                path = self.folder / "table" / base_file.path
                read = pq.read_table(path, columns=["id", "v"]).to_pydict()
                ids = [int(key) for key in read["id"]]  # text, since nobody declares them
                assert not found.keys() & set(ids)
                found |= dict(zip(ids, read["v"], strict=True))
        return found


def expected() -> dict[int, str]:
    return {key: f"v{min(key // 5, FILES - 1)}" for key in range(FILES * 5 + 5)}


def succeeded(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    finished = [event for event in events if event["event"] == "finished"]
    assert [event for event in finished if event["outcome"] == "failed"] == []
    return [event for event in finished if event["outcome"] == "succeeded"]


def test_cleaning_archival_and_clustering_run_by_themselves_on_copy_on_write(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, COPY_ON_WRITE)
    done = succeeded(workspace.run())
    kinds = [event["kind"] for event in done]
    assert kinds.count("ingest") == FILES
    assert {"cleaning", "clustering", "archival"} <= set(kinds)
    assert workspace.rows() == expected()
    assert len(list(workspace.table().commits.archive().completed())) > 0
    clustering = next(event for event in done if event["kind"] == "clustering")
    (audit,) = clustering["audit"]
    assert {file["what"] for file in audit["files"]} == {"replaced", "written"}
    assert next(event for event in done if event["kind"] == "cleaning")["bytes_deleted"] > 0
    status = json.loads((tmp_path / ".tideline/default.people.status.json").read_text())["status"]
    assert status["services"]["clustering"]["lastResult"].startswith("rewrote")
    cleaning = [event["saved"] for event in done if event["kind"] == "cleaning"]
    assert all(saved["bytes_stored"] > 0 for saved in cleaning)
    saving = status["services"]["cleaning"]["lastSaving"]
    assert saving["bytesStored"] == cleaning[-1]["bytes_stored"]
    assert status["table"]["files"] == 1


def test_compaction_runs_by_itself_and_again_when_asked_and_savepoints_lead_back(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, MERGE_ON_READ)
    kinds = [event["kind"] for event in succeeded(workspace.run())]
    assert kinds[:5] == ["ingest"] * 3 + ["compaction", "ingest"]
    assert kinds.count("compaction") == 2
    workspace.declare(MERGE_ON_READ + "  rerun: {compaction: 1}\n  savepoints: [{name: a}]\n")
    assert [event["kind"] for event in succeeded(workspace.run())] == ["savepoint", "compaction"]
    assert workspace.rows() == expected()
    assert [event["kind"] for event in succeeded(workspace.run())] == []
    workspace.declare(MERGE_ON_READ + "  restoreTo: a\n")
    assert [event["kind"] for event in succeeded(workspace.run())] == ["restore"]
    timeline = workspace.table().timeline().completed()
    assert len(timeline.of(Action.COMMIT)) == 2
    assert len(timeline.of(Action.DELTACOMMIT)) == FILES
    assert [event["kind"] for event in succeeded(workspace.run())] == []
