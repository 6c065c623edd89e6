"""A record index that Hudi made, kept by us: its writers find every key by it, and none twice.

Hudi looks keys up in the index alone and takes the place that it finds. So a key that a commit of
ours left out is stored a second time by Hudi's next upsert, and one that was left in it is lost or
comes back. Queries by key read only the files that the index names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.check.record_index import wrong_places
from tideline.hudi.metadata_table.in_step import was_in_step
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import has_partitioned_record_index
from tideline.hudi.table.table_config import RECORD_INDEX
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.reads_by_statistics import statistics_always_used
from tideline.testing.shared_folder import SharedFolder

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEPT = {
    False: {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.record.index.update.partition.path": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": "3",
    },
    True: {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
    },
}
"""Settings of Hudi's: of an index of the whole table, and of one for each partition."""


def rows(keys: Iterable[int], v: int, shift: int = 0) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "p": [f"p{(key + shift) % 2}" for key in wanted],
            "ts": pa.array([v] * len(wanted), pa.int64()),
        }
    )


@dataclass
class Shared(SharedFolder):
    """A table with a record index that Hudi made, and both write; and what it must hold."""

    version: int
    kind: str
    is_partitioned: bool
    rows: dict[str, tuple[str, int]]

    def by_hudi(
        self,
        keys: Iterable[int],
        v: int,
        operation: str = "upsert",
        shift: int = 0,
        more: Mapping[str, str] | None = None,
    ) -> None:
        given = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **KEPT[self.is_partitioned],
            **version_options(self.version),
            **(more or {}),
        }
        batch = rows(keys, v, 0 if self.is_partitioned else shift)
        self.peer.write(str(self.path), batch, operation=operation, options=given)
        self._note(batch, operation)

    def by_us(self, keys: Iterable[int], v: int, operation: str = "upsert", shift: int = 0) -> None:
        moves = {"hoodie.record.index.update.partition.path": "true"}
        batch = rows(keys, v, 0 if self.is_partitioned else shift)
        self.small.lake().write(batch, operation, options=moves)
        self._note(batch, operation)

    def run(self, service: str, options: Mapping[str, str]) -> None:
        done = self.small.lake().run(service, options=dict(options))
        assert done.done, done

    def check(self, looked_up: Iterable[int] = range(0, 70, 7)) -> None:
        """Each key has its place, both readers find its row, and Hudi finds it by the index."""
        table = self.table
        assert RECORD_INDEX in table.config.metadata_partitions
        timeline = table.timeline()
        assert list(wrong_places(table, table.files.view(timeline), timeline)) == []
        ours = self.small.lake().scan(columns=["id", "p", "ts"]).read_all().to_pylist()
        assert self._of(ours) == self.rows
        name = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"refresh table {name}")
        whole = self.peer.sql(f"select id, p, ts from {name}").to_pylist()
        assert self._of(whole) == self.rows
        wanted = sorted({f"k{key:03}" for key in looked_up} | set(list(self.rows)[:2]))
        listed = ", ".join(f"'{key}'" for key in wanted)
        found = self.peer.sql(f"select id, p, ts from {name} where id in ({listed})").to_pylist()
        there = {key: self.rows[key] for key in wanted if key in self.rows}
        assert self._of(found) == there
        metadata = MetadataTable(table.store, table.clock)
        assert was_in_step(table, metadata, metadata.timeline(), timeline, {RECORD_INDEX})
        assert self._of(self.read_by_us(f"id in ({listed})")) == there

    def read_by_us(self, condition: str) -> list[dict[str, object]]:
        """The rows of a condition, found by the indexes."""
        with statistics_always_used():
            found = self.small.lake().to_arrow(["id", "p", "ts"], condition)
        return [*found.to_pylist()]

    def check_secondary(self, *values: int) -> None:
        """Hudi's queries by a secondary index of `ts` find what there is."""
        assert "secondary_index_ts" in self.table.config.metadata_partitions
        name = self.peer.table_at(str(self.path))
        for value in values:
            found = self.peer.sql(f"select id from {name} where ts = {value}")["id"].to_pylist()
            there = sorted(k for k, (_, ts) in self.rows.items() if ts == value)
            assert sorted(found) == there
            assert sorted(str(row["id"]) for row in self.read_by_us(f"ts = {value}")) == there

    def _note(self, batch: pa.Table, operation: str) -> None:
        for row in batch.to_pylist():
            if operation == "delete":
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = (row["p"], row["ts"])

    @staticmethod
    def _of(found: list[dict[str, object]]) -> dict[object, tuple[object, object]]:
        keys = [row["id"] for row in found]
        assert len(keys) == len(set(keys)), "a key is there twice"
        return {row["id"]: (row["p"], row["ts"]) for row in found}


