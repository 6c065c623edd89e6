"""Merge-on-read tables whose changes Hudi logs: we keep them in order, Hudi's CDC query continues.

A write that adds keys to a slice without logs merges its base file, with a log of changes next to
it. Other upserts, and deletes, go to ordinary log files, which Hudi 1.2 cannot make changes of on a
version 6 table: it takes the commit for Avro
(HoodieCommitMetadata.getDependentFileSliceForFileGroupFromDeltaCommit). They come before and after
the commits whose changes are asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OPTIONS = {
    "hoodie.table.name": "changes",
    "hoodie.table.cdc.enabled": "true",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
DUE = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
Change = tuple[str, str | None, str | None]


@dataclass
class ChangesLogged:
    """A table that only Hudi writes."""

    path: Path
    peer: HudiPeer
    version: int
    has_metadata: bool

    @property
    def uri(self) -> str:
        return str(self.path)

    @property
    def lake(self) -> LakeTable:
        return LakeTable.open(self.uri)

    @property
    def table(self) -> HoodieTable:
        return open_fresh(StoreLocation.of(self.uri))

    def write(self, rows: pa.Table, operation: str = "upsert", **more: str) -> Instant:
        """The instant of the write."""
        metadata = {"hoodie.metadata.enable": str(self.has_metadata).lower()}
        options = {**OPTIONS, **version_options(self.version), **metadata, **more}
        self.peer.write(self.uri, rows, operation=operation, options=options)
        newest = self.table.timeline().writes().completed().last()
        assert newest is not None
        return newest

    def rows(self) -> list[tuple[str, int]]:
        """What Hudi reads, which has to be what we read."""
        read = self.peer.read(self.uri)
        rows = sorted(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))
        assert SmallTable(StoreLocation.of(self.uri)).values() == rows
        return rows

    def changes(self, since: Instant, until: Instant) -> list[Change]:
        """What Hudi says was changed after an instant: operation, row before and row after.

        Its ranges are of completion times from version 8 on.
        """
        read = self.peer.read(
            self.uri,
            options={
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.query.incremental.format": "cdc",
                "hoodie.datasource.read.begin.instanttime": str(since.completed_at or since.time),
                "hoodie.datasource.read.end.instanttime": str(until.completed_at or until.time),
            },
        )
        images = [
            (op, _image(before), _image(after))
            for op, before, after in zip(
                read["op"].to_pylist(),
                read["before"].to_pylist(),
                read["after"].to_pylist(),
                strict=True,
            )
        ]
        return sorted(images, key=repr)

    def logs_of_changes(self) -> list[LogFile]:
        return [log for log in self.table.files.log_files() if log.is_cdc]

    def dies_before_its_commit(self, rows: pa.Table) -> InstantTime:
        """A write that is left as a process leaves it that dies right before its commit."""
        instant = self.write(rows)
        timeline = self.path / (".hoodie" if self.version == 6 else ".hoodie/timeline")
        for done in timeline.glob(f"*{instant.time}*deltacommit*"):
            if done.name.lstrip(".").removesuffix(".crc").endswith("deltacommit"):
                done.unlink()
        return instant.time


def _image(text: str | None) -> str | None:
    """Key and value in a row's image, which is JSON, its null too."""
    row: dict[str, Any] | None = json.loads(text) if text else None
    return None if row is None else f"{row['id']}={row['v']}"


def placed(v: int, **partitions: str) -> pa.Table:
    """Rows of these keys in these partitions."""
    columns = {
        "id": list(partitions),
        "part": list(partitions.values()),
        "v": [v] * len(partitions),
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize("has_metadata", [False, True])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_services_of_ours_leave_the_changes_to_hudis_cdc_query(
    tmp_path: Path, hudi_peer: HudiPeer, version: int, has_metadata: bool
) -> None:
    logged = ChangesLogged(tmp_path / "changes", hudi_peer, version, has_metadata)
    logged.write(batch(range(8), 1), "insert")
    logged.write(batch(range(6), 2))
    logged.write(batch([7], 2), "delete")
    since = logged.write(batch(range(8), 3), **COMPACTS)
    assert logged.table.timeline().of(Action.COMMIT).completed().instants, "Hudi compacted"
    logged.write(placed(4, k40="p2", k41="p3", k42="p4", k43="p4"), "insert")
    until = logged.write(placed(5, k40="p2", k60="p2", k41="p3", k61="p3"))
    rows, changes = logged.rows(), logged.changes(since, until)
    inserted = [("i", None, key) for key in ("k40=4", "k41=4", "k42=4", "k43=4", "k60=5", "k61=5")]
    assert changes == [*inserted, ("u", "k40=4", "k40=5"), ("u", "k41=4", "k41=5")]
    savepoint = create_savepoint(logged.table).instant

    def unchanged() -> None:
        assert logged.rows() == rows
        assert logged.changes(since, until) == changes

    # One fails that merged a base file, and one that wrote logs.
    fills_up = placed(9, k42="p4", k62="p4")
    for rows_lost, logs_changes in ((fills_up, True), (batch([0, 1], 9), False)):
        died = logged.dies_before_its_commit(rows_lost)
        assert any(log.instant == died for log in logged.logs_of_changes()) is logs_changes
        (undone,) = logged.lake.recover()
        assert undone.instant == died
        assert not any(log.instant == died for log in logged.logs_of_changes())
        unchanged()

    logged.write(batch([1, 91], 10))
    logged.write(batch([2], 10), "delete")
    restore_table(logged.table, savepoint)
    unchanged()
    delete_savepoint(logged.table, savepoint)

    (cleaned,) = logged.lake.run("cleaning", options=DUE).done
    assert cleaned.to_json_object()["deleted"]
    unchanged()
    archival = logged.lake.run("archival", options=DUE)
    if version > 6 and has_metadata:
        # The restore rebuilt it.
        assert "the metadata table has not been compacted yet" in str(archival.not_due)
    else:
        assert archival.done
        assert logged.peer.archived_timeline(logged.uri)
    unchanged()

    # Hudi continues, in logs first and then in the base file of the write that failed.
    logged.write(batch([3], 11))
    begun = logged.write(batch([4], 11), **COMPACTS)
    done = logged.write(fills_up)
    new = {"k003": 11, "k004": 11, "k42": 9, "k62": 9}
    assert logged.rows() == sorted({**dict(rows), **new}.items())
    assert logged.changes(begun, done) == [("i", None, "k62=9"), ("u", "k42=4", "k42=9")]
    assert not [finding for finding in logged.lake.check() if str(finding.severity) == "error"]
