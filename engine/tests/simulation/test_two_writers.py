"""Two writers at once: no row is lost, none is doubled, the loser may simply write again.

One writer runs to its end while the other stands between its files and its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConflictError
from tideline.hudi.table.table_config import RECORD_INDEX
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.write_operation import WriteOperation
from tideline.lake_table import LakeTable
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import (
    missing_files,
    open_fresh,
    read_rows,
    traces_of,
    unexplained_objects,
)
from tideline.testing.write_batch import batch_engine, write_batch

LONG_S = 3600.0
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
"""Inserts never go to existing files, so that only new file groups meet."""

OLD = {f"k{number:03d}": 1 for number in range(8)}


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(8), 1))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    yield table
    table.forget()


def assert_holds(table: SmallTable, expected: Mapping[str, int]) -> None:
    assert table.values() == sorted(expected.items())
    hoodie = open_fresh(table.location, clock=table.clock)
    assert unexplained_objects(hoodie) == []
    assert missing_files(hoodie) == []


def pending_instants(table: SmallTable) -> list[InstantTime]:
    return [instant.time for instant in open_fresh(table.location).timeline().pending()]


# Overlapping and disjoint


def test_updates_of_one_file_group_conflict_and_the_loser_writes_again(table: SmallTable) -> None:
    """Different keys: without the check the second base file would forget the first one's row."""
    mine, theirs = batch([0], 2), batch([2], 3)
    with pytest.raises(ConflictError, match="write again"):
        table.write("upsert", mine, after_files=lambda: table.write("upsert", theirs))
    assert_holds(table, OLD | {"k002": 3})
    table.write("upsert", mine)
    assert_holds(table, OLD | {"k000": 2, "k002": 3})


def test_updates_of_different_partitions_both_succeed(table: SmallTable) -> None:
    mine, theirs = batch([0], 2), batch([1], 3)
    table.write("upsert", mine, after_files=lambda: table.write("upsert", theirs))
    assert_holds(table, OLD | {"k000": 2, "k001": 3})


@pytest.mark.parametrize("theirs", ["upsert", "insert", "bulk_insert"])
def test_a_key_that_is_new_to_both_is_stored_once(table: SmallTable, theirs: str) -> None:
    """Both put it into a file group of its own, which Hudi's check does not see."""

    def insert_concurrently() -> None:
        table.write(theirs, batch([20], 3), options=NEW_FILES)

    with pytest.raises(ConflictError):
        table.write("upsert", batch([20], 2), options=NEW_FILES, after_files=insert_concurrently)
    assert_holds(table, OLD | {"k020": 3})
    table.write("upsert", batch([20], 2))
    assert_holds(table, OLD | {"k020": 2})


def test_concurrent_inserts_both_succeed(table: SmallTable) -> None:
    """An insert promises nothing about keys, so appending in parallel stays free of conflicts."""

    def insert_concurrently() -> None:
        table.write("insert", batch([30], 3), options=NEW_FILES)

    table.write("insert", batch([20], 2), options=NEW_FILES, after_files=insert_concurrently)
    assert_holds(table, OLD | {"k020": 2, "k030": 3})


def test_inserts_that_must_not_double_conflict(table: SmallTable) -> None:
    strict = {**NEW_FILES, "hoodie.merge.allow.duplicate.on.inserts": "false"}

    def insert_concurrently() -> None:
        table.write("upsert", batch([20], 3), options=NEW_FILES)

    with pytest.raises(ConflictError):
        table.write("insert", batch([20], 2), options=strict, after_files=insert_concurrently)
    assert_holds(table, OLD | {"k020": 3})


def test_upserts_of_new_keys_in_different_partitions_both_succeed(table: SmallTable) -> None:
    """But for a record index, by which keys are unique in the whole table."""

    def insert_concurrently() -> None:
        table.write("upsert", batch([21], 3), options=NEW_FILES)

    is_global = RECORD_INDEX in table.lake().hoodie_table.config.metadata_partitions
    with pytest.raises(ConflictError) if is_global else nullcontext():
        table.write("upsert", batch([20], 2), options=NEW_FILES, after_files=insert_concurrently)
    assert_holds(table, OLD | ({} if is_global else {"k020": 2}) | {"k021": 3})


