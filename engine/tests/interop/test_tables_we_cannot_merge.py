"""Tables of Hudi's whose rows only Hudi merges, or whose changes it logs: kept in order by us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.capabilities.look import look_at
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import execute_clustering, schedule_clustering
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.file_group import LogFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEYED = {
    "hoodie.table.name": "theirs",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
}
CHANGES_LOGGED = {"hoodie.table.cdc.enabled": "true"}
OWN_PAYLOAD = {
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"
}
KEEP_ONE = {"hoodie.clean.commits.retained": "1"}


@dataclass
class Theirs:
    """A table that only Hudi writes."""

    path: Path
    peer: HudiPeer
    version: int
    options: dict[str, str]

    @property
    def uri(self) -> str:
        return str(self.path)

    @property
    def small(self) -> SmallTable:
        return SmallTable(StoreLocation.of(self.uri))

    @property
    def lake(self) -> LakeTable:
        return LakeTable.open(self.uri)

    @property
    def table(self) -> HoodieTable:
        return open_fresh(StoreLocation.of(self.uri))

    def write(self, rows: pa.Table, operation: str = "upsert", **more: str) -> Instant:
        options = {**self.options, **version_options(self.version), **more}
        self.peer.write(self.uri, rows, operation=operation, options=options)
        return self.newest()

    def newest(self) -> Instant:
        """The newest completed instant."""
        newest = self.table.timeline().completed().last()
        assert newest is not None
        return newest

    def read(self, **options: str) -> list[tuple[str, int]]:
        rows = self.peer.read(self.uri, options=options)
        return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))

    def changes(self, since: Instant) -> list[tuple[str, Any]]:
        """What Hudi says was changed after an instant: the operation, and the key.

        Its ranges are of completion times from version 8 on.
        """
        rows = self.peer.read(
            self.uri,
            options={
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.query.incremental.format": "cdc",
                "hoodie.datasource.read.begin.instanttime": str(since.completed_at or since.time),
            },
        )
        return sorted(zip(rows["op"].to_pylist(), rows["ts_ms"].to_pylist(), strict=True))

    def logs_of_changes(self) -> list[LogFile]:
        return [log for log in self.table.files.log_files() if log.is_cdc]

    def dies_before_its_commit(self, rows: pa.Table) -> InstantTime:
        """A write that is left as a process leaves it that dies right before its commit."""
        instant = self.write(rows)
        timeline = self.path / (".hoodie" if self.version == 6 else ".hoodie/timeline")
        for done in timeline.glob(f"*{instant.time}*commit*"):
            if done.name.lstrip(".").removesuffix(".crc").endswith("commit"):
                done.unlink()
        return instant.time


@pytest.fixture
def theirs(tmp_path: Path, hudi_peer: HudiPeer) -> Callable[..., Theirs]:
    def make(version: int, **options: str) -> Theirs:
        made = Theirs(tmp_path / "theirs", hudi_peer, version, {**KEYED, **options})
        for v in (1, 2, 3):
            made.write(batch(range(8), v), "insert" if v == 1 else "upsert")
        return made

    return make


def cluster(theirs: Theirs) -> None:
    table = theirs.table
    with table.lock().acquire():
        instant = schedule_clustering(table, ClusteringConfig(), commits_max=1)
    assert isinstance(instant, Instant), instant
    engine = InProcessServiceEngine(theirs.table, threads=1)
    config = WriteConfig.from_properties(table.config.properties)
    execute_clustering(theirs.table, instant, engine, config=ServiceConfig(), write_config=config)


def refuses_writes(theirs: Theirs, reason: str) -> None:
    with pytest.raises(UnsupportedTableError, match=reason):
        theirs.small.write("upsert", batch([0], 99))
    for service in ("compaction", "log_compaction"):
        with pytest.raises(UnsupportedTableError, match=reason):
            theirs.lake.run(service)
        assert reason in str(theirs.lake.plan(service).outcome)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_that_logs_its_changes_is_read_cleaned_and_mended(
    theirs: Callable[..., Theirs], version: int
) -> None:
    logged = theirs(version, **CHANGES_LOGGED)
    capabilities = look_at(StoreLocation.of(logged.uri))
    assert {Permission.WRITE, Permission.COMPACTION, Permission.LOG_COMPACTION} == set(
        capabilities.refusals
    )
    refuses_writes(logged, "log of its changes")
    rows = logged.read()
    assert logged.small.values() == rows == [(f"k{n:03d}", 3) for n in range(8)]
    before = logged.logs_of_changes()
    assert len(before) == 4, "two upserts, two partitions"
    newest = max(log.instant for log in before)

    savepoint = create_savepoint(logged.table).instant
    died = logged.dies_before_its_commit(batch(range(4), 9))
    assert any(log.instant == died for log in logged.logs_of_changes())
    (undone,) = logged.lake.recover()
    assert undone.instant == died
    assert not [
        path
        for path in logged.path.rglob("*")
        if str(died) in path.name and ".hoodie" not in path.parts
    ]
    assert logged.read() == rows

    kept = rows
    logged.write(batch(range(8), 4))
    rows = logged.read()
    (cleaned,) = logged.lake.run("cleaning", options=KEEP_ONE).done
    gone = {item["path"] for item in cleaned.to_json_object()["deleted"]}
    assert {log.path for log in before if log.instant < newest} <= gone
    left = logged.logs_of_changes()
    bases = {(file.group, file.instant) for file in logged.table.files.base_files()}
    assert left and all((log.group, log.instant) in bases for log in left)
    assert not [finding for finding in logged.lake.check() if str(finding.severity) == "error"]

    cluster(logged)
    assert logged.small.values() == logged.read() == rows
    since = logged.newest()
    begin = logged.write(batch([1], 5))
    assert logged.read() == sorted({**dict(rows), "k001": 5}.items())
    assert [op for op, _ in logged.changes(since)] == ["u"]

    later = logged.write(batch(range(8), 6))
    assert later.time > begin.time
    restore_table(logged.table, savepoint)
    assert logged.small.values() == logged.read() == kept
    delete_savepoint(logged.table, savepoint)


def test_a_table_with_a_payload_of_its_own_is_cared_for_without_merging(
    theirs: Callable[..., Theirs],
) -> None:
    own = theirs(6, **OWN_PAYLOAD, **{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    refuses_writes(own, "merged in a custom way")
    with pytest.raises(UnsupportedTableError, match="no log is merged"):
        own.small.values()
    rows = own.read()
    assert rows == [(f"k{n:03d}", 3) for n in range(8)]
    savepoint = create_savepoint(own.table).instant
    died = own.dies_before_its_commit(batch(range(4), 9))
    (undone,) = own.lake.recover()
    assert undone.instant == died
    assert own.read() == rows
    assert "those with logs are left alone" in str(
        own.lake.plan("clustering", options={"hoodie.clustering.inline.max.commits": "1"}).outcome
    )
    own.lake.run("cleaning", options=KEEP_ONE)
    own.lake.run("archival")
    assert own.read() == rows
    own.write(batch([1], 7))
    restore_table(own.table, savepoint)
    assert own.read() == rows
    delete_savepoint(own.table, savepoint)
    # Compacted by Hudi its groups have no logs: they are read, and clustered.
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    compacting = replace(own, options=own.options | inline)
    compacting.write(batch(range(8), 8))
    rows = own.read()
    assert own.small.values() == rows
    cluster(own)
    assert own.small.values() == own.read() == rows
    own.write(batch([2], 9))
    assert own.read() == sorted({**dict(rows), "k002": 9}.items())
    assert not [finding for finding in own.lake.check() if str(finding.severity) == "error"]
