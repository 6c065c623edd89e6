"""A change feed carries a replica from one state of a table to the next, commit by commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.changes import ChangeFeed
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.archival_of_others import archive_beyond_savepoints
from tideline.testing.small_table import ONCE, QUIET, SmallTable, batch

KINDS = [
    (version, kind)
    for version in (6, 9)
    for kind in (TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ)
]


@pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.value}" for version, kind in KINDS])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    version, kind = request.param
    made = SmallTable.in_memory(ordering=["v"], table_type=kind, table_version=version)
    yield made
    made.forget()


@dataclass
class Replica:
    """What a consumer has that applies every change."""

    rows: dict[str, int] = field(default_factory=dict)
    at: InstantTime = BEGINNING

    def follow(self, table: SmallTable) -> list[tuple[str, str, int]]:
        """Apply what is new; the changes as kind, key, value."""
        feed = table.lake().changes(self.at)
        changes = said(feed)
        for kind, key, v in changes:
            if kind == "INSERT":
                assert key not in self.rows, key
                self.rows[key] = v
            elif kind == "UPDATE_AFTER":
                self.rows[key] = v
            else:
                assert self.rows[key] == v, (kind, key, v)
                if kind == "DELETE":
                    del self.rows[key]
        self.at = feed.until
        return changes


def said(feed: ChangeFeed) -> list[tuple[str, str, int]]:
    rows = feed.read_all().select([CHANGE_TYPE, "id", "v"]).to_pylist()
    return [tuple(row.values()) for row in rows]


def do(table: SmallTable, operation: str, rows: pa.Table) -> None:
    table.fake_clock.advance(60)
    table.write(operation, rows, options=QUIET)


def test_each_kind_of_change(table: SmallTable) -> None:
    replica = Replica()
    do(table, "insert", batch(range(4), 1))
    assert sorted(replica.follow(table)) == [("INSERT", f"k{n:03d}", 1) for n in range(4)]
    do(table, "upsert", batch([1, 4], 2))
    assert replica.follow(table) == [
        ("UPDATE_BEFORE", "k001", 1),
        ("UPDATE_AFTER", "k001", 2),
        ("INSERT", "k004", 2),
    ]
    do(table, "delete", batch([0, 7], 3))
    assert replica.follow(table) == [("DELETE", "k000", 1)]
    assert replica.follow(table) == []
    assert replica.rows == dict(table.values())


def test_an_overwrite_updates_what_comes_back(table: SmallTable) -> None:
    replica = Replica()
    do(table, "insert", batch([0, 2, 4], 1))
    replica.follow(table)
    do(table, "insert_overwrite", batch([2, 6], 5))
    assert replica.follow(table) == [
        ("UPDATE_BEFORE", "k002", 1),
        ("UPDATE_AFTER", "k002", 5),
        ("INSERT", "k006", 5),
        ("DELETE", "k000", 1),
        ("DELETE", "k004", 1),
    ]
    do(table, "delete_partition", batch([0], 0))
    assert sorted(replica.follow(table)) == [("DELETE", "k002", 5), ("DELETE", "k006", 5)]


def test_what_an_older_row_loses_is_no_change(table: SmallTable) -> None:
    replica = Replica()
    do(table, "insert", batch(range(4), 5))
    replica.follow(table)
    do(table, "upsert", batch(range(2), 3))
    assert replica.follow(table) == []


def test_services_change_no_row(table: SmallTable) -> None:
    replica = Replica()
    for v in (1, 2, 3):
        do(table, "upsert", batch(range(6), v))
    replica.follow(table)
    for service in ("compaction", "clustering"):
        table.fake_clock.advance(60)
        table.lake().run(service, options=ONCE)
    assert replica.follow(table) == []
    do(table, "upsert", batch(range(3), 4))
    assert len(replica.follow(table)) == 6
    assert replica.rows == dict(table.values())


@pytest.mark.slow_with(
    "v6-COPY_ON_WRITE-0",
    "v6-COPY_ON_WRITE-1",
    "v6-MERGE_ON_READ-0",
    "v6-MERGE_ON_READ-1",
    "v6-MERGE_ON_READ-2",
    "v6-MERGE_ON_READ-3",
    "v6-MERGE_ON_READ-4",
    "v6-MERGE_ON_READ-5",
    "v9-COPY_ON_WRITE-0",
    "v9-COPY_ON_WRITE-1",
    "v9-COPY_ON_WRITE-2",
    "v9-COPY_ON_WRITE-3",
    "v9-COPY_ON_WRITE-4",
    "v9-COPY_ON_WRITE-5",
    "v9-MERGE_ON_READ-2",
    "v9-MERGE_ON_READ-3",
    "v9-MERGE_ON_READ-4",
    "v9-MERGE_ON_READ-5",
)
@pytest.mark.parametrize("seed", range(6))
def test_a_replica_follows_a_random_history(table: SmallTable, seed: int) -> None:
    chance = Random(seed)
    replica, late = Replica(), Replica()
    for v in range(1, 13):
        operation = chance.choice(
            ["insert", "upsert", "upsert", "upsert", "delete", "insert_overwrite", "service"]
        )
        if operation == "service":
            table.fake_clock.advance(60)
            table.lake().run(chance.choice(["compaction", "clustering"]), options=ONCE)
            continue
        known = {int(key[1:]) for key, _ in table.values()}
        numbers = chance.sample(range(20), chance.randint(1, 6))
        if operation == "insert":
            numbers = [number for number in numbers if number not in known] or [20 + v]
        do(table, operation, batch(numbers, v))
        if chance.random() < 0.7:
            replica.follow(table)
            assert replica.rows == dict(table.values())
    late.follow(table)
    assert late.rows == dict(table.values())
    instants = table.lake().changes(BEGINNING).read_all()[CHANGE_INSTANT].to_pylist()
    assert instants == sorted(instants)


def test_a_range_ends_where_it_is_told_to(table: SmallTable) -> None:
    reports = []
    for v in (1, 2, 3):
        table.fake_clock.advance(60)
        reports.append(table.write("upsert", batch([0], v), options=QUIET))
    first, second, _ = [report.instant for report in reports]
    feed = table.lake().changes(first, second)
    assert said(feed) == [("UPDATE_BEFORE", "k000", 1), ("UPDATE_AFTER", "k000", 2)]
    assert said(table.lake().changes(feed.until))[-1] == ("UPDATE_AFTER", "k000", 3)


def test_the_earliest_beginning_is_named_when_files_are_gone(table: SmallTable) -> None:
    for v in range(1, 6):
        do(table, "insert_overwrite", batch([0, 1], v))
    table.fake_clock.advance(60)
    assert table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "2"}).done
    with pytest.raises(ConfigError, match=r"the earliest time to begin after is [0-9]+") as caught:
        table.lake().changes(BEGINNING)
    earliest = InstantTime(str(caught.value).partition("begin after is ")[2][:17])
    changes = said(table.lake().changes(earliest))
    assert changes
    assert {kind for kind, _, _ in changes} == {"UPDATE_BEFORE", "UPDATE_AFTER"}


def test_a_range_that_begins_in_the_archive_is_refused(table: SmallTable) -> None:
    for v in range(1, 9):
        do(table, "upsert", batch([0, 1], v))
    table.fake_clock.advance(60)
    settings = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4",
                "hoodie.clean.commits.retained": "2"}  # fmt: skip
    table.lake().run("cleaning", options=settings)
    table.lake().run("archival", options=settings)
    with pytest.raises(ConfigError, match="begins before the active timeline"):
        table.lake().changes(BEGINNING)


def test_changes_of_a_first_commit_that_is_savepointed_are_its_rows(table: SmallTable) -> None:
    do(table, "insert", batch(range(3), 1))
    table.lake().savepoint()
    do(table, "delete", batch([0], 2))
    assert sorted(said(table.lake().changes(BEGINNING))) == [
        ("DELETE", "k000", 1),
        *(("INSERT", f"k{n:03d}", 1) for n in range(3)),
    ]


@pytest.mark.slow_with(
    "v6-COPY_ON_WRITE-0-true",
    "v6-COPY_ON_WRITE-1-false",
    "v6-COPY_ON_WRITE-2-false",
    "v6-COPY_ON_WRITE-3-true",
    "v6-MERGE_ON_READ-0-false",
    "v6-MERGE_ON_READ-0-true",
    "v6-MERGE_ON_READ-1-false",
    "v6-MERGE_ON_READ-1-true",
    "v6-MERGE_ON_READ-2-false",
    "v6-MERGE_ON_READ-2-true",
    "v6-MERGE_ON_READ-3-false",
    "v6-MERGE_ON_READ-3-true",
    "v9-COPY_ON_WRITE-0-false",
    "v9-COPY_ON_WRITE-0-true",
    "v9-COPY_ON_WRITE-1-false",
    "v9-COPY_ON_WRITE-1-true",
    "v9-COPY_ON_WRITE-2-false",
    "v9-COPY_ON_WRITE-2-true",
    "v9-COPY_ON_WRITE-3-false",
    "v9-COPY_ON_WRITE-3-true",
    "v9-MERGE_ON_READ-0-false",
    "v9-MERGE_ON_READ-0-true",
    "v9-MERGE_ON_READ-1-false",
    "v9-MERGE_ON_READ-1-true",
    "v9-MERGE_ON_READ-2-true",
    "v9-MERGE_ON_READ-3-false",
    "v9-MERGE_ON_READ-3-true",
)
@pytest.mark.parametrize("beyond", ["false", "true"])
@pytest.mark.parametrize("seed", range(4))
def test_savepoints_and_archival_change_no_change(
    table: SmallTable, seed: int, beyond: str
) -> None:
    """Every range has the changes and rows that it had, or is refused."""
    chance = Random(seed)
    ends = [BEGINNING]
    for v in range(1, 9):
        operation = chance.choice(["upsert", "upsert", "delete", "insert_overwrite", "service"])
        if operation == "service":
            table.fake_clock.advance(60)
            table.lake().run(chance.choice(["compaction", "clustering"]), options=ONCE)
        else:
            do(table, operation, batch(chance.sample(range(12), chance.randint(1, 6)), v))
            ends.append(table.lake().changes(BEGINNING).until)
    ranges = [(begin, end) for at, begin in enumerate(ends) for end in ends[at + 1 :]]
    before = {
        entry: (said(table.lake().changes(*entry)), rows_of(table, *entry)) for entry in ranges
    }
    commits = table.lake().timeline().of(*COMMIT_ACTIONS).completed().instants
    for instant in commits[chance.randint(1, 3) :: 2]:
        table.lake().savepoint(str(instant.time))
    table.fake_clock.advance(60)
    settings = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
                "hoodie.clean.commits.retained": "1"}  # fmt: skip
    if beyond == "true":
        archive_beyond_savepoints(table.lake().hoodie_table, ArchivalConfig(2, 3))
    else:
        table.lake().run("archival", options=settings)
    found = 0
    for pair, (changes, rows) in before.items():
        try:
            assert said(table.lake().changes(*pair)) == changes, pair
            found += 1
        except ConfigError as refused:
            assert "begins before the active timeline" in str(refused)
        try:
            assert rows_of(table, *pair) == rows, pair
        except ConfigError as refused:
            assert "archive" in str(refused) or "active" in str(refused)
    assert found


def rows_of(table: SmallTable, after: InstantTime, until: InstantTime) -> list[tuple[str, int]]:
    hoodie = table.lake().hoodie_table
    scan = ArrowScan.of(hoodie, plan_incremental(hoodie, after, until), ["id", "v"])
    rows = pa.Table.from_batches(list(scan.batches()), scan.schema).to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def test_a_restore_is_named(table: SmallTable) -> None:
    do(table, "insert", batch(range(3), 1))
    table.lake().savepoint()
    begin = table.lake().changes(BEGINNING).until
    do(table, "upsert", batch(range(3), 2))
    table.fake_clock.advance(60)
    table.lake().restore(table.lake().savepoints()[0].instant)
    with pytest.raises(UnsupportedTableError, match="restored at"):
        table.lake().changes(begin)


def test_a_range_that_ends_in_what_a_restore_took_back_is_refused(table: SmallTable) -> None:
    do(table, "insert", batch(range(3), 1))
    table.lake().savepoint()
    begin = table.lake().changes(BEGINNING).until
    before = said(table.lake().changes(BEGINNING, begin))
    table.fake_clock.advance(60)
    between = InstantTime.from_epoch_ms(table.clock.now_ms())
    do(table, "upsert", batch(range(3), 2))
    end = table.lake().changes(BEGINNING).until
    table.fake_clock.advance(60)
    table.lake().restore(table.lake().savepoints()[0].instant)
    for after in (BEGINNING, begin, end):
        with pytest.raises(UnsupportedTableError, match="took back what it was at the end"):
            table.lake().changes(after, end)
    for until in (begin, between):
        assert said(table.lake().changes(BEGINNING, until)) == before
    assert said(table.lake().changes(begin, between)) == []


def test_a_row_that_moves_is_updated_where_keys_are_unique_in_the_table() -> None:
    properties = {"tideline.index.type": "GLOBAL_SIMPLE"}
    table = SmallTable.in_memory(properties, ordering=["v"])
    do(table, "insert", batch([0, 1], 1))
    begin = table.lake().changes(BEGINNING).until
    do(table, "upsert", batch([1, 0], 2, partitions=1))
    found: list[dict[str, Any]] = table.lake().changes(begin).read_all().to_pylist()
    moved = [(row[CHANGE_TYPE], row["part"], row["v"]) for row in found if row["id"] == "k001"]
    assert moved == [("UPDATE_BEFORE", "p1", 1), ("UPDATE_AFTER", "p0", 2)]
    table.forget()
