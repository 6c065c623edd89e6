"""A writer dies before its n-th write, for every n: readers see the old rows or the new ones.

Each run: copy a small table, die, read; let the heartbeat go silent; let the next writer write,
read again, and explain every object that is left. Dying after the n-th write leaves what dying
before the next one leaves, so only the last write needs both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import (
    ConfigError,
    ConflictError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TidelineError,
    UnknownOutcomeError,
)
from tideline.hudi.metadata_table import keep
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.table_config import METADATA_TABLE_PATH, TableType
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.small_table import SCHEMA, SmallTable, batch, memory_place
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import (
    missing_files,
    open_fresh,
    read_rows,
    traces_of,
    unexplained_objects,
)

LONG_S = 3600.0
"""Longer than any heartbeat or lease lasts."""

OPERATIONS: dict[str, pa.Table] = {
    "insert": batch(range(10, 14), 2),
    "upsert": batch(range(7, 13), 2),
    "delete": batch(range(3), 0),
    "bulk_insert": batch(range(20, 24), 2),
    "insert_overwrite": batch([1, 3, 21], 2),
    "insert_overwrite_table": batch([1, 3, 21], 2),
    "delete_partition": batch([1], 0),
}
NEXT = batch([0, 50], 9)
"""What the next writer upserts."""


NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
"""So that every update of a merge-on-read table is appended to a log."""

TABLE_TYPES = (
    TableType.COPY_ON_WRITE,
    pytest.param(TableType.MERGE_ON_READ, marks=pytest.mark.slow),
)
COMPLETING = (".commit", ".deltacommit")


def completes(path: str) -> bool:
    """Whether an object makes a commit of the table visible; its metadata table has commits too."""
    return path.endswith(COMPLETING) and METADATA_TABLE_PATH not in path


@pytest.fixture(scope="module", params=TABLE_TYPES, ids=str)
def prepared(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    appends = request.param is TableType.MERGE_ON_READ
    table = SmallTable.in_memory(NO_SMALL_FILES if appends else {}, table_type=request.param)
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 1, 8], 1))
    yield table
    table.forget()


@dataclass(frozen=True)
class Expected:
    """Rows before and after a write, each alone and with the next writer's upsert on top."""

    old: list[tuple[str, int]]
    new: list[tuple[str, int]]
    old_and_next: list[tuple[str, int]]
    new_and_next: list[tuple[str, int]]

    @classmethod
    def of(cls, prepared: SmallTable, write: Callable[[SmallTable], object]) -> Expected:
        def after(*writes: Callable[[SmallTable], object]) -> list[tuple[str, int]]:
            table = prepared.copy()
            for apply in writes:
                apply(table)
            return table.values()

        def following(table: SmallTable) -> object:
            return table.write("upsert", NEXT)

        return cls(after(), after(write), after(following), after(write, following))


def count_writes(prepared: SmallTable, write: Callable[[SmallTable, FaultyStore], object]) -> int:
    table = prepared.copy()
    store = FaultyStore(table.store())
    write(table, store)
    return len(store.writes)


def assert_sound(table: SmallTable, when: str) -> None:
    fresh = open_fresh(table.location, clock=table.clock)
    assert unexplained_objects(fresh) == [], when
    assert missing_files(fresh) == [], when


def check_survivors(table: SmallTable, expected: Expected, when: str) -> bool:
    """A reader, then the next writer, then a reader again. Returns whether the write is visible."""
    seen = table.values()
    assert seen in (expected.old, expected.new), when
    table.fake_clock.advance(LONG_S)
    report = table.write("upsert", NEXT)
    visible = seen == expected.new
    assert table.values() == (expected.new_and_next if visible else expected.old_and_next), when
    assert_sound(table, when)
    for dead in report.rolled_back:
        assert traces_of(table.store(), dead) == [], when
    return visible


@pytest.mark.parametrize("operation", OPERATIONS)
def test_dying_before_any_write_of_an_operation(prepared: SmallTable, operation: str) -> None:
    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write(operation, OPERATIONS[operation], store=store)

    expected = Expected.of(prepared, write)
    total = count_writes(prepared, write)
    assert total >= 9
    outcomes = set()
    for number in range(1, total + 2):
        table = prepared.copy()
        after_all = number > total
        plan = FaultPlan(crash_after_write=total) if after_all else FaultPlan(number)
        with pytest.raises(SimulatedCrash):
            write(table, FaultyStore(table.store(), plan))
        when = (
            f"{operation} died {'after its last' if after_all else f'before its {number}.'} write"
        )
        outcomes.add(check_survivors(table, expected, when))
        table.forget()
    assert outcomes == {False, True}