@pytest.fixture(
    params=[
        (9, "COPY_ON_WRITE", False),
        (9, "MERGE_ON_READ", False),
        (8, "COPY_ON_WRITE", False),
        (8, "MERGE_ON_READ", False),
        (9, "COPY_ON_WRITE", True),
        (9, "MERGE_ON_READ", True),
    ],
    ids=lambda given: f"v{given[0]} {given[1]}{' partitioned' if given[2] else ''}",
)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    version, kind, is_partitioned = request.param
    made = Shared(tmp_path / "shared", hudi_peer, version, kind, is_partitioned, {})
    made.by_hudi(range(8), 1)
    assert has_partitioned_record_index(made.table) == is_partitioned
    return made


def test_both_engines_find_every_key_in_turn(shared: Shared) -> None:
    shared.check()
    shared.by_us([1, 2, 5, 7, 20, 21], 3)
    shared.check()
    shared.by_hudi([2, 3, 20, 21, 31], 4)
    shared.check()
    shared.by_us([4, 31], 5, "delete")
    shared.check()
    shared.by_hudi([4, 5, 31], 6)
    shared.check()
    shared.by_us([2, 4], 7, shift=1)
    shared.check()
    shared.by_hudi([2, 4, 3], 8)
    shared.check()
    shared.by_hudi([3], 9, "delete")
    shared.by_us([3, 40, 41], 10)
    shared.check()
    shared.by_hudi([3, 40, 42], 11, shift=1)
    shared.by_us([3, 40, 42], 12, shift=1)
    shared.check()


def test_services_keep_it(shared: Shared) -> None:
    for v in range(2, 8):
        shared.by_us([v, v + 1, v + 20], v)
    shared.by_us([3, 22], 8, "delete")
    if shared.kind == "MERGE_ON_READ":
        shared.run("log_compaction", {"hoodie.log.compaction.blocks.threshold": "2"})
        shared.check()
        shared.by_us([2, 9], 9)
        shared.small.lake().run(
            "compaction", options={"hoodie.compact.inline.max.delta.commits": "1"}
        )
        shared.check()
    shared.run("clustering", {"hoodie.clustering.inline.max.commits": "1"})
    shared.check()
    shared.by_hudi([2, 3, 61], 10)
    shared.check()
    shared.by_us([2], 11)
    shared.run("cleaning", {"hoodie.clean.commits.retained": "1"})
    shared.check()
    shared.by_hudi([2, 4, 62], 12)
    shared.check()


def test_replaced_partitions_lose_their_keys(shared: Shared) -> None:
    shared.small.lake().write(rows([1, 51], 3), "insert_overwrite")
    shared.rows = {key: row for key, row in shared.rows.items() if row[0] != "p1"}
    shared.rows |= {"k001": ("p1", 3), "k051": ("p1", 3)}
    shared.check()
    shared.by_hudi([1, 3, 51], 4)
    shared.check()
    shared.small.lake().delete_partitions(["p0"])
    shared.rows = {key: row for key, row in shared.rows.items() if row[0] != "p0"}
    shared.check()
    shared.by_hudi([0, 2, 3], 5)
    shared.check()


def test_compactions_of_the_metadata_table_take_it_along(shared: Shared) -> None:
    for v in range(2, 14):
        shared.by_us([v, 2 * v, 30 + v], v)
        if v % 3 == 0:
            shared.by_us([v - 1], v, "delete")
            shared.by_hudi([v + 1, 2 * v], v)
    shared.check()


