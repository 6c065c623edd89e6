"""Builds of every kind of index that die at any store write, are paused until their lock has been
taken over, between requests or in the midst of one, or meet others.

Between the death and what follows a writer commits. What is listed then says what the files hold,
and no definition that Hudi's queries believe is left of what is not listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
import pytest

from tideline.check_finding import Severity
from tideline.errors import ConfigError, ConflictError, TidelineError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
    PARTITION_STATS,
    RECORD_INDEX,
    TableType,
)
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.interrupted_store import InterruptedStore
from tideline.testing.small_table import COMPACTED_OFTEN, ONCE, QUIET, SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import stale_listing

BLOOM_FILTERS, SECONDARY = "bloom_filters", "secondary_index_v"
NEEDED = {PARTITION_STATS: COLUMN_STATS, SECONDARY: RECORD_INDEX}
KINDS = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, RECORD_INDEX, SECONDARY)
TABLES = (
    (9, TableType.MERGE_ON_READ),
    (8, TableType.COPY_ON_WRITE),
    (6, TableType.MERGE_ON_READ),
)
IMPATIENT = {
    **QUIET,
    "hoodie.write.lock.wait_time_ms": "1",
    "hoodie.write.lock.client.num_retries": "0",
}
IS_READ = {"get", "get_versioned", "get_range", "head", "list_directory", "open_reader"}
"""The calls behind which a process that slept finds out that it has lost the lock."""
IS_WRITE = {"put", "put_if_absent", "put_if_match", "delete"}
"""Those that take place although the process slept in them."""


@dataclass
class Modelled:
    """A table, and the rows that it must have."""

    small: SmallTable
    rows: dict[str, int]

    @classmethod
    def made(cls, version: int, table_type: TableType, *indexes: str) -> Modelled:
        small = SmallTable.in_memory(
            table_version=version, table_type=table_type, properties=COMPACTED_OFTEN
        )
        modelled = cls(small, {})
        modelled.write("insert", range(6), 1)
        modelled.write("upsert", [1, 2, 3], 5)
        modelled.write("delete", [4], 5)
        for index in indexes:
            modelled.create(index)
        return modelled

    def copy(self) -> Modelled:
        return Modelled(self.small.copy(), dict(self.rows))

    def write(
        self, operation: str, keys: Sequence[int], v: int, options: Mapping[str, str] = QUIET
    ) -> None:
        self.small.write(operation, batch(keys, v), options=options)
        for key in (f"k{number:03}" for number in keys):
            if operation == "delete":
                self.rows.pop(key, None)
            else:
                self.rows[key] = v

    def create(
        self, name: str, store: ObjectStore | None = None, options: Mapping[str, str] = QUIET
    ) -> None:
        self.small.lake(store).indexes(options).create(name)

    def create_missing(self, name: str) -> None:
        if name not in self.opened().config.metadata_partitions:
            self.create(name)

    def drop(
        self, name: str, store: ObjectStore | None = None, options: Mapping[str, str] = QUIET
    ) -> None:
        self.small.lake(store).indexes(options).drop(name)

    def opened(self) -> HoodieTable:
        return open_table(self.small.location, self.small.clock, self.small.store())

    def sleep(self) -> None:
        self.small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)

    def assert_listed_is_right(self) -> None:
        """What readers of the lists believe, and the rows."""
        table = self.opened()
        errors = [f for f in check_table(table) if f.severity is Severity.ERROR]
        assert [f.message for f in errors if "is defined, and" not in f.message] == []
        assert sorted(self.small.values()) == sorted(self.rows.items())
        for key in ("k000", "k009"):
            found = self.small.lake().scan(filter=pc.field("id") == key).read_all()
            assert found.num_rows == (key in self.rows)

    def assert_right(self) -> None:
        """The same, those of definitions, and nothing that is left over, as behind a commit."""
        self.assert_listed_is_right()
        table = self.opened()
        assert stale_listing(table) == []
        listed = table.config.metadata_partitions
        assert believed_without_partition(table, listed) == ()
        assert set(table.config.metadata_partitions_in_work) == set(listed)

    def forget(self) -> None:
        self.small.forget()


BUILDS = [
    pytest.param((*table, name), id=f"v{table[0]} {name}")
    for table in TABLES
    for name in KINDS
    if table[0] > 6 or name not in NEEDED
]
BESIDE_OTHERS = [
    param for param in BUILDS if param.id in ("v9 secondary_index_v", "v8 partition_stats")
]


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest) -> Iterator[tuple[Modelled, str]]:
    """A table, and the index that is built on it."""
    version, table_type, name = request.param
    needed = [NEEDED[name]] if name in NEEDED else []
    modelled = Modelled.made(version, table_type, *needed)
    yield modelled, name
    modelled.forget()


Work = Callable[[Modelled, ObjectStore], object]


def written_by(modelled: Modelled, work: Work) -> int:
    """How many writes some work makes."""
    twin = modelled.copy()
    rehearsal = FaultyStore(twin.small.store())
    work(twin, rehearsal)
    twin.forget()
    return len(rehearsal.writes)


def deaths(modelled: Modelled, work: Work) -> Iterator[tuple[int, Modelled]]:
    """The table after a death of this work before each write, and after it, in turn."""
    for number in range(1, written_by(modelled, work) + 1):
        for is_after in (False, True):
            twin = modelled.copy()
            died = FaultPlan(
                crash_after_write=number if is_after else None,
                crash_before_write=None if is_after else number,
            )
            with contextlib.suppress(SimulatedCrash):
                work(twin, FaultyStore(twin.small.store(), died))
            twin.sleep()
            yield 2 * number + is_after, twin
            twin.forget()


def follow(modelled: Modelled, name: str, number: int) -> None:
    """What comes after a death: commits, another attempt, a drop, services."""
    modelled.assert_listed_is_right()
    if number % 4 != 1:
        modelled.write("upsert", [0, 1, 9], 100)
        modelled.assert_right()
    if number % 4 == 2:
        with contextlib.suppress(ConfigError):
            modelled.drop(name)
        assert not list(modelled.small.store().list(f"{METADATA_TABLE_PATH}/{name}"))
        modelled.assert_right()
    if number % 4 == 3:
        for service in ("cleaning", "clustering", "compaction"):
            options = {**ONCE, "hoodie.clean.commits.retained": "1"}
            modelled.small.lake().run(service, options=options)
        modelled.assert_right()
    modelled.create_missing(name)
    modelled.assert_listed_is_right()
    assert {index.is_in_use for index in modelled.small.lake().indexes({}).list()} == {True}
    modelled.write("upsert", [3, 0, 20], 200)
    modelled.assert_right()


@pytest.mark.slow
def test_builds_that_die_at_any_write(build: tuple[Modelled, str]) -> None:
    modelled, name = build
    for number, twin in deaths(modelled, lambda twin, store: twin.create(name, store)):
        follow(twin, name, number)


@pytest.mark.slow
def test_drops_that_die_at_any_write(build: tuple[Modelled, str]) -> None:
    modelled, name = build
    modelled.create(name)
    for number, twin in deaths(modelled, lambda twin, store: twin.drop(name, store)):
        follow(twin, name, number)


@pytest.mark.slow
def test_a_writer_that_dies_while_an_index_is_built(build: tuple[Modelled, str]) -> None:
    """The index is built between the writer's files and its commit, and again after its death."""
    modelled, name = build

    def write(twin: Modelled, store: ObjectStore) -> None:
        # A record index makes keys unique in the whole table, which the writer did not look for.
        with contextlib.suppress(ConflictError):
            twin.small.write(
                "upsert",
                batch([0, 1, 9], 50),
                store=store,
                options=QUIET,
                after_files=lambda: twin.create_missing(name),
            )

    for number, twin in deaths(modelled, write):
        values = twin.small.values()
        if ("k009", 50) in values:
            twin.rows |= {"k000": 50, "k001": 50, "k009": 50}
        follow(twin, name, number)


