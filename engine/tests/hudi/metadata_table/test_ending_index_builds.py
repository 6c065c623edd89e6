"""Builds of Hudi's that died are ended on demand, with what they made; a build that starts beside
a commit makes it a conflict."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    PARTITION_STATS,
    RECORD_INDEX,
)
from tideline.hudi.timeline.instant import Action, State
from tideline.storage.object_store import ObjectStore
from tideline.testing.dead_index_build import put_index_build, with_dead_build
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.stepping_store import Step, SteppingStore
from tideline.testing.table_audit import stale_listing

SECONDARY = "secondary_index_v"
CLUSTERED = {
    **QUIET,
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}
SILENT_S = DEFAULT_LIMITS.silent_s_max + 1


def opened(small: SmallTable, store: ObjectStore | None = None) -> HoodieTable:
    return open_table(small.location, small.clock, store or small.store())


@pytest.fixture(params=[6, 8, 9])
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = SmallTable.in_memory(
        table_version=request.param, properties={"hoodie.metadata.enable": "true"}
    )
    table.write("insert", batch(range(6), 1), options=QUIET)
    yield table
    table.forget()


def assert_right(small: SmallTable) -> None:
    table = opened(small)
    errors = [str(f) for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
    assert errors == []
    assert stale_listing(table) == []
    assert believed_without_partition(table, table.config.metadata_partitions) == ()


def end(small: SmallTable, name: str, store: ObjectStore | None = None) -> Sequence[str]:
    return small.lake(store).indexes({}).drop(name, end_build=True)


def test_a_build_that_listed_its_index_is_ended_with_it(small: SmallTable) -> None:
    with_dead_build(small, RECORD_INDEX)
    # Nobody keeps what it did not add.
    assert any(f.severity is Severity.ERROR for f in check_table(opened(small), keys=True))
    small.fake_clock.advance(SILENT_S)
    with pytest.raises(ConflictError, match=f"tideline index drop {RECORD_INDEX} --end-build"):
        small.write("upsert", batch([2], 6), options=QUIET)
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        small.lake().indexes({}).drop(RECORD_INDEX)
    assert end(small, RECORD_INDEX) == (RECORD_INDEX,)
    assert opened(small).timeline().of(Action.INDEXING).instants == ()
    assert opened(small).config.metadata_partitions == (FILES,)
    small.write("upsert", batch([2, 20], 6), options=QUIET)
    small.lake().indexes({}).create(RECORD_INDEX)
    small.write("upsert", batch([3, 21], 7), options=QUIET)
    assert opened(small).config.metadata_partitions == (FILES, RECORD_INDEX)
    assert_right(small)


def test_what_came_into_the_list_since_goes_too() -> None:
    """A build of Hudi's makes the statistics that its writer's settings enable."""
    small = SmallTable.in_memory(table_version=9, properties={"hoodie.metadata.enable": "true"})
    small.write("insert", batch(range(6), 1), options=QUIET)
    small.lake().indexes({}).create(BLOOM_FILTERS)
    with_dead_build(small, SECONDARY, RECORD_INDEX, COLUMN_STATS, PARTITION_STATS)
    small.fake_clock.advance(SILENT_S)
    planned = small.lake().indexes({}).drop(SECONDARY, end_build=True, dry_run=True)
    made = (COLUMN_STATS, PARTITION_STATS, RECORD_INDEX, SECONDARY)
    assert end(small, SECONDARY) == planned == made
    assert opened(small).config.metadata_partitions == (BLOOM_FILTERS, FILES)
    small.write("upsert", batch([1, 9], 6), options=QUIET)
    small.forget()


def test_a_young_build_is_not_ended(small: SmallTable) -> None:
    with_dead_build(small, RECORD_INDEX)
    before = opened(small).config.metadata_partitions
    with pytest.raises(ConflictError, match="may be at it"):
        end(small, RECORD_INDEX)
    assert opened(small).config.metadata_partitions == before
    assert len(opened(small).timeline().of(Action.INDEXING).pending()) == 1


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_a_build_that_made_nothing_is_ended(small: SmallTable, state: State) -> None:
    put_index_build(opened(small), [RECORD_INDEX], state=state)
    small.fake_clock.advance(SILENT_S)
    if state is State.REQUESTED:
        small.write("upsert", batch([2], 6), options=QUIET)
    # Another index is none of its business.
    other = contextlib.nullcontext() if state is State.REQUESTED else pytest.raises(ConflictError)
    with other:
        small.lake().indexes({}).create(BLOOM_FILTERS)
    assert end(small, RECORD_INDEX) == ()
    assert opened(small).timeline().of(Action.INDEXING).instants == ()
    small.write("upsert", batch([2], 7), options=QUIET)
    small.lake().indexes({}).create(RECORD_INDEX)
    assert_right(small)


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "in work"])
def test_a_death_at_any_write_of_an_ending_leaves_nothing_that_is_believed(
    listed: bool,
) -> None:
    small = SmallTable.in_memory(table_version=9, properties={"hoodie.metadata.enable": "true"})
    small.write("insert", batch(range(6), 1), options=QUIET)
    small.lake().indexes({}).create(RECORD_INDEX)
    with_dead_build(small, SECONDARY)
    if not listed:
        lists = {METADATA_PARTITIONS: f"{FILES},{RECORD_INDEX}"}
        opened(small).properties.update({**lists, METADATA_PARTITIONS_INFLIGHT: SECONDARY})
    small.fake_clock.advance(SILENT_S)
    died = 0
    for turn in itertools.count(2):
        number, is_after = divmod(turn, 2)
        twin = small.copy()
        twin.fake_clock.advance(SILENT_S)
        plan = FaultPlan(
            crash_after_write=number if is_after else None,
            crash_before_write=None if is_after else number,
        )
        store = FaultyStore(twin.store(), plan)
        with contextlib.suppress(SimulatedCrash):
            end(twin, SECONDARY, store)
        twin.fake_clock.advance(SILENT_S)
        died += store.is_dead
        try:
            twin.write("upsert", batch([2, 20], 6), options=QUIET)
        except ConflictError:
            # All of it is there still, or a part: the instant is the last to go.
            end(twin, SECONDARY)
            twin.write("upsert", batch([2, 20], 6), options=QUIET)
        assert SECONDARY not in opened(twin).config.metadata_partitions_in_work
        assert_right(twin)
        twin.lake().indexes({}).create(SECONDARY)
        twin.write("upsert", batch([3, 21], 7), options=QUIET)
        assert SECONDARY in opened(twin).config.metadata_partitions
        assert_right(twin)
        twin.forget()
        if not store.is_dead:
            break
    assert died > 10
    small.forget()


def test_an_index_of_ours_is_not_taken_for_what_a_failed_build_left(small: SmallTable) -> None:
    put_index_build(opened(small), [SECONDARY])
    small.fake_clock.advance(SILENT_S)
    small.lake().indexes({}).create(RECORD_INDEX)
    assert opened(small).timeline().of(Action.INDEXING).instants == ()
    small.write("upsert", batch([2], 6), options=QUIET)
    assert RECORD_INDEX in opened(small).config.metadata_partitions


@pytest.mark.parametrize("work", ["upsert", "clustering"])
def test_a_build_that_starts_beside_a_commit_makes_it_a_conflict(
    small: SmallTable, work: str
) -> None:
    """Hudi would take the commit for one that its index has: it is in the metadata table."""
    requested = put_index_build(opened(small), [RECORD_INDEX], state=State.REQUESTED)
    inflight = opened(small).timelines.path(requested.in_state(State.INFLIGHT))
    started: list[Step] = []

    def start(step: Step) -> None:
        is_commit_there = step.path.startswith(".hoodie/metadata/") and "deltacommit" in step.path
        if is_commit_there and step.method.startswith("put") and not started:
            started.append(step)
            small.store().put(inflight, b"")

    rows = small.rows()
    store = SteppingStore(small.store(), start)
    with pytest.raises(ConflictError, match="Hudi started to build an index"):
        if work == "upsert":
            small.write("upsert", batch([1, 9], 5), store=store, options=QUIET)
        else:
            small.lake(store).run("clustering", options=CLUSTERED)
    assert started
    assert small.rows() == rows
    small.store().delete(inflight)
    if work == "clustering":
        assert small.lake().run("clustering", options=CLUSTERED) is not None
    small.write("upsert", batch([1, 9], 5), options=QUIET)
    assert_right(small)