def test_log_compactions_of_the_metadata_table_are_read(shared: Shared) -> None:
    soon = {
        "hoodie.metadata.log.compaction.enable": "true",
        "hoodie.metadata.log.compaction.blocks.threshold": "2",
        "hoodie.metadata.compact.max.delta.commits": "30",
    }
    for v in range(2, 5):
        shared.by_hudi([v, v + 1, 20 + v], v, more=soon)
    timeline = shared.path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    assert list(timeline.glob("*.logcompaction.requested"))
    shared.check()
    shared.by_us([3, 21, 40], 5)
    shared.by_us([4], 6, "delete")
    shared.check()
    shared.by_hudi([4, 40], 7, more=soon)
    shared.check()
    shared.small.lake().write(
        rows([3, 41], 8), "upsert", options={"hoodie.metadata.compact.max.delta.commits": "1"}
    )
    shared.rows |= {"k003": ("p1", 8), "k041": ("p1", 8)}
    shared.check()
    shared.by_hudi([3, 41], 9, more=soon)
    shared.check()


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_indexes_that_we_make_are_used_and_continued(
    tmp_path: Path, hudi_peer: HudiPeer, kind: str
) -> None:
    made = Shared(tmp_path / "ours", hudi_peer, 9, kind, False, {})
    LakeTable.create(
        made.small.location.uri,
        name="shared",
        record_key="id",
        partition_by="p",
        ordering="ts",
        table_type=kind,
    )
    made.by_us(range(8), 1, "insert")
    made.by_us([1, 2, 20], 3)
    made.by_us([4], 5, "delete")
    for name in (RECORD_INDEX, "secondary_index_ts"):
        made.small.lake().indexes().create(name)
    made.check()
    made.check_secondary(3)
    made.by_hudi([1, 4, 20, 31], 6)
    made.check()
    made.check_secondary(6)
    made.by_us([2, 31], 7, shift=1)
    made.by_us([20], 8, "delete")
    made.check()
    made.check_secondary(6, 7)
    made.by_hudi([2, 20, 40], 9)
    made.check()
    made.check_secondary(9, 7, 1)


def test_keys_that_java_sorts_otherwise_are_found_in_indexes_of_hudi(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    """Hudi sorts them by units of UTF-16 in its files, ours are by bytes."""
    path = tmp_path / "t"
    signs = ("a", "\ue000", "\uff01", "\U0001f600", "\U00010000")
    keys = [f"{signs[number % 5]}{number:03}" for number in range(60)]

    def batch(wanted: list[str], ts: int) -> pa.Table:
        return pa.table({"id": wanted, "ts": pa.array([ts] * len(wanted), pa.int64())})

    kept = {"hoodie.metadata.enable": "true"}
    table = LakeTable.create(str(path), record_key="id", ordering="ts", properties=kept)
    table.write(batch(keys, 1), "insert")
    name = hudi_peer.table_at(str(path))
    settings = {
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        ),
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.metadata.record.index.max.filegroup.count": "1",
    }
    with hudi_peer.settings(settings):
        hudi_peer.run_statement(f"create index record_index on {name} (id)")
    ours = LakeTable.open(str(path))
    assert RECORD_INDEX in ours.hoodie_table.config.metadata_partitions
    assert ours.check(keys=True) == ()
    with statistics_always_used():
        for key in keys:
            assert ours.to_arrow(["id"], [("id", "=", key)]).num_rows == 1, key
        several = keys[1:40:3]
        assert ours.to_arrow(["id"], [("id", "in", several)]).num_rows == len(several)
        report = ours.write(batch(keys[::2], 2), "upsert")
        assert RECORD_INDEX in ours.hoodie_table.properties.reload().metadata_partitions, report
        ours.write(batch(keys[4:7], 3), "delete")
    ours = LakeTable.open(str(path))
    assert sorted(ours.to_arrow(["id"])["id"].to_pylist()) == sorted(keys[:4] + keys[7:])
    assert ours.check(keys=True) == ()