@pytest.mark.parametrize("among", ["index.json", "hoodie.properties.backup"])
def test_a_death_before_the_list_leaves_no_definition_behind_a_commit(among: str) -> None:
    """Queries of Hudi's use a secondary index that is defined, whether it is listed or not."""
    modelled = Modelled.made(9, TableType.MERGE_ON_READ, RECORD_INDEX)
    store = FaultyStore(modelled.small.store(), FaultPlan(crash_after_write=1, among=among))
    with pytest.raises(SimulatedCrash):
        modelled.create(SECONDARY, store)
    modelled.sleep()
    table = modelled.opened()
    left = believed_without_partition(table, table.config.metadata_partitions)
    assert left == ((SECONDARY,) if among == "index.json" else ())
    modelled.write("upsert", [0, 9], 100)
    modelled.assert_right()
    modelled.forget()


def test_what_is_in_work_is_listed_by_no_drop_of_another() -> None:
    """As a build of Hudi's leaves it whose instant was deleted."""
    modelled = Modelled.made(9, TableType.COPY_ON_WRITE, COLUMN_STATS, BLOOM_FILTERS)
    modelled.opened().properties.update({METADATA_PARTITIONS_INFLIGHT: RECORD_INDEX})
    modelled.drop(BLOOM_FILTERS)
    modelled.assert_right()
    assert modelled.opened().config.metadata_partitions == (COLUMN_STATS, "files")
    modelled.opened().properties.update({METADATA_PARTITIONS_INFLIGHT: RECORD_INDEX})
    modelled.create(BLOOM_FILTERS)
    modelled.assert_right()
    modelled.forget()


def others(name: str) -> dict[str, Callable[[Modelled], object]]:
    """What another process does meanwhile, unless the lock is held."""

    def write(twin: Modelled) -> None:
        twin.write("upsert", [0, 1, 9], 300, options=IMPATIENT)

    def write_and_create(twin: Modelled) -> None:
        write(twin)
        twin.create(name, options=IMPATIENT)

    return {
        "create": lambda twin: twin.create(name, options=IMPATIENT),
        "drop": lambda twin: twin.drop(name, options=IMPATIENT),
        "write": write,
        "write and create": write_and_create,
    }


