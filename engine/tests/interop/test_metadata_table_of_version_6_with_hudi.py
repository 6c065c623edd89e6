"""The metadata table of a version 6 table, kept by Hudi and us in turn: by Hudi 1.2, and by 0.15,
to which version 6 is the newest.

Hudi makes the table with its metadata table on, as by default. Readers with it on must find the
rows that those with it off find, after every operation of either engine. It is never given up:
its first instant stays, which nothing archives here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.table_config import COLUMN_STATS, FILES, RECORD_INDEX
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.storage.object_store import AlreadyExists, ObjectStore, Written
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.hudi_peer import version_options
from tideline.testing.shared_folder import SharedFolder
from tideline.testing.small_table import CHEAP, ONCE, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ON = {"hoodie.metadata.enable": "true"}
OFF = {"hoodie.metadata.enable": "false"}
LATE = "before the table's commit"
SKIPPING = {**ON, "hoodie.enable.data.skipping": "true"}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "3"}
NEVER = {"hoodie.metadata.compact.max.delta.commits": "1000"}


@dataclass
class Shared(SharedFolder):
    """A table of Hudi's that both write in turn, and the rows it must hold."""

    table_type: str
    listed: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)

    def timeline(self) -> ActiveTimeline:
        return MetadataTable(self.table.store, self.small.clock).timeline()

    def write(self, operation: str, rows: pa.Table, **options: str) -> tuple[str, ...]:
        self._apply(operation, rows)
        return self.small.write(operation, rows, options=options or None).notes

    def write_with_hudi(self, operation: str, rows: pa.Table, **options: str) -> None:
        self._apply(operation, rows)
        given = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.index.type": "SIMPLE",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **CHEAP,
            **version_options(6),
            **options,
        }
        self.peer.write(str(self.path), rows, operation=operation, options=given)

    def check(self, *, step: str, is_settled: bool = True) -> None:
        """All readers find the rows, and the metadata table lists what a listing finds; where not
        all is settled it has more."""
        expected = sorted(self.rows.items())
        assert sorted(self.small.values()) == expected, step
        found = {
            "hudi, metadata on": self.peer.read(str(self.path), ON),
            "hudi, metadata off": self.peer.read(str(self.path), OFF),
            "hudi, skipping data": self.peer.read(str(self.path), SKIPPING),
        }
        for reader, rows in found.items():
            pairs = zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected, f"{step}: {reader}"
        for v in sorted({v for _, v in expected}):
            rows = self.peer.aggregate(
                str(self.path), f"select id from t where v = {v}", SKIPPING
            ).result
            assert len(rows) == len([key for key, said in expected if said == v]), (step, v)
        assert self.table.config.metadata_partitions == self.listed, step
        assert not is_settled or stale_listing(self.table) == [], step
        wrong = self.small.lake().check(keys=True)
        assert not [finding for finding in wrong if "metadata" in finding.check], (step, wrong)

    def first(self) -> str:
        """The first instant of the metadata table."""
        first = self.timeline().first()
        assert first is not None
        return str(first.time)

    def compactions(self) -> int:
        return len(self.timeline().of(Action.COMMIT).completed())

    def _apply(self, operation: str, rows: pa.Table) -> None:
        for key, v in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True):
            if operation == "delete":
                self.rows.pop(key, None)
            else:
                self.rows[key] = v


BY_DEFAULT = {"hudi_peer": (COLUMN_STATS, FILES), "hudi_0_peer": (FILES,)}
"""What releases of Hudi keep unless options say otherwise, by the fixture."""


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=BY_DEFAULT)
def shared(request: pytest.FixtureRequest, tmp_path: Path, table_type: str) -> Shared:
    made = Shared(tmp_path / "shared", request.getfixturevalue(request.param), table_type)
    made.write_with_hudi("insert", batch(range(6), 1))
    assert made.table.layout.table_version == 6
    made.listed = made.table.config.metadata_partitions
    assert made.listed == BY_DEFAULT[request.param]
    return made


def test_writes_of_both_go_on_with_it(shared: Shared) -> None:
    began = shared.first()
    shared.check(step="Hudi's insert")
    shared.write("upsert", batch([1, 7], 2), **NEVER)
    shared.check(step="our upsert")
    assert FILES in shared.table.config.metadata_partitions
    shared.write_with_hudi("upsert", batch([2, 8], 3), **NEVER)
    shared.check(step="Hudi's upsert")
    shared.write("delete", batch([2, 7], 4), **NEVER)
    shared.check(step="our delete")
    shared.write_with_hudi("delete", batch([8], 5), **NEVER)
    shared.write("upsert", batch([3, 9], 6), **NEVER)
    shared.check(step="ours after Hudi's delete")
    assert shared.first() == began


INDEXED = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}


