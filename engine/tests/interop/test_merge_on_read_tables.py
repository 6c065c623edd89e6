"""Merge-on-read tables shared with Hudi: our logs, its logs, and what either leaves unfinished."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.table.file_group import LogFile, split_path
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

APPENDS = {"hoodie.parquet.small.file.limit": "0"}
HUDI = {
    **APPENDS,
    "hoodie.table.name": "shared",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.index.type": "SIMPLE",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}


@dataclass
class SharedTable:
    """The table, the rows it must hold, and Hudi. Values only grow, so the later write wins."""

    ours: SmallTable
    folder: Path
    peer: HudiPeer
    version: int
    model: dict[str, int] = field(default_factory=dict)

    def apply(self, operation: str, rows: pa.Table) -> None:
        for key, value in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True):
            if operation == "delete":
                self.model.pop(key, None)
            else:
                self.model[key] = value

    def write(self, operation: str, rows: pa.Table) -> None:
        self.apply(operation, rows)
        self.ours.write(operation, rows)

    def write_with_hudi(self, operation: str, rows: pa.Table) -> None:
        self.apply(operation, rows)
        options = {**HUDI, **version_options(self.version)}
        self.peer.write(str(self.folder), rows, operation=operation, options=options)

    def check(self) -> None:
        """We, Hudi and hudi-rs see the model's rows."""
        expected = sorted(self.model.items())
        assert self.ours.values() == expected
        for found in (
            self.peer.read(str(self.folder)),
            self.peer.read_with_hudi_rs(str(self.folder)),
        ):
            pairs = zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected

    def newest_delta(self) -> InstantTime:
        deltas = open_fresh(self.ours.location).timeline().of(Action.DELTACOMMIT).completed()
        newest = deltas.last()
        assert newest is not None
        return newest.time

    def take_back(self) -> InstantTime:
        """Make the newest delta commit what its writer leaves when it dies before completing it."""
        opened = open_fresh(self.ours.location)
        instant = opened.timeline().find(self.newest_delta())
        assert instant is not None
        for stat in opened.timelines.read_commit(instant).write_stats:
            partition, name = split_path(stat.path or "")
            appends = stat.log_version is not None and opened.layout.names.logs_name_slice
            kind = MarkerKind.APPEND if appends else MarkerKind.CREATE
            create_marker(opened.store, instant.time, Marker(partition, name, kind))
        opened.timelines.remove(instant)
        folder, name = split_path(opened.timelines.path(instant))
        (self.folder / folder / f".{name}.crc").unlink(missing_ok=True)
        return instant.time

    def command_logs(self) -> list[LogFile]:
        logs = open_fresh(self.ours.location).files.log_files()
        return [log for log in logs if log.size_bytes < 200]

    @property
    def commands_of_a_rollback(self) -> int:
        """In the two file groups that were appended to; other versions delete the logs."""
        return 2 if self.version == 6 else 0


@pytest.fixture(params=[(6, "parquet"), (6, "avro"), (8, "avro"), (9, "parquet"), (9, "avro")])
def table(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> SharedTable:
    version, block_format = request.param
    folder = tmp_path / "shared"
    properties = {**APPENDS, "hoodie.logfile.data.block.format": block_format}
    ours = SmallTable.create(
        StoreLocation.of(str(folder)),
        None,
        properties,
        table_type=TableType.MERGE_ON_READ,
        ordering=["v"],
        table_version=version,
    )
    return SharedTable(ours, folder, hudi_peer, version)


def test_both_write_in_turn(table: SharedTable) -> None:
    table.write("insert", batch(range(12), 1))
    table.write("upsert", batch(range(0, 16, 3), 2))
    table.write("delete", batch([1, 2], 0))
    table.check()
    table.write_with_hudi("upsert", batch([0, 3, 5, 20], 3))
    table.write_with_hudi("delete", batch([6, 12], 9))
    table.check()
    table.write("upsert", batch([0, 5, 6, 20, 21], 10))
    table.write("delete", batch([3], 0))
    table.check()


def test_hudi_rolls_back_our_unfinished_appends(table: SharedTable) -> None:
    table.write("insert", batch(range(8), 1))
    table.ours.write("upsert", batch([0, 1, 30], 2))
    dead = table.take_back()
    table.check()
    table.write_with_hudi("upsert", batch([2, 3], 3))
    assert open_fresh(table.ours.location).timeline().find(dead) is None
    table.check()
    assert len(table.command_logs()) == table.commands_of_a_rollback
    table.write("upsert", batch([0, 1], 4))
    table.check()


def test_we_roll_back_hudis_unfinished_appends(table: SharedTable) -> None:
    table.write("insert", batch(range(8), 1))
    table.write_with_hudi("upsert", batch([2, 3], 2))
    options = {**HUDI, **version_options(table.version)}
    table.peer.write(
        str(table.folder), batch([0, 1, 2, 30], 3), operation="upsert", options=options
    )
    dead = table.take_back()
    table.check()
    rolled = table.ours.lake().recover()
    assert [item.instant for item in rolled] == [dead]
    assert len(table.command_logs()) == table.commands_of_a_rollback
    table.check()
    table.write_with_hudi("upsert", batch([0, 1], 4))
    table.write("upsert", batch([1, 2], 5))
    table.check()
    undone = table.peer.rollbacks(str(table.folder))
    assert [item.instants for item in undone] == [(str(dead),)]