def kill_before_completing(table: SmallTable) -> None:
    """An upsert dies just before its completed object: everything of it is there but that."""

    def upsert(store: FaultyStore) -> None:
        table.write("upsert", OPERATIONS["upsert"], store=store)

    rehearsal = FaultyStore(table.copy().store())
    upsert(rehearsal)
    paths = [write.path for write in rehearsal.writes]
    last = next(n for n, path in enumerate(paths, start=1) if completes(path))
    with pytest.raises(SimulatedCrash):
        upsert(FaultyStore(table.store(), FaultPlan(last)))
    table.fake_clock.advance(LONG_S)


def test_dying_in_the_rollback_of_a_dead_writer(prepared: SmallTable) -> None:
    """Also while sweeping, and in the write that the rollback comes before."""
    dead = prepared.copy()
    kill_before_completing(dead)
    later = batch([20, 60], 5)

    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write("insert", later, store=store)

    expected = Expected.of(dead, write)
    for number in range(1, count_writes(dead, write) + 1):
        table = dead.copy()
        with pytest.raises(SimulatedCrash):
            write(table, FaultyStore(table.store(), FaultPlan(number)))
        check_survivors(table, expected, f"died before the {number}. write after a dead writer")
        table.forget()


def test_dying_in_a_rollback_again_and_again(prepared: SmallTable) -> None:
    """Every attempt gets one write further than the one before."""
    table = prepared.copy()
    kill_before_completing(table)
    before = table.values()
    for number in range(1, 40):
        store = FaultyStore(table.store(), FaultPlan(number))
        try:
            LakeTable(open_fresh(table.location, store, table.clock)).recover()
        except SimulatedCrash:
            assert table.values() == before
            table.fake_clock.advance(LONG_S)
        else:
            break
    assert table.values() == before
    assert number > 5
    assert_sound(table, "after the last attempt")


def test_dying_while_sweeping_after_a_writer_that_died_once_it_was_done(
    prepared: SmallTable,
) -> None:
    """It left its markers and its heartbeat behind."""
    left = prepared.copy()
    rehearsal = FaultyStore(left.copy().store())
    left.write("upsert", OPERATIONS["upsert"], store=rehearsal)
    left = prepared.copy()
    paths = [write.path for write in rehearsal.writes]
    completing = next(n for n, path in enumerate(paths, start=1) if completes(path))
    with pytest.raises(SimulatedCrash):
        store = FaultyStore(left.store(), FaultPlan(crash_after_write=completing))
        left.write("upsert", OPERATIONS["upsert"], store=store)
    assert unexplained_objects(open_fresh(left.location))
    left.fake_clock.advance(LONG_S)

    def sweep(table: SmallTable, store: FaultyStore | None = None) -> object:
        return LakeTable(open_fresh(table.location, store, table.clock)).recover()

    expected = Expected.of(left, sweep)
    for number in range(1, count_writes(left, sweep) + 1):
        table = left.copy()
        with pytest.raises(SimulatedCrash):
            sweep(table, FaultyStore(table.store(), FaultPlan(number)))
        check_survivors(table, expected, f"died before the {number}. write of a sweep")
        table.forget()