def test_with_a_global_index_new_keys_conflict_across_partitions() -> None:
    """The same key could have gone to another partition."""
    table = SmallTable.in_memory({"hoodie.index.type": "GLOBAL_SIMPLE", **NEW_FILES})
    table.write("insert", batch(range(8), 1))
    with pytest.raises(ConflictError):
        table.write(
            "upsert",
            batch([20], 2),
            after_files=lambda: table.write("upsert", batch([21], 3)),
        )
    assert_holds(table, OLD | {"k021": 3})


def test_with_a_bucket_index_only_the_same_bucket_conflicts() -> None:
    table = SmallTable.in_memory(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    )
    partition = 2
    same = other = 0
    for key in range(2, 20, partition):
        copy = table.copy()
        try:
            copy.write(
                "upsert",
                batch([0], 2),
                after_files=partial(copy.write, "upsert", batch([key], 3)),
            )
        except ConflictError:
            same += 1
            copy.write("upsert", batch([0], 2))
        else:
            other += 1
        assert_holds(copy, {"k000": 2, f"k{key:03d}": 3})
        copy.forget()
    assert same
    assert other > same


def stepping(
    table: SmallTable, is_moment: Callable[[Step], bool], act: Callable[[], object]
) -> SteppingStore:
    """The table's store; `act` runs once, before the first step that `is_moment`."""
    waiting = [act]

    def before(step: Step) -> None:
        if waiting and is_moment(step):
            waiting.pop()()

    return SteppingStore(table.store(), before)


def before_commit(table: SmallTable, act: Callable[[], object]) -> SteppingStore:
    """`act` runs when all files are written, before the lock is taken to commit."""
    steps: list[Step] = []

    def is_moment(step: Step) -> bool:
        steps.append(step)
        has_begun = any(seen.path.endswith(".inflight") for seen in steps)
        return has_begun and "table_lock" in step.path

    return stepping(table, is_moment, act)


Writing = tuple[str, int]


@pytest.mark.parametrize(
    ("mine", "theirs", "conflicts"),
    [
        (("delete", 0), ("upsert", 2), True),
        (("delete", 0), ("upsert", 1), False),
        (("upsert", 0), ("delete", 2), True),
        (("upsert", 0), ("insert_overwrite", 4), True),
        (("upsert", 1), ("insert_overwrite", 4), False),
        (("insert_overwrite", 4), ("upsert", 0), True),
        (("insert_overwrite", 4), ("insert", 20), True),
        (("insert_overwrite", 4), ("insert_overwrite", 6), True),
        (("insert_overwrite_table", 4), ("upsert", 1), True),
        (("delete_partition", 4), ("upsert", 0), True),
        (("delete_partition", 4), ("upsert", 1), False),
        (("upsert", 0), ("delete_partition", 4), True),
        (("bulk_insert", 20), ("upsert", 0), False),
        (("bulk_insert", 20), ("insert_overwrite", 4), True),
    ],
    ids=str,
)
def test_every_pair_of_operations_ends_as_one_after_the_other(
    prepared: SmallTable, mine: Writing, theirs: Writing, conflicts: bool
) -> None:
    """What is visible in the end is what the same writes give in the order of their commits."""

    def write(table: SmallTable, what: Writing, store: SteppingStore | None = None) -> None:
        rows = batch([what[1]], 2 if what is mine else 3)
        table.write(what[0], rows, options=NEW_FILES, store=store)

    table = prepared.copy()
    try:
        write(table, mine, before_commit(table, lambda: write(table, theirs)))
    except ConflictError:
        assert conflicts
        write(table, mine)
    else:
        assert not conflicts
    one_by_one = prepared.copy()
    write(one_by_one, theirs)
    write(one_by_one, mine)
    assert_holds(table, dict(one_by_one.values()))


# Schemas


WIDER = pa.schema([*SCHEMA, ("note", pa.string())])


def with_note(rows: pa.Table, note: str) -> pa.Table:
    return rows.append_column("note", pa.array([note] * rows.num_rows)).cast(WIDER)


def columns(table: SmallTable) -> list[str]:
    hoodie = open_fresh(table.location, clock=table.clock)
    schema = hoodie.schemas.newest(hoodie.timeline())
    assert schema is not None
    return list(schema.names)


