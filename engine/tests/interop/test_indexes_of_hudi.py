"""Indexes that Hudi's SQL made, commits of ours, and Hudi's queries that use them.

Each query runs with the index there is, and must find what a query without one finds.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.json_line_process import PeerFailureError, PeerLostError
from tideline.testing.peer_environment import prepare_hudi_peer
from tideline.testing.small_table import SmallTable, batch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

DAY = 1_704_067_200
KEYS = ("k000", "k001", "k004")
YEARLY = "options(expr='from_unixtime', format='yyyy')"
SETTINGS = {
    "hoodie.write.lock.provider": ("org.apache.hudi.client.transaction.lock.InProcessLockProvider"),
    "hoodie.write.auto.upgrade": "false",
}


@dataclass(frozen=True)
class Index:
    """How an index is made, the partition it has, and a query that uses it, in two languages."""

    create: str
    partition: str
    where: str
    finds: Callable[[str, int], bool]
    properties: str = ""


INDEXES = {
    "expression": Index(
        "create index i on {} using column_stats(v) options(expr='from_unixtime', "
        "format='yyyy-MM-dd')",
        "expr_index_i",
        "from_unixtime(v, 'yyyy-MM-dd') = '2024-01-01'",
        lambda _, v: DAY <= v < DAY + 86_400,
    ),
    "bloom filters": Index(
        "create index i on {} using bloom_filters(id) options(expr='lower')",
        "expr_index_i",
        "lower(id) in ('k000', 'k001', 'k004')",
        lambda key, _: key in KEYS,
    ),
    "secondary": Index(
        "create index i on {} (v)",
        "secondary_index_i",
        f"v = {DAY}",
        lambda _, v: v == DAY,
        ", 'hoodie.metadata.record.index.enable' = 'true'",
    ),
    "record": Index(
        "create index record_index on {} (id)",
        "record_index",
        "id in ('k000', 'k001', 'k004')",
        lambda key, _: key in KEYS,
    ),
}


KEPT = ("secondary", "record")
"""The kinds that a commit of ours keeps."""


@dataclass
class Indexed:
    """A table of Hudi's SQL, with an index of one kind."""

    peer: HudiPeer
    name: str
    folder: Path
    index: Index

    @property
    def ours(self) -> SmallTable:
        return SmallTable(StoreLocation.of(self.folder))

    def sql(self, statement: str) -> None:
        self.peer.run_statement(statement.format(self.name))

    def found(self) -> list[tuple[str, int]]:
        """What the query with the index finds."""
        rows = self.peer.sql(f"select id, v from {self.name} where {self.index.where}")
        return sorted((row["id"], row["v"]) for row in rows.to_pylist())

    def expected(self) -> list[tuple[str, int]]:
        """The same rows, by our reader and without an index."""
        return sorted((key, v) for key, v in self.ours.values() if self.index.finds(key, v))

    def partitions(self) -> tuple[str, ...]:
        return self.ours.lake().hoodie_table.config.metadata_partitions

    def errors(self) -> list[str]:
        found = check_table(self.ours.lake().hoodie_table, keys=True)
        return [str(finding) for finding in found if finding.severity is Severity.ERROR]