def test_dying_while_switching_off_the_metadata_table(
    prepared: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hoodie.properties` is rewritten in the middle of the commit."""
    monkeypatch.setattr(keep, "disable_metadata_table", disable_metadata_table)
    carrying = prepared.copy()
    hoodie = open_fresh(carrying.location, clock=carrying.clock)
    off = {"hoodie.metadata.enable": "false"}
    hoodie.properties.update({"hoodie.table.metadata.partitions": "files", **off})
    for name in ("files/x.hfile", ".hoodie/hoodie.properties"):
        carrying.store().put(f".hoodie/metadata/{name}", b"stale")

    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write("upsert", OPERATIONS["upsert"], store=store)

    expected = Expected.of(carrying, write)
    rehearsal = FaultyStore(carrying.copy().store())
    write(SmallTable(carrying.location, carrying.clock).copy(), rehearsal)
    paths = [step.path for step in rehearsal.writes]
    first = next(n for n, path in enumerate(paths, start=1) if "hoodie.properties" in path)
    last = next(n for n, path in enumerate(paths, start=1) if completes(path))
    assert last - first > 4
    for number in range(first, last + 2):
        table = carrying.copy()
        with pytest.raises(SimulatedCrash):
            write(table, FaultyStore(table.store(), FaultPlan(number)))
        assert table.values() in (expected.old, expected.new)
        if table.values() == expected.new:
            assert open_fresh(table.location).config.metadata_partitions == ()
        # The next change of the properties, by any process, deletes the backup of this one.
        table.fake_clock.advance(LONG_S)
        table.write("upsert", NEXT)
        hoodie = open_fresh(table.location, clock=table.clock)
        hoodie.properties.update({})
        assert hoodie.config.metadata_partitions == ()
        assert_sound(table, f"died before write {number}, {paths[number - 1]}")
        table.forget()


def test_dying_while_creating_a_table() -> None:
    definition = TableDefinition(
        name="t", record_key=("id",), partition_by=("part",), schema=SCHEMA
    )
    for number in (1, 2):
        location, clock = memory_place()
        inner = location.open()
        dies_after = number == 2
        plan = FaultPlan(crash_after_write=1) if dies_after else FaultPlan(number)
        with pytest.raises(SimulatedCrash):
            create_table(FaultyStore(inner, plan), definition, clock)
        if dies_after:
            with pytest.raises(ConfigError):
                create_table(inner, definition, clock)
        else:
            with pytest.raises(ObjectNotFoundError):
                open_fresh(location, clock=clock)
            create_table(inner, definition, clock)
        table = SmallTable(location, clock)
        table.write("insert", batch(range(4), 1))
        assert len(table.values()) == 4
        assert_sound(table, f"died before write {number}")
        table.forget()


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite"])
@pytest.mark.parametrize("reply", LostReply)
def test_losing_the_reply_to_any_conditional_write(
    prepared: SmallTable, operation: str, reply: LostReply
) -> None:
    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write(operation, OPERATIONS[operation], store=store)

    expected = Expected.of(prepared, write)
    rehearsal = FaultyStore(prepared.copy().store())
    write(prepared.copy(), rehearsal)
    succeeded = 0
    for number in range(1, rehearsal.conditional_writes + 1):
        table = prepared.copy()
        plan = FaultPlan(lost_reply_of_conditional_write=number, lost_reply=reply)
        store = FaultyStore(table.store(), plan)
        when = f"{operation} lost the reply to its {number}. conditional write"
        try:
            write(table, store)
        except (ConflictError, StorageUnavailableError):
            assert table.values() == expected.old, when
        else:
            assert table.values() == expected.new, when
            succeeded += 1
        check_survivors(table, expected, when)
        table.forget()
    assert succeeded >= 2


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite"])
def test_the_store_being_away_for_one_call(prepared: SmallTable, operation: str) -> None:
    """The write undoes itself, or succeeds; no later writer is needed for either."""

    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write(operation, OPERATIONS[operation], store=store)

    expected = Expected.of(prepared, write)
    rehearsal = FaultyStore(prepared.copy().store())
    write(prepared.copy(), rehearsal)
    for number in range(1, rehearsal.calls + 1):
        table = prepared.copy()
        store = FaultyStore(table.store(), FaultPlan(unavailable_calls=frozenset({number})))
        when = f"the store was away for call {number} of {operation}"
        try:
            write(table, store)
        except StorageUnavailableError:
            assert table.values() == expected.old, when
        else:
            assert table.values() == expected.new, when
        hoodie = open_fresh(table.location, clock=table.clock)
        assert len(hoodie.timeline().pending()) == 0, when
        left = [p for p in unexplained_objects(hoodie) if not p.startswith(IDLE_LEFTOVERS)]
        assert left == [], when
        check_survivors(table, expected, when)
        table.forget()


IDLE_LEFTOVERS = (".hoodie/.heartbeat/", ".hoodie/.temp/")
"""What the next writer sweeps: empty objects whose removal failed after the commit was visible."""


def test_the_store_staying_away_from_some_call_on(prepared: SmallTable) -> None:
    """Nothing can be undone then, so the next writer does it."""

    def write(table: SmallTable, store: FaultyStore | None = None) -> object:
        return table.write("upsert", OPERATIONS["upsert"], store=store)

    expected = Expected.of(prepared, write)
    rehearsal = FaultyStore(prepared.copy().store())
    write(prepared.copy(), rehearsal)
    for number in range(1, rehearsal.calls + 1):
        table = prepared.copy()
        away = frozenset(range(number, number + 1000))
        when = f"the store went away at call {number}"
        try:
            write(table, FaultyStore(table.store(), FaultPlan(unavailable_calls=away)))
        except TidelineError as error:
            assert isinstance(error, StorageUnavailableError | UnknownOutcomeError), when
            if isinstance(error, StorageUnavailableError):
                assert table.values() == expected.old, when
        else:
            assert table.values() == expected.new, when
        check_survivors(table, expected, when)
        table.forget()


def test_a_reader_in_another_process_needs_nothing_but_the_store(prepared: SmallTable) -> None:
    """The reader these tests rely on sees the table through its objects alone."""
    name = prepared.location.uri.removeprefix("memory://")
    table = open_fresh(prepared.location, MemoryStore(name))
    assert [row["id"] for row in read_rows(table)] == [f"k{number:03d}" for number in range(9)]


def losing_the_reply(table: SmallTable, away_for_calls: int) -> SteppingStore:
    """A store that makes the commit visible, says that it is away, and stays so for some calls."""
    left = [0]

    def before(_step: Step) -> None:
        if left[0]:
            left[0] -= 1
            raise StorageUnavailableError("away")

    def after(step: Step) -> None:
        if step.method == "put_if_absent" and completes(step.path):
            left[0] = away_for_calls
            raise StorageUnavailableError("reply lost")

    return SteppingStore(table.store(), before, after)


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4])
def test_a_visible_commit_is_a_success_once_the_store_is_back(
    prepared: SmallTable, calls: int
) -> None:
    """Found out by repeating the write, or, when even that fails, by reading the timeline."""
    table = prepared.copy()
    store = losing_the_reply(table, calls)
    table.write("upsert", OPERATIONS["upsert"], store=store)
    assert ("k012", 2) in table.values()
    assert_sound(table, f"away for {calls} calls")


def test_a_commit_whose_fate_is_unknown_is_not_undone(prepared: SmallTable) -> None:
    """The store takes it and stays away: undoing it would leave a commit without files."""
    table = prepared.copy()
    with pytest.raises(UnknownOutcomeError, match="tideline list-instants"):
        table.write("upsert", OPERATIONS["upsert"], store=losing_the_reply(table, 1000))
    seen = table.values()
    assert ("k012", 2) in seen
    table.fake_clock.advance(LONG_S)
    assert table.write("upsert", NEXT).rolled_back == ()
    assert ("k012", 2) in table.values()
    assert_sound(table, "after the next writer")


def test_a_commit_that_may_still_arrive_keeps_its_heartbeat(prepared: SmallTable) -> None:
    """So no writer rolls it back before the request can no longer be on its way."""
    table = prepared.copy()

    def refuse(step: Step) -> None:
        if step.method == "put_if_absent" and completes(step.path):
            raise StorageUnavailableError("no answer")

    before = table.values()
    with pytest.raises(UnknownOutcomeError, match="tideline list-instants"):
        table.write("upsert", OPERATIONS["upsert"], store=SteppingStore(table.store(), refuse))
    assert table.write("insert", batch([30], 3)).rolled_back == ()
    table.fake_clock.advance(LONG_S)
    assert len(table.write("upsert", NEXT).rolled_back) == 1
    assert table.values() == sorted((dict(before) | {"k000": 9, "k030": 3, "k050": 9}).items())
    assert_sound(table, "after the next writer")


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit, ValueError, MemoryError])
def test_a_write_that_is_interrupted_undoes_itself(
    prepared: SmallTable, reason: type[BaseException]
) -> None:
    def interrupt() -> None:
        raise reason

    table = prepared.copy()
    before = table.values()
    with pytest.raises(reason):
        table.write("upsert", OPERATIONS["upsert"], after_files=interrupt)
    assert table.values() == before
    assert_sound(table, str(reason))


def test_a_full_disk_is_no_reason_to_wait(tmp_path: Path) -> None:
    """Nothing is on its way to a local folder, so a refused commit is undone at once."""
    table = SmallTable.create(StoreLocation.of(str(tmp_path / "table")))
    table.write("insert", batch(range(4), 1))
    before = table.values()

    def refuse(step: Step) -> None:
        if step.method == "put_if_absent" and completes(step.path):
            raise StorageUnavailableError("no space left on device")

    with pytest.raises(StorageUnavailableError, match="no space left"):
        table.write("upsert", batch([1, 9], 2), store=SteppingStore(table.store(), refuse))
    assert table.values() == before
    assert_sound(table, "after the refused commit")
