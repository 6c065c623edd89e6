"""The table as of a time: what a change feed that ends there has led to, now and for ever."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, ConflictError
from tideline.formats.row_changes import CHANGE_TYPE
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.point_in_time import BEGINNING, Point, point_in_time
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.archival_of_others import archive_beyond_savepoints
from tideline.testing.small_table import ONCE, QUIET, SmallTable, batch

KINDS = [(version, kind) for version in (6, 8, 9) for kind in TableType]
ARCHIVED = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
}
Rows = dict[str, int]


@pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.value}" for version, kind in KINDS])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    version, kind = request.param
    made = SmallTable.in_memory(ordering=["v"], table_type=kind, table_version=version)
    yield made
    made.forget()


def has_completions(table: SmallTable) -> bool:
    return table.lake().hoodie_table.layout.timeline.has_completion_times


def do(table: SmallTable, operation: str, rows: pa.Table, **keywords: Any) -> str:
    table.fake_clock.advance(60)
    return table.write(operation, rows, options=QUIET, **keywords).instant


def as_of(table: SmallTable, time: Any) -> Rows:
    hoodie = table.lake().hoodie_table
    scan = ArrowScan.of(hoodie, plan_snapshot(hoodie, time), ["id", "v"])
    rows = pa.Table.from_batches(list(scan.batches()), scan.schema).to_pylist()
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


def followed(table: SmallTable, start: Rows, after: InstantTime) -> Rows:
    """The rows and all changes later than a time."""
    found = dict(start)
    changes = table.lake().changes(after).read_all().select([CHANGE_TYPE, "id", "v"]).to_pylist()
    for change in changes:
        kind, key, v = change.values()
        if kind == "INSERT":
            assert key not in found
        else:
            assert found[key] == v or kind == "UPDATE_AFTER"
        if kind == "DELETE":
            del found[key]
        else:
            found[key] = v
    return found


def overlapping(table: SmallTable) -> list[tuple[InstantTime, Rows]]:
    """Ends of the feed with the rows of the table then, of commits that overlap."""
    states: list[tuple[InstantTime, Rows]] = []

    def note() -> None:
        states.append((table.lake().changes(BEGINNING).until, dict(table.values())))

    def other() -> None:
        do(table, "upsert", batch([1, 3, 5], 3))
        if has_completions(table):
            note()

    do(table, "insert", batch(range(4), 1))
    note()
    do(table, "upsert", batch([0, 2, 4], 2), before_files=other)
    note()
    do(table, "delete", batch([3], 4))
    note()
    return states


def test_a_bootstrap_and_what_follows_it_have_each_commit_once(table: SmallTable) -> None:
    for end, rows in overlapping(table):
        assert as_of(table, end) == rows
        assert followed(table, rows, end) == dict(table.values())


def test_a_time_reads_the_same_while_commits_complete_and_services_run(table: SmallTable) -> None:
    states = overlapping(table)
    for service in ("compaction", "clustering"):
        table.fake_clock.advance(60)
        table.lake().run(service, options=ONCE)
        do(table, "upsert", batch([0, 1, 9], 7))
    for end, rows in states:
        assert as_of(table, end) == rows


def test_a_write_that_completes_later_is_not_part_of_it(table: SmallTable) -> None:
    seen: list[tuple[str, Rows]] = []

    def other() -> None:
        instant = do(table, "upsert", batch([1], 3))
        table.fake_clock.advance(60)
        if has_completions(table):
            seen.append((instant, as_of(table, instant)))
            return
        with pytest.raises(ConflictError, match="has not completed"):
            as_of(table, instant)

    do(table, "insert", batch(range(2), 1))
    first = do(table, "upsert", batch([0], 2), before_files=other)
    assert as_of(table, first)["k000"] == 2
    for instant, rows in seen:
        assert rows == {"k000": 1, "k001": 3}
        assert as_of(table, instant) == rows


@pytest.mark.parametrize("seed", range(4))
def test_savepoints_and_archival_change_no_answer(table: SmallTable, seed: int) -> None:
    chance = Random(seed)
    states = overlapping(table)
    for v in range(5, 9):
        operation = chance.choice(["upsert", "delete", "insert_overwrite", "service"])
        if operation == "service":
            table.fake_clock.advance(60)
            table.lake().run(chance.choice(["compaction", "clustering"]), options=ONCE)
        else:
            do(table, operation, batch(chance.sample(range(8), chance.randint(1, 6)), v))
            states.append((table.lake().changes(BEGINNING).until, dict(table.values())))
    commits = table.lake().timeline().of(*COMMIT_ACTIONS).completed().instants
    for instant in commits[chance.randint(1, 3) :: 2]:
        table.lake().savepoint(str(instant.time))
    table.fake_clock.advance(60)
    goes_beyond = chance.choice([True, False])
    clean_table(table.lake().hoodie_table, CleaningConfig(commits_retained=1))
    if goes_beyond:
        archive_beyond_savepoints(table.lake().hoodie_table, ArchivalConfig(2, 3))
    else:
        table.lake().run("archival", options=ARCHIVED)
    found = 0
    for end, rows in states:
        try:
            assert as_of(table, end) == rows
            found += 1
        except ConfigError as refused:
            assert "can no longer be read" in str(refused)
    assert found
    for saved in table.lake().savepoints():
        completed = table.lake().timeline().find(saved.instant)
        assert completed is not None
        state = [rows for end, rows in states if end == completed.completed_at]
        assert all(as_of(table, saved.instant) == rows for rows in state)


@pytest.mark.parametrize("keeps", ["first", "second"])
def test_a_savepoint_keeps_what_a_read_as_of_it_has(table: SmallTable, keeps: str) -> None:
    """Of two commits the one that is requested first completes last."""
    others: list[str] = []

    def other() -> None:
        others.append(do(table, "upsert", batch([1], 3)))

    do(table, "insert", batch(range(4), 1))
    first = do(table, "upsert", batch([0], 2), before_files=other)
    saved = first if keeps == "first" else others[0]
    table.lake().savepoint(saved)
    before = as_of(table, saved)
    for v in range(4, 7):
        do(table, "insert_overwrite", batch([0, 1], v))
    table.fake_clock.advance(60)
    done = table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    assert done.done
    assert as_of(table, saved) == before


def test_before_the_first_commit_there_is_nothing_to_read(table: SmallTable) -> None:
    with pytest.raises(ConfigError, match="no commit yet"):
        as_of(table, "2024-01-01")
    do(table, "insert", batch([0], 1))
    (first,) = table.lake().timeline().of(*COMMIT_ACTIONS).completed()
    with pytest.raises(ConfigError, match=f"its first commit is {first.completed_at}"):
        as_of(table, "2024-01-01")
    assert as_of(table, first.time) == {"k000": 1}
    do(table, "upsert", batch([0], 2))
    assert as_of(table, first.time) == {"k000": 1}


def test_the_future_is_not_known(table: SmallTable) -> None:
    do(table, "insert", batch([0], 1))
    table.fake_clock.advance(60)
    now = dt.datetime.fromtimestamp(table.clock.now_ms() / 1000, dt.UTC)
    assert as_of(table, now) == {"k000": 1}
    with pytest.raises(ConfigError, match=r"is in the future: now it is [0-9]{17}"):
        as_of(table, now + dt.timedelta(minutes=1))
    with pytest.raises(ConfigError, match="is in the future"):
        as_of(table, "9999-12-31")


def test_what_a_restore_took_back_is_refused(table: SmallTable) -> None:
    do(table, "insert", batch([0], 1))
    saved = table.lake().savepoint()
    kept = table.lake().changes(BEGINNING).until
    undone = do(table, "upsert", batch([0], 2))
    assert as_of(table, undone) == {"k000": 2}
    end = table.lake().changes(BEGINNING).until
    table.fake_clock.advance(60)
    table.lake().restore(saved.instant)
    with pytest.raises(ConfigError, match=f"was restored at .* read as of {kept} or earlier"):
        as_of(table, end)
    assert as_of(table, kept) == {"k000": 1}
    later = do(table, "upsert", batch([0], 3))
    assert as_of(table, later) == {"k000": 3}


def test_cleaned_files_are_missed_and_not_rows(table: SmallTable) -> None:
    states = overlapping(table)
    for v in range(5, 8):
        do(table, "insert_overwrite", batch([0, 1], v))
    table.fake_clock.advance(60)
    clean_table(table.lake().hoodie_table, CleaningConfig(commits_retained=1))
    for end, _ in states:
        with pytest.raises(ConfigError, match=r"and cleaned|was cleaned"):
            as_of(table, end)


def test_the_earliest_time_is_named_when_files_are_gone(table: SmallTable) -> None:
    states: list[tuple[InstantTime, Rows]] = []
    for v in range(1, 9):
        do(table, "insert_overwrite" if v % 2 else "upsert", batch([0, 1], v))
        states.append((table.lake().changes(BEGINNING).until, dict(table.values())))
    table.fake_clock.advance(60)
    clean_table(table.lake().hoodie_table, CleaningConfig(commits_retained=5))
    table.lake().run("archival", options=ARCHIVED)
    readable = []
    for end, rows in states:
        try:
            assert as_of(table, end) == rows
            readable.append(str(end))
        except ConfigError as refused:
            (named,) = re.findall(r"the earliest time to read as of is (\d+)", str(refused))
            assert as_of(table, named) == dict(states)[InstantTime(named)]
    assert readable[0] == named


def test_a_date_is_the_same_as_text_and_as_a_moment(table: SmallTable) -> None:
    day = dt.date(2025, 3, 1)
    opened = table.lake().hoodie_table
    spelled: list[Point] = [day, "2025-03-01", "2025-03-01T00:00:00", dt.datetime(2025, 3, 1)]
    assert {point_in_time(opened, value) for value in spelled} == {InstantTime("20250301000000000")}
