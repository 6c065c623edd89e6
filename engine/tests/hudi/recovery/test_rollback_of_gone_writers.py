"""Writers that are known to be gone are rolled back at once; their name is all that proves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConflictError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.storage.heartbeat import heartbeat_writer
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import traces_of, unexplained_objects
from tideline.testing.write_batch import InterruptedEngine, batch_engine, write_batch

pytestmark = pytest.mark.usefixtures("version_6")

ME = "people-ingest-1/6f1c"
LOCK_VALIDITY_S = 300
BEFORE = [(f"k{number:03d}", 1) for number in range(4)]
AFTER = [(f"k{number:03d}", 2) for number in range(4)]


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(4), 1))
    yield table
    table.forget()


def write_named(table: SmallTable, store: ObjectStore) -> None:
    """A write whose heartbeat says who writes."""
    lake = table.lake(store)
    lake.hoodie_table.writer = ME
    engine = batch_engine(lake, batch(range(4), 2), WriteOperation.UPSERT)
    write_batch(lake, engine, WriteOperation.UPSERT)


def pending(table: SmallTable) -> str:
    (instant,) = table.lake().timeline().pending()
    return str(instant.time)


def die_writing_files(table: SmallTable) -> str:
    """Die with data files written; returns the instant left behind, its heartbeat young."""

    def die(step: Step) -> None:
        if step.method == "close_writer" and step.path.endswith(".parquet"):
            raise SimulatedCrash("after a data file")

    with pytest.raises(SimulatedCrash):
        write_named(table, SteppingStore(table.store(), lambda _: None, die))
    return pending(table)


def test_without_a_proof_a_young_heartbeat_is_left_alone(table: SmallTable) -> None:
    instant = die_writing_files(table)
    assert table.lake().recover() == ()
    assert table.lake().recover(gone=["people-ingest-1/another", ""]) == ()
    assert pending(table) == instant


def test_a_writer_known_to_be_gone_is_rolled_back_despite_its_heartbeat(table: SmallTable) -> None:
    instant = die_writing_files(table)
    (rolled,) = table.lake().recover(gone=[ME])
    assert str(rolled.instant) == instant
    assert traces_of(table.store(), rolled.instant) == []
    assert unexplained_objects(table.lake().hoodie_table) == []
    assert table.values() == BEFORE


def test_a_writer_declared_gone_that_lives_commits_nothing(table: SmallTable) -> None:
    """A wrong declaration costs a repetition, and no row."""

    def declare_gone() -> None:
        table.lake().recover(gone=[ME])

    lake = table.lake()
    lake.hoodie_table.writer = ME
    opened = batch_engine(lake, batch(range(4), 2), WriteOperation.UPSERT)
    engine = InterruptedEngine(opened, after_files=declare_gone)
    with pytest.raises(ConflictError):
        write_batch(lake, engine, WriteOperation.UPSERT)
    assert table.values() == BEFORE
    assert unexplained_objects(table.lake().hoodie_table) == []


def test_the_name_is_withdrawn_before_the_completing_request(table: SmallTable) -> None:
    """That request may outlive its sender, so from then on only age counts."""
    names: list[str] = []

    def look(step: Step) -> None:
        path = step.path
        if step.method == "put_if_absent" and path.startswith(".hoodie/2") and _completes(path):
            instant = path.rpartition("/")[2].partition(".")[0]
            names.append(heartbeat_writer(table.store(), instant))

    write_named(table, SteppingStore(table.store(), look))
    assert names == [""]
    assert table.values() == AFTER


def test_wherever_a_writer_dies_its_name_decides_until_its_heartbeat_is_old(
    table: SmallTable,
) -> None:
    seen: set[bool] = set()
    for number in range(1, _writes_of(table) + 1):
        copy = table.copy()
        with pytest.raises(SimulatedCrash):
            write_named(copy, FaultyStore(copy.store(), FaultPlan(crash_before_write=number)))
        left = [str(instant.time) for instant in copy.lake().timeline().pending()]
        named = [heartbeat_writer(copy.store(), time) == ME for time in left]
        # A table lock that died with its holder runs out long before the heartbeat does.
        copy.fake_clock.advance(LOCK_VALIDITY_S + 1)
        rolled = copy.lake().recover(gone=[ME])
        assert [str(rolled_back.instant) for rolled_back in rolled] == (left if all(named) else [])
        seen.update(named)
        copy.fake_clock.advance(7200)
        copy.lake().recover()
        assert copy.values() in (BEFORE, AFTER)
        assert unexplained_objects(copy.lake().hoodie_table) == []
        copy.forget()
    assert seen == {True, False}


def _completes(path: str) -> bool:
    return path.endswith((".commit", ".deltacommit"))


def _writes_of(table: SmallTable) -> int:
    copy = table.copy()
    store = FaultyStore(copy.store())
    write_named(copy, store)
    copy.forget()
    return len(store.writes)