def steps_of(modelled: Modelled, work: Work) -> InterruptedStore:
    """The calls that some work makes."""
    twin = modelled.copy()
    rehearsal = InterruptedStore(twin.small.store(), 0, lambda: None)
    work(twin, rehearsal)
    twin.forget()
    return rehearsal


def beside(
    modelled: Modelled,
    name: str,
    other: Callable[[Modelled], object],
    moments: Iterable[int],
    work: Work,
    *,
    asleep: bool,
) -> None:
    """Work beside another process, which comes before each of these calls."""
    for moment in moments:
        twin = modelled.copy()

        def meanwhile(twin: Modelled = twin) -> None:
            if asleep:
                twin.sleep()
            with contextlib.suppress(ConflictError, ConfigError):
                other(twin)

        with contextlib.suppress(TidelineError):
            work(twin, InterruptedStore(twin.small.store(), moment, meanwhile))
        twin.assert_listed_is_right()
        in_work = twin.opened().config.metadata_partitions_in_work
        assert believed_without_partition(twin.opened(), in_work) == ()
        twin.write("upsert", [0, 1, 9], 400)
        twin.assert_right()
        twin.create_missing(name)
        twin.write("upsert", [3, 0, 20], 500)
        twin.assert_right()
        twin.forget()


def numbers_of(methods: Collection[str], store: InterruptedStore) -> list[int]:
    numbered = enumerate(store.steps, 1)
    return [n for n, step in numbered if step.method in methods and ".locks" not in step.path]


@pytest.mark.slow
@pytest.mark.parametrize("build", BESIDE_OTHERS, indirect=True)
@pytest.mark.parametrize("other", others(""))
def test_two_processes_at_once(build: tuple[Modelled, str], other: str) -> None:
    modelled, name = build

    def create(twin: Modelled, store: ObjectStore) -> None:
        twin.create(name, store)

    moments = steps_of(modelled, create).moments(6)
    beside(modelled, name, others(name)[other], moments, create, asleep=False)


@pytest.mark.slow
@pytest.mark.parametrize("build", BESIDE_OTHERS, indirect=True)
@pytest.mark.parametrize("methods", [IS_READ, IS_WRITE], ids=["reading", "writing"])
@pytest.mark.parametrize("other", others(""))
def test_a_build_that_slept_while_another_process_worked(
    build: tuple[Modelled, str], other: str, methods: Collection[str]
) -> None:
    modelled, name = build

    def create(twin: Modelled, store: ObjectStore) -> None:
        twin.create(name, store)

    every = 2 if methods is IS_READ else 1
    moments = numbers_of(methods, steps_of(modelled, create))[::every]
    beside(modelled, name, others(name)[other], moments, create, asleep=True)


@pytest.mark.slow
@pytest.mark.parametrize("build", BESIDE_OTHERS, indirect=True)
@pytest.mark.parametrize("other", others(""))
def test_a_drop_that_slept_while_another_process_worked(
    build: tuple[Modelled, str], other: str
) -> None:
    modelled, name = build
    modelled.create(name)

    def drop(twin: Modelled, store: ObjectStore) -> None:
        twin.drop(name, store)

    def other_after_drop(twin: Modelled) -> None:
        """A drop that died in the middle is done by another process, which makes the index."""
        if other == "create":
            with contextlib.suppress(ConfigError):
                twin.drop(name, options=IMPATIENT)
        others(name)[other](twin)

    moments = numbers_of({*IS_READ, *IS_WRITE}, steps_of(modelled, drop))
    beside(modelled, name, other_after_drop, moments, drop, asleep=True)


@pytest.mark.parametrize("name", [RECORD_INDEX, SECONDARY])
def test_a_build_that_slept_in_its_last_request_publishes_nothing_stale(name: str) -> None:
    """The store gets the request when another process has committed."""
    needed = [NEEDED[name]] if name in NEEDED else []
    modelled = Modelled.made(9, TableType.COPY_ON_WRITE, *needed)
    slept: list[Step] = []

    def sleep(step: Step) -> None:
        is_list = step.path.endswith("/hoodie.properties") and step.method in IS_WRITE
        lists = modelled.opened().config.properties if is_list and not slept else {}
        if lists.get(METADATA_PARTITIONS_INFLIGHT) == name:
            slept.append(step)
            modelled.sleep()
            modelled.write("upsert", [0, 1, 9], 300, options=IMPATIENT)

    with pytest.raises(ConflictError, match="changed the table properties first"):
        modelled.create(name, SteppingStore(modelled.small.store(), sleep))
    assert slept
    assert name not in modelled.opened().config.metadata_partitions_in_work
    modelled.assert_right()
    modelled.create(name)
    modelled.write("upsert", [3, 0, 20], 400)
    modelled.assert_right()
    modelled.forget()
