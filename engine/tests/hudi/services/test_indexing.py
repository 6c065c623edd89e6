"""Indexes that are asked for and missing are made: all that can be, and again when one is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError, ConflictError, UnsupportedTableError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_names import MADE_ON_DEMAND
from tideline.hudi.metadata_table.registry import makeable_partitions
from tideline.hudi.services.indexing.config import INDEXES
from tideline.hudi.services.indexing.service import INDEXING
from tideline.hudi.table.table_config import FILES
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.service_process import local_services
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import open_fresh

COLUMNS = "hoodie.metadata.index.column.stats.column.list"


@pytest.fixture
def small() -> Iterator[SmallTable]:
    """Six rows in a table of version 9 without a metadata table."""
    table = SmallTable.in_memory(table_version=9)
    table.write("insert", batch(range(6), 1), options=QUIET)
    yield table
    table.forget()


def run(small: SmallTable, *names: str, **options: str) -> ServiceRun:
    return local_services(small, {INDEXES: ",".join(names), **options}).run(INDEXING)


def outcome(small: SmallTable, *names: str) -> Explanation | NotDue:
    return local_services(small, {INDEXES: ",".join(names)}).plan(INDEXING).outcome


def listed(small: SmallTable) -> set[str]:
    return {*open_fresh(small.location, clock=small.clock).config.metadata_partitions}


def test_names_are_those_of_the_partitions() -> None:
    assert {*MADE_ON_DEMAND} == {*makeable_partitions()}


def test_what_is_missing_is_made_those_first_that_others_are_made_of(small: SmallTable) -> None:
    wanted = ("secondary_index_v", "partition_stats", "record_index", "column_stats")
    found = outcome(small, *wanted)
    assert isinstance(found, Explanation)
    assert found.reason == (
        "the table has no secondary_index_v and no partition_stats and no record_index and no "
        "column_stats"
    )
    (done,) = run(small, *wanted).done
    report = done.report()
    made = [index["name"] for index in done.to_json_object()["made"]]
    assert made == ["record_index", "column_stats", "secondary_index_v", "partition_stats"]
    assert report.words.startswith("made record_index (6 records), column_stats (")
    assert any("give writers of Hudi" in note for note in report.notes)
    assert listed(small) == {FILES, *wanted}
    found = outcome(small, *wanted)
    assert isinstance(found, NotDue)
    assert found.reason == f"the table has {', '.join(wanted)}"
    assert run(small, *wanted).done == ()


def test_nothing_is_due_that_nobody_asks_for_or_before_the_first_commit(small: SmallTable) -> None:
    assert outcome(small) == NotDue(f"no index is asked for ({INDEXES})")
    empty = SmallTable.in_memory(table_version=9)
    assert outcome(empty, "column_stats") == NotDue("nothing has been written yet")
    empty.forget()


def test_what_is_not_asked_for_stays(small: SmallTable) -> None:
    run(small, "bloom_filters")
    run(small, "column_stats")
    assert listed(small) == {FILES, "bloom_filters", "column_stats"}


def test_an_index_that_another_writer_dropped_is_made_again(small: SmallTable) -> None:
    run(small, "record_index")
    small.lake().indexes().drop("record_index")
    small.write("upsert", batch([7], 2), options=QUIET)
    (done,) = run(small, "record_index").done
    assert done.report().words == "made record_index (7 records)"


def test_one_that_cannot_be_made_keeps_no_other_from_being_made(small: SmallTable) -> None:
    (done,) = run(small, "secondary_index_none", "record_index", "column_stats").done
    assert listed(small) == {FILES, "record_index", "column_stats"}
    (failure, *_) = done.report().notes
    assert failure.startswith(
        "left undone: secondary_index_none cannot be made: the table has no column none"
    )
    # It is missing the next time as well, and then nothing can be made.
    with pytest.raises(UnsupportedTableError, match=r"^secondary_index_none cannot be made"):
        run(small, "secondary_index_none", "record_index", "column_stats")


def test_where_none_can_be_made_all_reasons_are_named(small: SmallTable) -> None:
    with pytest.raises(ConfigError, match=r"^expr_index_a: .*; secondary_index_v is made of"):
        run(small, "expr_index_a", "secondary_index_v")
    assert listed(small) == set()


def test_an_index_that_hudi_builds_is_a_conflict(small: SmallTable) -> None:
    run(small, "column_stats")
    table = open_fresh(small.location, clock=small.clock)
    requested = Instant(InstantTime("20990101000000000"), Action.INDEXING, State.REQUESTED)
    for state in (State.REQUESTED, State.INFLIGHT):
        table.store.put(table.timelines.path(requested.in_state(state)), b"")
    with pytest.raises(ConflictError, match=r"^record_index: Hudi builds an index"):
        run(small, "record_index")


def test_columns_that_are_asked_for_are_those_of_statistics_alone(small: SmallTable) -> None:
    wanted = ("column_stats", "record_index", "secondary_index_v")
    run(small, *wanted, **{COLUMNS: "id"})
    columns = {index.name: index.columns for index in small.lake().indexes().list()}
    assert "v" not in columns["column_stats"]
    assert columns["secondary_index_v"] == ("v",)


def test_a_death_at_any_write_leaves_the_rest_to_the_next_run(small: SmallTable) -> None:
    wanted = ("column_stats", "record_index")
    options = {INDEXES: ",".join(wanted)}
    rehearsed = small.copy()
    rehearsal = FaultyStore(rehearsed.store())
    local_services(rehearsed, options, rehearsal).run(INDEXING)
    for number in range(1, len(rehearsal.writes) + 1):
        twin = small.copy()
        dying = FaultyStore(twin.store(), FaultPlan(crash_after_write=number))
        with contextlib.suppress(SimulatedCrash):
            local_services(twin, options, dying).run(INDEXING)
        twin.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
        twin.write("upsert", batch([1, 9], 3), options=QUIET)
        run(twin, *wanted)
        assert listed(twin) == {FILES, *wanted}
        assert len(twin.rows()) == 7
        assert not check_table(twin.lake().hoodie_table)
        twin.forget()
