"""Builds of indexes of Hudi's that died at any of their steps, with commits that they did not live
to add: refused by name, ended on demand, made again here, and Hudi's queries and writes after it.

A step is what a build leaves that is done, without what came later (`STEPS`, the order in which
Hudi 1.2 writes).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SECONDARY, EXPRESSION = "secondary_index_v", "expr_index_e"
STEPS = ("requested", "inflight", "half its files", "its files", "listed", "in work", "cleared")
NEEDED = {PARTITION_STATS: COLUMN_STATS, SECONDARY: RECORD_INDEX}
BY_SQL = {
    SECONDARY: "create index v on {} (v)",
    EXPRESSION: (
        "create index e on {} using column_stats(v) options(expr='from_unixtime', format='yyyy')"
    ),
}
LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.auto.upgrade": "false",
}
NO_STATISTICS = {"hoodie.metadata.index.column.stats.enable": "false"}
ENABLED = {
    COLUMN_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    PARTITION_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    BLOOM_FILTERS: {**NO_STATISTICS, "hoodie.metadata.index.bloom.filter.enable": "true"},
    RECORD_INDEX: {**NO_STATISTICS, "hoodie.metadata.global.record.level.index.enable": "true"},
}
WHERE = ("v = 7", "id in ('k000', 'k009')", "v < 5 and part = 'p1'")
SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")
DEFINITIONS = ".hoodie/.index_defs/index.json"


@dataclass
class Built:
    """A table, the index that is built on it, and a copy where Hudi has built it."""

    peer: HudiPeer
    small: SmallTable
    name: str
    index: str
    folder: Path
    twin: Path

    def sql(self, statement: str) -> None:
        self.peer.run_statement(statement.format(self.name))

    def opened(self) -> HoodieTable:
        return self.small.lake().hoodie_table

    def build_on_twin(self, version: int) -> None:
        shutil.copytree(self.folder, self.twin)
        if self.index in BY_SQL:
            twin = f"{self.name}_twin"
            self.sql(f"create table {twin} using hudi location '{self.twin}'")
            self.peer.run_statement(BY_SQL[self.index].format(twin))
        else:
            options = {**LOCK, **ENABLED[self.index], "hoodie.write.table.version": str(version)}
            self.peer.build_index(str(self.twin), self.index, options)

    def die_at(self, step: str) -> None:
        """Leave in the table what the build has left in the twin by this step."""
        reached = STEPS.index(step)
        for found in _built_files(self.twin, ".hoodie", ".indexing."):
            if "requested" in found.name or reached > 0:
                shutil.copy(found, self.folder / found.relative_to(self.twin))
        if self.index in BY_SQL or reached > 1:
            (self.folder / DEFINITIONS).parent.mkdir(exist_ok=True)
            if (self.twin / DEFINITIONS).exists():
                shutil.copy(self.twin / DEFINITIONS, self.folder / DEFINITIONS)
                path = {"hoodie.table.index.defs.path": DEFINITIONS}
                self.opened().properties.update(path)
        if reached > 1:
            self._copy_files(only_half=step == "half its files")
        table = self.opened()
        listed = {*table.config.metadata_partitions}
        if reached > 3:
            listed.add(self.index)
        lists = {METADATA_PARTITIONS: ",".join(sorted(listed))}
        if step == "in work":
            lists[METADATA_PARTITIONS_INFLIGHT] = self.index
        table.properties.update(lists)
        make_old(self.folder)

    def _copy_files(self, *, only_half: bool) -> None:
        """The partition's files, and the commit to the metadata table that has them."""
        metadata = Path(".hoodie/metadata")
        there = sorted((self.twin / metadata / self.index).iterdir())
        names = [found.name for found in there if found.suffix == ".hfile"]
        instant = re.sub(r"^.*_(\d+)\.hfile$", r"\1", names[0])
        there = [found for found in there if instant in found.name or "partition" in found.name]
        if only_half:
            there = [found for found in there if found.name not in names[1:]]
        (self.folder / metadata / self.index).mkdir()
        for found in there:
            shutil.copy(found, self.folder / metadata / self.index / found.name)
        for found in _built_files(self.twin, str(metadata / ".hoodie"), ".deltacommit"):
            is_done = not found.name.endswith((".requested", ".inflight"))
            if found.name.startswith(instant) and not (only_half and is_done):
                shutil.copy(found, self.folder / found.relative_to(self.twin))

    def assert_right(self) -> None:
        self.sql("refresh table {}")
        for where in WHERE:
            query = f"select id, v from {self.name} where {where}"
            found = self.peer.sql(query).to_pylist()
            with self.peer.settings(dict.fromkeys(SKIPPING, "false")):
                expected = self.peer.sql(query).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, expected)), where
        table = self.opened()
        errors = [f.message for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
        assert errors == []
        assert stale_listing(table) == []
        assert believed_without_partition(table, table.config.metadata_partitions) == ()


def _built_files(folder: Path, below: str, part: str) -> Iterator[Path]:
    """Objects of a timeline in either layout, without what Hadoop keeps beside them."""
    for timeline in (folder / below, folder / below / "timeline"):
        if timeline.exists():
            files = (found for found in timeline.iterdir() if found.is_file())
            yield from (f for f in files if part in f.name and not f.name.endswith(".crc"))


def make_old(folder: Path) -> None:
    for found in _built_files(folder, ".hoodie", ".indexing."):
        if not found.name.endswith((".requested", ".inflight")):
            # The build was not done.
            found.unlink()
            continue
        long_ago_s = found.stat().st_mtime - DEFAULT_LIMITS.silent_s_max - 1
        os.utime(found, (long_ago_s, long_ago_s))


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    with hudi_peer.settings({**LOCK, **NO_STATISTICS}, *SKIPPING, "hoodie.write.table.version"):
        yield hudi_peer


def made(
    session: HudiPeer, tmp_path: Path, index: str, version: int, needed: Sequence[str] = ()
) -> Built:
    """A table of ours that Hudi's SQL has under a name; nothing is built on its twin yet."""
    small = SmallTable.create(
        StoreLocation.of(tmp_path / "t"),
        table_version=version,
        properties={"hoodie.metadata.enable": "true"},
    )
    small.write("insert", batch(range(6), 1), options=QUIET)
    for name in needed:
        small.lake().indexes({}).create(name)
    name = f"b{abs(hash(str(tmp_path)))}"
    built = Built(session, small, name, index, tmp_path / "t", tmp_path / "twin")
    built.sql(f"set hoodie.write.table.version={version}")
    built.sql(f"create table {{}} using hudi location '{tmp_path / 't'}'")
    return built


CASES = [
    *((RECORD_INDEX, 9, step) for step in STEPS),
    *((SECONDARY, 9, step) for step in ("requested", "half its files", "its files", "listed")),
    (RECORD_INDEX, 8, "in work"),
    *((COLUMN_STATS, 9, step) for step in STEPS),
    *((PARTITION_STATS, 9, step) for step in ("inflight", "half its files", "listed")),
    *((BLOOM_FILTERS, 9, step) for step in ("requested", "half its files", "listed")),
    *((COLUMN_STATS, 8, step) for step in ("its files", "listed")),
    (PARTITION_STATS, 8, "in work"),
    (BLOOM_FILTERS, 8, "listed"),
    *((name, 6, "half its files") for name in (COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX)),
    *((name, 6, "listed") for name in (COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX)),
    (RECORD_INDEX, 6, "in work"),
]


@pytest.mark.parametrize(("index", "version", "step"), CASES)
def test_a_dead_build_of_hudi_is_refused_and_ended(
    session: HudiPeer, tmp_path: Path, index: str, version: int, step: str
) -> None:
    needed = [NEEDED[index]] if index in NEEDED else []
    built = made(session, tmp_path, index, version, needed)
    small = built.small
    built.build_on_twin(version)
    # What completed while it was built, and was not added: a value and two keys.
    built.sql("update {} set v = 7 where id = 'k000'")
    built.sql("insert into {} (id, v, part) values ('k011', 7, 'p1'), ('k012', 3, 'p5')")
    built.die_at(step)

    if step == "requested":
        small.write("upsert", batch([1], 7), options=QUIET)
    else:
        with pytest.raises(ConflictError, match=f"tideline index drop {index} --end-build"):
            small.write("upsert", batch([1], 7), options=QUIET)
    assert ("k011", 7) in small.values()
    gone = small.lake().indexes({}).drop(index, end_build=True)
    assert (index in gone) == (step not in ("requested", "inflight") or index in BY_SQL)
    small.write("upsert", batch([1, 9], 7), options=QUIET)
    built.sql("update {} set v = 7 where id = 'k002'")
    built.sql("insert into {} (id, v, part) values ('k013', 7, 'p1')")
    built.assert_right()
    for again in (NEEDED.get(index, index), index):
        if again != EXPRESSION and again not in built.opened().config.metadata_partitions:
            small.lake().indexes({}).create(again)
    small.write("upsert", batch([3, 14], 7), options=QUIET)
    small.write("delete", batch([4], 7), options=QUIET)
    built.sql("update {} set v = 7 where id = 'k005'")
    built.assert_right()
    assert json.dumps(small.values()).count("k012") == 1


BEGUN = [
    (COLUMN_STATS, 9, "half its files"),
    (RECORD_INDEX, 9, "its files"),
    (BLOOM_FILTERS, 8, "half its files"),
    (RECORD_INDEX, 6, "half its files"),
    (BLOOM_FILTERS, 6, "its files"),
]


@pytest.mark.parametrize(("index", "version", "step"), BEGUN)
def test_an_index_that_a_write_of_hudi_died_making_is_not_believed(
    session: HudiPeer, tmp_path: Path, index: str, version: int, step: str
) -> None:
    """A write makes what its settings enable before it begins, without an instant of its own."""
    built = made(session, tmp_path, index, version)
    small, enabled = built.small, ENABLED[index]
    shutil.copytree(built.folder, built.twin)
    twin = f"{built.name}_twin"
    built.sql(f"create table {twin} using hudi location '{built.twin}'")
    built.sql("update {} set v = 7 where id = 'k000'")
    with session.settings(enabled):
        built.sql(f"update {twin} set v = 7 where id = 'k000'")
    built.die_at(step)
    small.write("upsert", batch([1, 9], 7), options=QUIET)
    assert index not in built.opened().config.metadata_partitions_in_work
    built.assert_right()
    # Hudi makes it with its next write, as if nothing had been there; and so do we.
    with session.settings(enabled):
        built.sql("update {} set v = 7 where id = 'k002'")
    assert index in built.opened().config.metadata_partitions
    small.write("upsert", batch([3, 14], 7), options=QUIET)
    built.assert_right()
    small.lake().indexes({}).drop(index)
    small.lake().indexes({}).create(index)
    small.write("delete", batch([4], 7), options=QUIET)
    built.sql("insert into {} (id, v, part) values ('k013', 7, 'p1')")
    built.assert_right()