@pytest.fixture
def session(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    with hudi_peer.settings(SETTINGS, "hoodie.write.table.version"):
        yield hudi_peer


def made(session: HudiPeer, folder: Path, kind: str, version: int) -> Indexed:
    """A table of three rows with the index, made by Hudi alone."""
    index = INDEXES[kind]
    name = f"i{abs(hash(str(folder)))}"
    session.run_statement(f"set hoodie.write.table.version={version}")
    session.run_statement(
        f"create table {name} (id string, v bigint, part string) using hudi tblproperties("
        f"primaryKey = 'id', type = 'cow', 'hoodie.metadata.enable' = 'true', "
        f"'hoodie.write.table.version' = '{version}'{index.properties}) "
        f"partitioned by (part) location '{folder}'"
    )
    table = Indexed(session, name, folder, index)
    rows = f"('k000', {DAY}, 'p0'), ('k001', {DAY + 90_000}, 'p1'), ('k002', {DAY + 180_000}, 'p0')"
    table.sql("insert into {} values " + rows)
    table.sql(index.create)
    assert table.ours.lake().hoodie_table.config.version == version
    assert index.partition in table.partitions()
    assert table.found() == table.expected()
    return table


def make_old(table: Indexed) -> None:
    """Let what Hudi has begun to build have begun long ago."""
    for begun in table.folder.glob(".hoodie/timeline/*.indexing.inflight"):
        long_ago_s = begun.stat().st_mtime - DEFAULT_LIMITS.silent_s_max - 1
        os.utime(begun, (long_ago_s, long_ago_s))


@pytest.mark.parametrize(
    ("kind", "version"), [*((kind, 9) for kind in INDEXES), ("expression", 8), ("secondary", 8)]
)
def test_queries_by_an_index_find_what_we_wrote(
    session: HudiPeer, tmp_path: Path, kind: str, version: int
) -> None:
    table = made(session, tmp_path / "t", kind, version)
    # One row comes, one changes its value: each is wanted now.
    report = table.ours.write("upsert", batch([1, 4], DAY))
    if kind not in KEPT:
        assert any("REFRESH TABLE" in note for note in report.notes)
    assert (table.index.partition in table.partitions()) == (kind in KEPT)
    believed = believed_without_partition(table.ours.lake().hoodie_table, table.partitions())
    assert believed == ()
    table.sql("refresh table {}")
    assert ("k004", DAY) in table.found()
    assert table.found() == table.expected()
    assert table.errors() == []
    # Hudi writes on, and makes no index again. It drops a record index that its settings do not
    # name.
    table.sql(f"insert into {{}} values ('k005', {DAY + 7}, 'p1')")
    table.sql(f"update {{}} set v = {DAY + 9} where id = 'k002'")
    assert table.found() == table.expected()
    assert (table.index.partition in table.partitions()) == (kind == "secondary")
    assert table.errors() == []
    if kind != "secondary":
        # Asked to it does.
        table.sql(table.index.create)
    assert table.index.partition in table.partitions()
    assert table.found() == table.expected()
    assert table.errors() == []
    table.ours.write("upsert", batch([0], DAY + 90_000))
    table.ours.write("delete", batch([4], DAY))
    table.sql("refresh table {}")
    assert table.found() == table.expected()
    assert table.errors() == []


def test_an_open_session_sees_our_commits_after_a_refresh(
    session: HudiPeer, tmp_path: Path
) -> None:
    table = made(session, tmp_path / "t", "expression", 9)
    count = f"select count(*) as n from {table.name}"
    assert session.sql(count).to_pylist() == [{"n": 3}]
    table.ours.write("upsert", batch([4, 5], DAY))
    assert session.sql(count).to_pylist() == [{"n": 3}]
    table.sql("refresh table {}")
    assert session.sql(count).to_pylist() == [{"n": 5}]


def test_an_index_that_failed_to_be_made_stops_no_commit_for_good(
    session: HudiPeer, tmp_path: Path
) -> None:
    """Hudi leaves its instant, and has no statement that takes it away."""
    table = made(session, tmp_path / "t", "expression", 9)
    with pytest.raises(PeerFailureError):
        table.sql("create index other on {} using column_stats(v) options(expr='hour')")
    with pytest.raises(PeerFailureError, match="does not exist"):
        table.sql("drop index other on {}")
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        table.ours.write("upsert", batch([4], DAY))
    make_old(table)
    table.ours.write("upsert", batch([4], DAY))
    assert table.errors() == []
    table.sql("refresh table {}")
    assert table.found() == table.expected()
    # Hudi makes it, right this time, and the next commit takes it away again.
    table.sql("create index other on {} using column_stats(v) " + YEARLY)
    table.ours.write("upsert", batch([5], DAY))
    assert table.errors() == []
    table.sql("refresh table {}")
    assert table.found() == table.expected()


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[HudiPeer]:
    """A Hudi to be killed."""
    scratch = tmp_path / "victim"
    scratch.mkdir()
    with HudiPeer(prepare_hudi_peer(), scratch) as peer:
        for name, value in SETTINGS.items():
            peer.run_statement(f"set {name}={value}")
        yield peer


def kill_when_listed(victim: HudiPeer, table: Indexed, statement: str) -> None:
    """Hudi has listed the index then, and looks for commits that came while it built."""
    victim.run_statement(f"create table {table.name} using hudi location '{table.folder}'")
    properties = table.folder / ".hoodie" / "hoodie.properties"
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(victim.run_statement, statement.format(table.name))
        while not building.done():
            # Hudi takes the file away before it puts the next one there.
            with contextlib.suppress(FileNotFoundError):
                if re.search(r"^\S+partitions\.inflight=\w", properties.read_text(), re.MULTILINE):
                    os.killpg(victim.pid, signal.SIGKILL)
                    break
        with pytest.raises(PeerLostError):
            building.result()


def test_an_index_whose_writer_was_killed_is_waited_for_until_it_is_dropped(
    session: HudiPeer, victim: HudiPeer, tmp_path: Path
) -> None:
    table = made(session, tmp_path / "t", "secondary", 9)
    kill_when_listed(victim, table, "create index other on {} using column_stats(v) " + YEARLY)
    make_old(table)
    with pytest.raises(ConflictError, match="DROP INDEX"):
        table.ours.write("upsert", batch([4], DAY))
    table.sql("drop index other on {}")
    make_old(table)
    table.ours.write("upsert", batch([4], DAY))
    assert table.errors() == []
    table.sql("refresh table {}")
    assert table.found() == table.expected()


def test_a_record_index_whose_writer_was_killed_is_ended_as_the_message_says(
    session: HudiPeer, victim: HudiPeer, tmp_path: Path
) -> None:
    """Hudi's DROP INDEX takes the index away, and leaves the instant."""
    table = made(session, tmp_path / "t", "expression", 9)
    kill_when_listed(victim, table, INDEXES["record"].create)
    table.sql("drop index record_index on {}")
    with pytest.raises(ConflictError, match="less than 10 minutes ago, and may be at it"):
        table.ours.lake().indexes({}).drop("record_index", end_build=True)
    make_old(table)
    with pytest.raises(ConflictError, match="tideline index drop record_index --end-build"):
        table.ours.write("upsert", batch([4], DAY))
    table.ours.lake().indexes({}).drop("record_index", end_build=True)
    table.ours.write("upsert", batch([4], DAY))
    assert table.errors() == []
    table.sql("refresh table {}")
    assert table.found() == table.expected()


def test_an_index_that_is_built_while_we_write(session: HudiPeer, tmp_path: Path) -> None:
    """Each of our commits takes place before, after, or is a conflict; no list is left alone."""
    table = made(session, tmp_path / "t", "expression", 9)
    outcomes = {"committed": 0, "conflict": 0, "index": 0, "refused": 0}

    def create() -> None:
        try:
            table.sql("create index other on {} using column_stats(v) " + YEARLY)
            outcomes["index"] += 1
        except PeerFailureError:
            outcomes["refused"] += 1
            make_old(table)

    for turn in range(2):
        with ThreadPoolExecutor(1) as pool:
            building = pool.submit(create)
            while not building.done():
                try:
                    table.ours.write("upsert", batch([turn, 10 + turn], DAY + turn))
                    outcomes["committed"] += 1
                except ConflictError:
                    outcomes["conflict"] += 1
                # Hudi waits for every write that is pending when it has built.
                time.sleep(2)
            building.result()
        assert table.errors() == [], outcomes
        table.sql("refresh table {}")
        assert table.found() == table.expected(), outcomes
        table.ours.write("upsert", batch([20 + turn], DAY))
        table.sql("refresh table {}")
        assert table.found() == table.expected(), outcomes
    assert outcomes["index"] > 0
    assert outcomes["committed"] + outcomes["conflict"] > 0
