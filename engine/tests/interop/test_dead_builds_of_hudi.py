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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.indexed_hudi_table import (
    HUDI_SETTINGS,
    SECONDARY,
    IndexedHudiTable,
    skipping_settings,
)
from tideline.testing.small_table import QUIET, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

EXPRESSION = "expr_index_e"
STEPS = ("requested", "inflight", "half its files", "its files", "listed", "in work", "cleared")
BY_SQL = {
    SECONDARY: "create index v on {} (v)",
    EXPRESSION: (
        "create index e on {} using column_stats(v) options(expr='from_unixtime', format='yyyy')"
    ),
}
NO_STATISTICS = {"hoodie.metadata.index.column.stats.enable": "false"}
ENABLED = {
    COLUMN_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    PARTITION_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    BLOOM_FILTERS: {**NO_STATISTICS, "hoodie.metadata.index.bloom.filter.enable": "true"},
    RECORD_INDEX: {**NO_STATISTICS, "hoodie.metadata.global.record.level.index.enable": "true"},
}
WHERE = ("v = 7", "id in ('k000', 'k009')", "v < 5 and part = 'p1'")
DEFINITIONS = ".hoodie/.index_defs/index.json"


@dataclass
class Built:
    """A table, the index that is built on it, and a copy where Hudi has built it."""

    table: IndexedHudiTable
    index: str
    folder: Path
    twin: Path

    def build_on_twin(self, version: int) -> None:
        shutil.copytree(self.folder, self.twin)
        peer = self.table.peer
        if self.index in BY_SQL:
            peer.run_statement(BY_SQL[self.index].format(peer.table_at(str(self.twin))))
        else:
            options = HUDI_SETTINGS | ENABLED[self.index]
            options |= {"hoodie.write.table.version": str(version)}
            peer.build_index(str(self.twin), self.index, options)

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
                self.table.opened().properties.update(path)
        if reached > 1:
            self._copy_files(only_half=step == "half its files")
        table = self.table.opened()
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
    with skipping_settings(hudi_peer, NO_STATISTICS):
        yield hudi_peer


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
    table = IndexedHudiTable.create(session, tmp_path / "t", version, index)
    small = table.small
    built = Built(table, index, tmp_path / "t", tmp_path / "twin")
    built.build_on_twin(version)
    # What completed while it was built, and was not added: a value and two keys.
    table.sql("update {} set v = 7 where id = 'k000'")
    table.sql("insert into {} (id, v, part) values ('k011', 7, 'p1'), ('k012', 3, 'p5')")
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
    table.sql("update {} set v = 7 where id = 'k002'")
    table.sql("insert into {} (id, v, part) values ('k013', 7, 'p1')")
    table.assert_right(WHERE)
    if index != EXPRESSION:
        table.make_missing(index)
    small.write("upsert", batch([3, 14], 7), options=QUIET)
    small.write("delete", batch([4], 7), options=QUIET)
    table.sql("update {} set v = 7 where id = 'k005'")
    table.assert_right(WHERE)
    assert json.dumps(small.values()).count("k012") == 1


HALF_MADE = [
    (COLUMN_STATS, 9, "half its files"),
    (RECORD_INDEX, 9, "its files"),
    (BLOOM_FILTERS, 8, "half its files"),
    (RECORD_INDEX, 6, "half its files"),
    (BLOOM_FILTERS, 6, "its files"),
]


@pytest.mark.parametrize(("index", "version", "step"), HALF_MADE)
def test_an_index_that_a_write_of_hudi_died_making_is_not_believed(
    session: HudiPeer, tmp_path: Path, index: str, version: int, step: str
) -> None:
    """A write makes what its settings enable before it begins, without an instant of its own."""
    table = IndexedHudiTable.create(session, tmp_path / "t", version, index)
    small, enabled = table.small, ENABLED[index]
    built = Built(table, index, tmp_path / "t", tmp_path / "twin")
    shutil.copytree(built.folder, built.twin)
    twin = session.table_at(str(built.twin))
    table.sql("update {} set v = 7 where id = 'k000'")
    with session.settings(enabled):
        table.sql(f"update {twin} set v = 7 where id = 'k000'")
    built.die_at(step)
    small.write("upsert", batch([1, 9], 7), options=QUIET)
    assert index not in table.opened().config.metadata_partitions_in_work
    table.assert_right(WHERE)
    # Hudi makes it with its next write, as if nothing had been there; and so do we.
    with session.settings(enabled):
        table.sql("update {} set v = 7 where id = 'k002'")
    assert index in table.opened().config.metadata_partitions
    small.write("upsert", batch([3, 14], 7), options=QUIET)
    table.assert_right(WHERE)
    small.lake().indexes({}).drop(index)
    small.lake().indexes({}).create(index)
    small.write("delete", batch([4], 7), options=QUIET)
    table.sql("insert into {} (id, v, part) values ('k013', 7, 'p1')")
    table.assert_right(WHERE)