def test_a_column_another_writer_adds_concurrently_stays_in_the_schema(table: SmallTable) -> None:
    widening = with_note(batch([1], 3), "new")
    store = before_commit(table, lambda: table.write("upsert", widening))
    table.write("upsert", batch([0], 2), store=store)
    assert columns(table) == [*WIDER.names]
    rows = {row["id"]: row for row in read_rows(open_fresh(table.location))}
    assert rows["k001"] == {"id": "k001", "part": "p1", "v": 3, "note": "new"}
    assert rows["k000"]["v"] == 2


def test_a_column_that_a_later_instant_would_hide_is_written_again(table: SmallTable) -> None:
    """The other one began after us and completed before us, without the column."""
    mine = with_note(batch([0], 2), "mine")
    store = before_commit(table, lambda: table.write("upsert", batch([1], 3)))
    with pytest.raises(ConflictError, match="schema"):
        table.write("upsert", mine, store=store)
    assert_holds(table, OLD | {"k001": 3})
    table.write("upsert", mine)
    assert columns(table) == [*WIDER.names]


def test_a_batch_prepared_before_a_column_was_added_is_refused(table: SmallTable) -> None:
    """Rewriting a file that has the column already would drop it."""
    lake = table.lake()
    prepared_batch = batch_engine(lake, batch([0], 2), WriteOperation.UPSERT)
    table.write("upsert", with_note(batch([0], 3), "keep"))
    with pytest.raises(ConflictError, match="schema changed"):
        write_batch(lake, prepared_batch, WriteOperation.UPSERT)
    (row,) = (row for row in read_rows(open_fresh(table.location)) if row["id"] == "k000")
    assert row["note"] == "keep"


def test_two_writers_that_add_the_same_column_in_different_types_conflict(
    table: SmallTable,
) -> None:
    mine = batch([0], 2).append_column("note", pa.array([1.5]))
    theirs = with_note(batch([1], 3), "text")
    with pytest.raises(ConflictError, match="schema"):
        table.write(
            "upsert", mine, store=before_commit(table, lambda: table.write("upsert", theirs))
        )
    assert columns(table) == [*WIDER.names]
    assert_holds(table, OLD | {"k001": 3})


def test_two_writers_that_add_the_same_column_agree(table: SmallTable) -> None:
    mine, theirs = with_note(batch([0], 2), "a"), with_note(batch([1], 3), "b")
    table.write("upsert", mine, store=before_commit(table, lambda: table.write("upsert", theirs)))
    assert columns(table) == [*WIDER.names]


# Alive, asleep, given up


def test_a_live_writer_is_never_rolled_back(table: SmallTable) -> None:
    def others() -> None:
        for key in (1, 3, 5):
            assert table.write("upsert", batch([key], 3)).rolled_back == ()
            table.fake_clock.advance(60)

    table.write("upsert", batch([0], 2), after_files=others)
    assert_holds(table, OLD | {"k000": 2, "k001": 3, "k003": 3, "k005": 3})


@pytest.mark.parametrize("wakes", ["before its files", "after its files"])
def test_a_writer_rolled_back_in_its_sleep_gives_up_and_leaves_nothing(
    table: SmallTable, wakes: str
) -> None:
    asleep: list[InstantTime] = []

    def sleep() -> None:
        asleep.extend(pending_instants(table))
        table.fake_clock.advance(LONG_S)
        report = table.write("upsert", batch([1], 3))
        assert report.rolled_back == tuple(map(str, asleep))

    hook: dict[str, Any] = {"before_files" if wakes == "before its files" else "after_files": sleep}
    with pytest.raises(ConflictError, match="heartbeat expired"):
        table.write("upsert", batch([0, 20], 2), options=NEW_FILES, **hook)
    assert_holds(table, OLD | {"k001": 3})
    assert traces_of(table.store(), asleep[0]) == []


def test_what_a_writer_leaves_that_dies_after_it_was_rolled_back_is_swept(
    table: SmallTable,
) -> None:
    """It wakes up, writes its files and dies; its instant is gone from the timeline by then."""
    asleep: list[InstantTime] = []

    def sleep() -> None:
        asleep.extend(pending_instants(table))
        table.fake_clock.advance(LONG_S)
        table.write("upsert", batch([1], 3))

    def die() -> None:
        raise SimulatedCrash("after its files")

    with pytest.raises(SimulatedCrash):
        table.write("upsert", batch([0, 20], 2), before_files=sleep, after_files=die)
    assert any(path.endswith(".parquet") for path in traces_of(table.store(), asleep[0]))
    table.write("upsert", batch([3], 4))
    assert_holds(table, OLD | {"k001": 3, "k003": 4})
    assert traces_of(table.store(), asleep[0]) == []


