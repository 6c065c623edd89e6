"""The reply to the completing write is lost and the store stays away: what the writer is advised,
and what becomes of the rows when it follows the advice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.cli.main import run
from tideline.errors import (
    ConflictError,
    FailedAfterCommitError,
    StorageUnavailableError,
    TidelineError,
    UnknownOutcomeError,
)
from tideline.hudi.timeline.instant import State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.going_away_store import FOREVER, GoingAway
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects

LONG_S = 3600.0
LAST_CALLS = 14
"""Those of an insert from its last data file on."""
ROWS = batch([10, 11], 2)
OLD = [("k000", 1), ("k001", 1)]
NEW = [*OLD, ("k010", 2), ("k011", 2)]


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(2), 1))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    copied = prepared.copy()
    yield copied
    copied.forget()


@pytest.mark.parametrize("takes_place", [True, False])
def test_it_is_an_error_of_its_own_that_names_the_instant_and_who_to_ask(
    table: SmallTable, takes_place: bool
) -> None:
    store = GoingAway(table.store(), takes_place=takes_place)
    with pytest.raises(UnknownOutcomeError, match="Do not simply repeat it") as caught:
        table.write("insert", ROWS, store=store)
    error = caught.value
    assert error.exit_code == 5
    assert not isinstance(error, ConflictError | StorageUnavailableError)
    command = f"tideline list-instants {table.location.uri} --instant {error.instant}"
    assert command in error.message
    instant = open_fresh(table.location).timeline().find(InstantTime(str(error.instant)))
    assert instant is not None
    assert instant.state is (State.COMPLETED if takes_place else State.INFLIGHT)
    assert table.values() == (NEW if takes_place else OLD)


@pytest.mark.parametrize("takes_place", [True, False])
def test_the_write_settles_it_itself_once_the_store_is_back(
    table: SmallTable, takes_place: bool
) -> None:
    for calls in range(1, 12):
        copied = table.copy()
        store = GoingAway(copied.store(), calls=calls, takes_place=takes_place)
        report = copied.write("insert", ROWS, store=store)
        assert report.rows_inserted == 2
        assert copied.values() == NEW, calls
        hoodie = open_fresh(copied.location)
        assert len(hoodie.timeline().pending()) == 0
        left = [path for path in unexplained_objects(hoodie) if "/.heartbeat/" in path]
        assert left == [], calls
        copied.forget()


def test_it_is_settled_under_a_new_lock_when_the_lease_ran_out(table: SmallTable) -> None:
    """Long after the lease and without a request that got through, the commit is made again."""
    options = {"tideline.commit.settle.timeout.ms": "550000"}
    store = GoingAway(table.store(), calls=60, takes_place=False)
    began_s = table.clock.monotonic_s()
    table.write("insert", ROWS, store=store, options=options)
    assert table.clock.monotonic_s() - began_s > 120
    assert table.values() == NEW


def test_no_other_write_comes_between_while_it_is_settled(table: SmallTable) -> None:
    """A concurrent commit on the same keys makes the settled commit a conflict, not a loss."""
    options = {"tideline.commit.settle.timeout.ms": "30000"}
    store = GoingAway(table.store(), takes_place=False)
    with pytest.raises(UnknownOutcomeError):
        table.write("upsert", batch([0], 5), store=store, options=options)
    table.fake_clock.advance(LONG_S)
    table.write("upsert", batch([0], 6))
    assert table.values() == [("k000", 6), ("k001", 1)]


@pytest.mark.parametrize("calls", [1, 3, FOREVER])
def test_while_the_store_is_away_before_anything_was_sent_a_retry_is_safe(
    table: SmallTable, calls: int
) -> None:
    """The look at the inflight instant just before the completing write finds the store away."""
    store = GoingAway(table.store(), calls=calls, takes_place=False, before=True)
    if calls < 3:
        table.write("insert", ROWS, store=store)
        assert table.values() == NEW
        return
    with pytest.raises(StorageUnavailableError):
        table.write("insert", ROWS, store=store)
    assert table.values() == OLD


@pytest.mark.parametrize("token", ["night-7", None])
def test_an_insert_repeated_as_advised_is_there_once_wherever_the_store_goes_away(
    table: SmallTable, token: str | None
) -> None:
    rehearsed = table.copy()
    rehearsal = FaultyStore(rehearsed.store())
    rehearsed.write("insert", ROWS, store=rehearsal, token=token)
    rehearsed.forget()
    unknown = 0
    for call in range(rehearsal.calls - LAST_CALLS, rehearsal.calls + 2):
        copied = table.copy()
        outage = FaultPlan(unavailable_calls=frozenset(range(call, FOREVER)))
        store = FaultyStore(copied.store(), outage)
        if call > rehearsal.calls:
            store = GoingAway(copied.store(), takes_place=True)
        unknown += repeat_as_advised(copied, store, token)
        assert copied.values() == NEW, f"away from call {call}"
        hoodie = open_fresh(copied.location)
        assert missing_files(hoodie) == []
        assert len(hoodie.timeline().pending()) == 0
        copied.forget()
    assert unknown == 2, "the completing write was taken in, or not"


def repeat_as_advised(table: SmallTable, store: FaultyStore, token: str | None) -> int:
    """Write until the answer is that it is done; how often the outcome was unknown."""
    unknown = 0
    for _ in range(5):
        try:
            table.write("insert", ROWS, store=store, token=token)
            return unknown
        except UnknownOutcomeError as error:
            unknown += 1
            if token is None and fate(table, InstantTime(str(error.instant))) == "completed":
                return unknown
        except (ConflictError, StorageUnavailableError):
            pass
        store = FaultyStore(table.store())
        table.fake_clock.advance(LONG_S)
    raise AssertionError("never done")


def fate(table: SmallTable, time: InstantTime) -> str:
    """What `tideline list-instants --instant` finds once it is no longer pending."""
    table.fake_clock.advance(LONG_S)
    table.lake().recover()
    found = table.lake().timeline().find(time)
    assert found is None or found.is_completed
    return "absent" if found is None else "completed"


@pytest.mark.parametrize("calls", [1, 5])
def test_a_lost_reply_on_a_folder_is_settled_by_looking(tmp_path: Path, calls: int) -> None:
    """No request can be on its way to a folder: once it can be read, the outcome is known."""
    small = SmallTable.create(StoreLocation.of(str(tmp_path / "t")), FakeClock())
    store = GoingAway(small.store(), calls=calls, takes_place=True, kernel_locks=True)
    assert small.write("insert", ROWS, store=store).rows_inserted == 2
    assert small.values() == NEW[2:]


def test_a_folder_that_stays_away_after_the_commit_is_unknown_too(tmp_path: Path) -> None:
    small = SmallTable.create(StoreLocation.of(str(tmp_path / "t")), FakeClock())
    with pytest.raises(UnknownOutcomeError):
        small.write(
            "insert", ROWS, store=GoingAway(small.store(), takes_place=True, kernel_locks=True)
        )
    assert small.values() == NEW[2:]
    assert small.write("upsert", ROWS).rows_updated == 2


@pytest.mark.parametrize(
    ("state", "words"), [("completed", "do not write again"), ("absent", "write again")]
)
def test_the_named_command_says_what_became_of_it(
    state: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"fate-{state}"
    MemoryStore(name)
    small = SmallTable.create(StoreLocation.of(f"memory://{name}"))
    instant = small.write("insert", ROWS).instant
    time = instant if state == "completed" else "20200101000000000"
    assert run(["list-instants", small.location.uri, "--instant", time]) == 0
    assert f"{time} is {state}: " in (said := capsys.readouterr().out)
    assert words in said
    small.forget()


def test_a_service_that_fails_after_the_commit_never_says_that_a_retry_is_safe(
    table: SmallTable,
) -> None:
    """With Hudi's switch to raise it, it is said that the write is committed."""
    options = {
        "hoodie.fail.writes.on.inline.table.service.exception": "true",
        "hoodie.keep.max.commits": "5",
    }
    with pytest.raises(TidelineError) as caught:
        table.lake().delete_partitions(["p0"], options=options)
    assert isinstance(caught.value, FailedAfterCommitError)
    assert "do not repeat" in caught.value.message
    assert table.values() == [("k001", 1)]
