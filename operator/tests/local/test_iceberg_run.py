"""`tideline run` maintains an Iceberg table that Spark wrote, until nothing is due any more."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tideline.iceberg.table.open_table import IcebergTable
from tideline.storage.location import StoreLocation
from tideline.testing.iceberg_peer import IcebergPeer
from tideline_operator.testing.local_run import run_apart

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.interop]

APPENDS = 6
DAYS_AGO_S = 10 * 86_400.0
YAML = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {{name: orders}}
spec:
  format: Iceberg
  location: {location}{store_ref}
  services:
    mode: {mode}
    rewriteManifests: {{minManifests: 2}}
    expireSnapshots: {{olderThan: 1ms, retainLast: 1}}
    removeOrphanFiles: {{mode: {orphans}}}
"""
STORE = """
---
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {{name: minio}}
spec:
  endpoint: {endpoint}
  credentials: {{secretName: minio-credentials}}
"""


class Workspace:
    """A folder with a LakeTable about the peer's table `lake.shop.orders`."""

    def __init__(self, folder: Path, peer: IcebergPeer) -> None:
        self.folder = folder
        self.peer = peer
        self.location = peer.warehouse / "shop" / "orders"
        self.stray = self.location / "data" / "stray.parquet"

    def fill(self) -> None:
        """Small files in two partitions, some of whose rows are deleted by position."""
        self.peer.run(
            "drop table if exists lake.shop.orders",
            "create table lake.shop.orders (id bigint, region string, amount decimal(10,2)) "
            "using iceberg partitioned by (region) tblproperties("
            "'format-version'='2', 'write.delete.mode'='merge-on-read')",
        )
        for number in range(APPENDS):
            self.peer.run(
                "insert into lake.shop.orders select id, if(id % 2 = 0, 'north', 'south'), id / 4 "
                f"from range({number * 50}, {number * 50 + 50})"
            )
        self.peer.run("delete from lake.shop.orders where id % 7 = 3")
        self.stray.write_bytes(b"left behind")
        old_s = self.stray.stat().st_mtime - DAYS_AGO_S
        os.utime(self.stray, (old_s, old_s))

    def declare(
        self, mode: str = "Auto", orphans: str = "Advise", bucket: StoreLocation | None = None
    ) -> None:
        place, store_ref, store = str(self.location), "", ""
        if bucket is not None:
            place, store_ref = bucket.uri, "\n  storeRef: minio"
            store = STORE.format(endpoint=dict(bucket.options)["endpoint"])
        text = YAML.format(location=place, store_ref=store_ref, mode=mode, orphans=orphans)
        (self.folder / "orders.yaml").write_text(text + store)

    def upload(self, bucket: StoreLocation) -> None:
        """Copy the table as it is."""
        store = bucket.open()
        for path in filter(Path.is_file, self.location.rglob("*")):
            store.put(path.relative_to(self.location).as_posix(), path.read_bytes())

    def download(self, bucket: StoreLocation) -> None:
        """Copy the table back to where its metadata says it is."""
        shutil.rmtree(self.location)
        store = bucket.open()
        for info in store.list():
            path = self.location / info.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(store.get(info.path))

    def run(self, exit_code: int = 0) -> list[dict[str, Any]]:
        """The events of a run."""
        return run_apart(self.folder, "orders.yaml", code=exit_code)

    def rows(self) -> list[tuple[Any, ...]]:
        """What Iceberg's own Spark runtime reads."""
        return sorted(tuple(row.values()) for row in self.peer.read(str(self.location)).to_pylist())

    def status(self) -> dict[str, Any]:
        path = self.folder / ".tideline/default.orders.status.json"
        content: dict[str, Any] = json.loads(path.read_text())["status"]
        return content


@pytest.fixture
def workspace(tmp_path: Path, iceberg_peer: IcebergPeer) -> Workspace:
    made = Workspace(tmp_path, iceberg_peer)
    made.fill()
    return made


def finished(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ended, by kind, in order; nothing failed."""
    ends = [event for event in events if event["event"] == "finished"]
    assert [event for event in ends if event["outcome"] == "failed"] == []
    return {event["kind"]: event for event in ends}


def resting(events: list[dict[str, Any]]) -> dict[str, Any]:
    return [event for event in events if event["event"] == "resting"][-1]


def test_maintenance_runs_until_nothing_is_due_and_the_rows_stay(workspace: Workspace) -> None:
    expected = workspace.rows()
    workspace.declare(orphans="Auto")
    events = workspace.run()
    done = finished(events)
    assert next(iter(done)) == "rewrite"
    assert {"expire", "orphans", "rewrite-deletes"} <= set(done)
    assert (done["rewrite"]["files_read"], done["rewrite"]["files_written"]) == (2 * APPENDS, 2)
    assert done["expire"]["files_deleted"] > 2 * APPENDS
    assert not any(service["due"] for service in resting(events)["services"].values())
    assert not workspace.stray.exists()
    assert workspace.rows() == expected
    metadata = IcebergTable.open(str(workspace.location)).metadata
    assert len(metadata.snapshots) == 1
    status = workspace.status()
    assert status["timeline"]["latest"] == str(metadata.current_snapshot_id)
    assert status["table"]["files"] == 2
    assert "deleteFiles" not in status["table"]
    counts = status["services"]["rewriteDataFiles"]["lastFigures"]
    assert (counts["filesBefore"], counts["filesAfter"]) == (2 * APPENDS, 2)
    assert counts["bytesBefore"] > counts["bytesAfter"] > 0
    saving = status["services"]["rewriteDataFiles"]["lastSaving"]
    assert saving["filesOpened"] >= 2 * APPENDS - 2
    assert saving["benefitBytes"] == done["rewrite"]["saved"]["benefit_bytes"]
    assert done["expire"]["saved"]["bytes_stored"] == done["expire"]["bytes_deleted"]
    assert finished(workspace.run()) == {}
    workspace.peer.run("refresh table lake.shop.orders")
    workspace.peer.run("insert into lake.shop.orders values (1000, 'north', 1.5)")
    assert len(workspace.rows()) == len(expected) + 1


@pytest.mark.minio
def test_a_copy_of_the_table_in_a_bucket_is_maintained_there(
    workspace: Workspace, s3_location: StoreLocation
) -> None:
    expected = workspace.rows()
    workspace.upload(s3_location)
    workspace.declare(bucket=s3_location)
    done = finished(workspace.run())
    assert {"rewrite", "rewrite-deletes", "expire"} <= set(done)
    assert finished(workspace.run()) == {}
    workspace.download(s3_location)
    assert workspace.rows() == expected
    assert len(set(workspace.location.rglob("*.parquet")) - {workspace.stray}) == 2


def test_advice_changes_nothing(workspace: Workspace) -> None:
    before = IcebergTable.open(str(workspace.location)).loaded.metadata_location
    workspace.declare(mode="Advise")
    events = workspace.run()
    assert finished(events) == {}
    advised = {item["advice"] for item in resting(events)["next"] if "advice" in item}
    assert {"rewriteDataFiles", "expireSnapshots", "removeOrphanFiles"} <= advised
    assert IcebergTable.open(str(workspace.location)).loaded.metadata_location == before
    assert workspace.stray.exists()