def test_an_eager_writer_rolls_a_live_one_back_which_then_gives_up(table: SmallTable) -> None:
    """As Hudi does unless settings say that there are other writers."""
    eager = {"hoodie.clean.failed.writes.policy": "EAGER"}
    killed: list[str] = []

    def roll_back() -> None:
        killed.extend(table.write("upsert", batch([1], 3), options=eager).rolled_back)

    with pytest.raises(ConflictError, match="rolled back by another writer"):
        table.write("upsert", batch([0, 20], 2), before_files=roll_back)
    assert len(killed) == 1
    assert_holds(table, OLD | {"k001": 3})
    assert traces_of(table.store(), killed[0]) == []


def test_a_rollback_of_us_that_is_only_planned_makes_us_give_up(table: SmallTable) -> None:
    """Its owner may have deleted some of our files already."""
    eager = {"hoodie.clean.failed.writes.policy": "EAGER"}

    def die_rolling_back() -> None:
        store = stepping(table, lambda step: step.path.endswith(".rollback.inflight"), crash)
        with pytest.raises(SimulatedCrash):
            table.write("upsert", batch([1], 3), options=eager, store=store)
        table.fake_clock.advance(400)  # until the lock of the dead one is free

    def crash() -> None:
        raise SimulatedCrash("rolling back")

    with pytest.raises(ConflictError):
        table.write("upsert", batch([0], 2), after_files=die_rolling_back)
    table.write("upsert", batch([3], 4))
    assert_holds(table, OLD | {"k003": 4})


def test_losing_the_lease_during_the_commit_gives_up(table: SmallTable) -> None:
    """Another writer takes the lock over and commits; then it is too late for us."""

    def pause() -> None:
        table.fake_clock.advance(301)
        table.write("upsert", batch([1], 3))

    store = stepping(table, _is_reconciling, pause)
    with pytest.raises(ConflictError, match="lease"):
        table.write("upsert", batch([0], 2), store=store)
    assert_holds(table, OLD | {"k001": 3})
    table.write("upsert", batch([0], 2))
    assert_holds(table, OLD | {"k000": 2, "k001": 3})


def _is_reconciling(step: Step) -> bool:
    return step.method == "list" and step.path.startswith(".hoodie/.temp/")


def test_losing_the_lease_at_the_start_gives_up(table: SmallTable) -> None:
    def pause() -> None:
        table.fake_clock.advance(301)
        table.write("upsert", batch([1], 3))

    store = stepping(table, lambda step: step.path.startswith(".hoodie/.heartbeat/"), pause)
    with pytest.raises(ConflictError, match="lease"):
        table.write("upsert", batch([0], 2), store=store)
    assert_holds(table, OLD | {"k001": 3})


def test_a_clock_that_goes_backwards_keeps_the_order_of_commits(table: SmallTable) -> None:
    for value in range(2, 6):
        table.fake_clock.step_wall(-7200)
        assert table.write("upsert", batch([0], value)).rolled_back == ()
    assert_holds(table, OLD | {"k000": 5})
    times = [item.time for item in open_fresh(table.location).timeline().completed()]
    assert times == sorted(times)
    assert len(set(times)) == 5


def test_a_clock_set_back_during_a_write_does_not_kill_it(table: SmallTable) -> None:
    def set_back() -> None:
        table.fake_clock.step_wall(-7200)
        assert table.write("upsert", batch([1], 3)).rolled_back == ()

    table.write("upsert", batch([0], 2), after_files=set_back)
    assert_holds(table, OLD | {"k000": 2, "k001": 3})


def test_a_recovery_next_to_a_live_writer_does_nothing(table: SmallTable) -> None:
    def recover() -> None:
        assert LakeTable(open_fresh(table.location, clock=table.clock)).recover() == ()

    table.write("upsert", batch([0], 2), after_files=recover)
    assert_holds(table, OLD | {"k000": 2})