def test_both_find_keys_by_the_record_index(shared: Shared) -> None:
    shared.write_with_hudi("insert", batch([40, 41, 42], 1), **INDEXED)
    shared.listed = (*shared.listed, RECORD_INDEX)
    shared.check(step="Hudi's index")
    began = shared.first()
    for v in range(2, 8, 2):
        shared.write("upsert", batch([v, 40, v + 50], v), **OFTEN)
        shared.write("delete", batch([v - 1], v), **OFTEN)
        shared.check(step=f"ours at {v}")
        shared.write_with_hudi("upsert", batch([v, v - 1, 41, v + 50], v + 1), **INDEXED, **OFTEN)
        shared.write_with_hudi("delete", batch([v + 50], v + 1), **INDEXED, **OFTEN)
        shared.check(step=f"Hudi's at {v}")
    shared.small.lake().run("clustering", options={**ONCE, **NEVER})
    if shared.table_type == "MERGE_ON_READ":
        shared.small.lake().run("compaction", options={**ONCE, **NEVER})
    shared.write_with_hudi("upsert", batch([0, 40, 41, 60], 9), **INDEXED)
    shared.check(step="Hudi's after our services")
    assert shared.first() == began


def test_compactions_of_both_are_read(shared: Shared) -> None:
    began = shared.first()
    for v in range(2, 5):
        shared.write("upsert", batch([v % 6, v + 5], v), **OFTEN)
    ours = shared.compactions()
    assert ours >= 1
    shared.check(step="our compaction of the metadata table")
    for v in range(5, 10):
        shared.write_with_hudi("upsert", batch([v % 6], v), **OFTEN)
    assert shared.compactions() > ours
    shared.check(step="Hudi's compaction of the metadata table")
    for v in range(10, 13):
        shared.write("upsert", batch([v % 6, v + 5], v), **OFTEN)
    shared.check(step="ours on top")
    assert shared.first() == began


def test_services_of_the_table_go_into_it(shared: Shared) -> None:
    began = shared.first()
    for v in range(2, 6):
        shared.write("upsert", batch([v % 6, v + 5], v), **NEVER)
    if shared.table_type == "MERGE_ON_READ":
        assert shared.small.lake().run("compaction", options={**ONCE, **NEVER})
        shared.check(step="our compaction of the table")
    shared.small.lake().run("clustering", options={**ONCE, **NEVER})
    shared.check(step="our clustering")
    shared.small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1", **NEVER})
    shared.check(step="our clean")
    shared.write_with_hudi("upsert", batch([1], 20), **NEVER)
    shared.check(step="Hudi's upsert after them")
    assert shared.first() == began


@pytest.mark.parametrize("dies", [LATE, "in the metadata table"])
def test_a_rollback_takes_it_out_again(shared: Shared, dies: str) -> None:
    began = shared.first()
    died = die(shared, is_late=dies == LATE)
    shared.check(step="a dead writer's commit", is_settled=False)
    hour_ago = time.time() - 3_600
    for heartbeat in (shared.path / ".hoodie/.heartbeat").iterdir():
        os.utime(heartbeat, (hour_ago, hour_ago))
    assert [rolled.instant for rolled in shared.small.lake().recover()] == [died.time]
    assert shared.timeline().find(died.time) is None
    shared.check(step="our rollback")
    shared.write_with_hudi("upsert", batch([1, 30], 21), **NEVER)
    shared.check(step="Hudi's upsert after it")
    shared.write("upsert", batch([2], 22), **NEVER)
    shared.check(step="ours after that")
    assert shared.first() == began


@pytest.mark.parametrize("dies", [LATE, "in the metadata table"])
def test_hudi_rolls_back_what_we_left(shared: Shared, dies: str) -> None:
    """Its only writer rolls everything back that is pending, by blocks in the logs."""
    began = shared.first()
    died = die(shared, is_late=dies == LATE)
    shared.write_with_hudi("upsert", batch([2, 31], 21), **NEVER)
    assert shared.table.timeline().find(died.time) is None
    shared.check(step="Hudi's rollback and upsert")
    shared.write("upsert", batch([1, 9], 22), **NEVER)
    shared.check(step="ours after it")
    for v in range(23, 27):
        shared.write("upsert", batch([v % 6], v), **OFTEN)
    shared.check(step="our compaction of the metadata table")
    shared.write_with_hudi("upsert", batch([2, 31], 30), **NEVER)
    shared.check(step="Hudi on top")
    assert shared.first() == began


def die(shared: Shared, *, is_late: bool) -> Instant:
    """A write of ours dies before its commit in the table, or before that in the metadata table;
    its instant."""

    def is_last(path: str) -> bool:
        is_commit = path.endswith((".commit", ".deltacommit"))
        return is_commit and path.startswith(".hoodie/metadata/") is not is_late

    dying = DyingStore(shared.table.store, is_last)
    with pytest.raises(SimulatedCrash):
        shared.small.write("upsert", batch([1, 9], 7), store=dying)
    (died,) = shared.table.timeline().pending()
    found = shared.timeline().find(died.time)
    assert found is not None
    assert found.is_completed is is_late
    return died


class DyingStore(FaultyStore):
    """The process dies before it writes one of these paths."""

    def __init__(self, inner: ObjectStore, is_last: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self._is_last = is_last

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        if self._is_last(path):
            self.plan = FaultPlan(crash_before_write=len(self.writes) + 1)
        return super().put_if_absent(path, body, token=token)
