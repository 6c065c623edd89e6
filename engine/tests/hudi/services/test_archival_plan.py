"""Which instants archival takes, and what holds them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.plan import (
    ArchivalFacts,
    ArchivalPlan,
    find_holds,
    plan_archival,
)
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue

CONFIG = ArchivalConfig(commits_min=4, commits_max=6)
COW = ArchivalFacts()


def at(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


def done(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(at(number), action, State.COMPLETED)


def completed(number: int, action: Action = Action.COMMIT, until: int | None = None) -> Instant:
    """An instant of layout 2, which says when it completed."""
    return Instant(at(number), action, State.COMPLETED, at(number if until is None else until))


def later_layout(numbers: Iterable[int], *more: Instant) -> ActiveTimeline:
    return ActiveTimeline(tuple(sorted((*map(completed, numbers), *more))))


def timeline(numbers: Iterable[int], *more: Instant) -> ActiveTimeline:
    return ActiveTimeline((*(done(number) for number in numbers), *more))


def planned(line: ActiveTimeline, facts: ArchivalFacts = COW) -> list[InstantTime]:
    plan = plan_archival(line, CONFIG, facts)
    assert isinstance(plan, ArchivalPlan), plan
    return [instant.time for instant in plan.instants]


def test_nothing_is_due_up_to_the_maximum() -> None:
    plan = plan_archival(timeline(range(6)), CONFIG, COW)
    assert plan == NotDue("6 completed commits; archived above 6")


def test_commits_that_cleaning_counts_on_raise_the_reported_maximum() -> None:
    facts = replace(COW, last_clean=LastClean(at(100), at(1)))
    plan = plan_archival(timeline(range(8)), CONFIG, facts)
    assert plan == NotDue("8 completed commits; archived above 10 while cleaning counts on them")


def test_above_it_the_oldest_go_down_to_the_minimum() -> None:
    assert planned(timeline(range(7))) == [at(0), at(1), at(2)]


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK])
def test_cleans_and_rollbacks_are_counted_by_themselves(action: Action) -> None:
    line = timeline(range(5), *(done(100 + number, action) for number in range(8)))
    clean = LastClean(at(107), at(0)) if action is Action.CLEAN else None
    assert planned(line, replace(COW, last_clean=clean)) == [at(100 + n) for n in range(4)]


def test_restores_and_savepoints_stay_for_good() -> None:
    line = timeline([], *(done(number, Action.RESTORE) for number in range(9)))
    assert isinstance(plan_archival(line, CONFIG, COW), NotDue)


def test_nothing_at_or_after_the_oldest_savepoint_goes() -> None:
    line = timeline(range(9), done(2, Action.SAVEPOINT), done(5, Action.SAVEPOINT))
    assert planned(line) == [at(0), at(1)]


def test_the_newest_write_stays_where_it_has_the_ids_of_columns() -> None:
    assert planned(timeline(range(9)), replace(COW, schema_commit=at(1))) == [at(0)]


def test_a_savepoint_holds_where_others_would_archive_beyond_it() -> None:
    line = timeline(range(9), done(2, Action.SAVEPOINT))
    plan = plan_archival(line, replace(CONFIG, beyond_savepoint=True), COW)
    assert isinstance(plan, ArchivalPlan)
    assert [item.time for item in plan.instants] == [at(0), at(1)]
    assert plan.hold is not None
    assert "Hudi's queries lose rows" in plan.hold.reason


def test_a_commit_after_a_restore_stays_while_its_logs_do() -> None:
    line = later_layout(range(9), completed(30, Action.RESTORE))
    assert planned(line, replace(COW, with_logs=frozenset({at(2)}))) == [at(0), at(1)]


def test_the_commit_before_the_oldest_pending_write_stays() -> None:
    pending = Instant(at(3), Action.COMMIT, State.INFLIGHT)
    line = timeline([0, 1, 2, *range(4, 10)], pending)
    assert planned(line) == [at(0), at(1)]
    assert planned(timeline(range(1, 9), done(20))) == [at(1), at(2), at(3), at(4), at(5)]


def test_the_commit_before_a_write_that_was_undone_under_its_hands_stays() -> None:
    line = timeline([0, 1, 2, *range(4, 10)])
    assert planned(line) == [at(0), at(1), at(2), at(4), at(5)]
    facts = replace(COW, undone=frozenset({at(3)}))
    assert planned(line, facts) == [at(0), at(1)]


def test_a_pending_write_older_than_all_commits_holds_everything() -> None:
    pending = Instant(at(0), Action.COMPACTION, State.REQUESTED)
    plan = plan_archival(timeline(range(1, 10), pending), CONFIG, COW)
    assert isinstance(plan, NotDue)
    assert "is pending" in plan.reason


def test_a_pending_clean_holds_nothing() -> None:
    line = timeline(range(9), Instant(at(1), Action.CLEAN, State.REQUESTED))
    assert len(planned(line)) == 5


def test_limits_rise_while_cleaning_counts_on_more_commits() -> None:
    clean = replace(COW, last_clean=LastClean(at(50), at(2)))
    # Seven commits after the retained one and two more: nine stay, eleven are allowed.
    assert isinstance(plan_archival(timeline(range(10)), CONFIG, clean), NotDue)
    clean = replace(COW, last_clean=LastClean(at(50), at(7)))
    assert planned(timeline(range(10)), clean) == [at(n) for n in range(6)]


def test_without_any_clean_the_first_replacecommit_holds() -> None:
    line = timeline([0, 1, 3, 4, 5, 6, 7], done(2, Action.REPLACECOMMIT))
    assert planned(line) == [at(0), at(1)]


def test_replacecommits_that_a_clean_has_worked_off_go() -> None:
    line = timeline([0, 1, 3, 4, 5, 6, 7, 8], done(2, Action.REPLACECOMMIT))
    assert at(2) in planned(line, replace(COW, last_clean=LastClean(at(60), at(6))))
    assert at(2) in planned(line, replace(COW, last_clean=LastClean(at(60))))


def test_a_replacecommit_whose_replaced_files_are_there_holds() -> None:
    line = timeline([0, 1, 3, 4, 5, 6, 7, 8], done(2, Action.REPLACECOMMIT))
    facts = replace(COW, last_clean=LastClean(at(60), at(6)), not_cleaned=frozenset({at(2)}))
    assert planned(line, facts) == [at(0), at(1)]


def deltas(numbers: Iterable[int], *more: Instant) -> ActiveTimeline:
    return timeline([], *(done(number, Action.DELTACOMMIT) for number in numbers), *more)


MOR = ArchivalFacts(is_merge_on_read=True)


def test_delta_commits_that_wait_for_compaction_stay() -> None:
    line = deltas([*range(1, 8), 9, 10], done(8))
    holds = find_holds(line, CONFIG, MOR)
    assert [hold.time for hold in holds] == [at(8)]
    assert planned(line, MOR) == [at(n) for n in range(1, 7)]


def test_of_many_delta_commits_the_ones_the_trigger_counts_stay() -> None:
    holds = find_holds(deltas(range(10)), CONFIG, MOR)
    assert [hold.time for hold in holds] == [at(5)]


def test_before_the_first_compaction_few_delta_commits_hold_everything() -> None:
    assert [hold.time for hold in find_holds(deltas(range(3)), CONFIG, MOR)] == [at(0)]


def test_a_trigger_that_does_not_count_holds_nothing() -> None:
    config = replace(CONFIG, compaction_delta_commits=None)
    assert find_holds(deltas(range(3)), config, MOR) == ()


def test_a_metadata_table_keeps_what_its_latest_compaction_lacks() -> None:
    facts = replace(COW, has_metadata_table=True)
    assert isinstance(plan_archival(timeline(range(9)), CONFIG, facts), NotDue)
    assert planned(timeline(range(9)), replace(facts, metadata_compaction=at(2))) == [at(0), at(1)]


def test_in_layout_2_cleans_go_with_the_commits_that_are_newer() -> None:
    """However few there are: Hudi takes an archived commit behind an active instant for pending."""
    others = (completed(1, Action.CLEAN), completed(3, Action.INDEXING), completed(5, Action.CLEAN))
    line = later_layout(range(0, 14, 2), *others, completed(1, Action.RESTORE))
    assert planned(line) == [at(0), at(1), at(2), at(3), at(4)]


def test_in_layout_2_many_cleans_alone_are_not_due() -> None:
    cleans = (completed(number, Action.CLEAN) for number in range(1, 21, 2))
    plan = plan_archival(later_layout(range(0, 10, 2), *cleans), CONFIG, COW)
    assert plan == NotDue("5 completed commits; archived above 6")


@pytest.mark.parametrize("action", [Action.CLEAN, Action.INDEXING, Action.ROLLBACK])
def test_in_layout_2_whatever_is_pending_stays_with_what_is_newer(action: Action) -> None:
    pending = Instant(at(3), action, State.REQUESTED)
    plan = plan_archival(later_layout(range(0, 14, 2), pending), CONFIG, COW)
    assert isinstance(plan, ArchivalPlan)
    assert [instant.time for instant in plan.instants] == [at(0), at(2)]
    assert plan.hold is not None
    assert plan.hold.reason == f"{at(3)} ({action}) is pending"


@pytest.mark.parametrize("action", [Action.COMMIT, Action.CLEAN])
def test_what_completed_after_the_metadata_tables_compaction_stays(action: Action) -> None:
    """Also where it was requested before: it is in a log there."""
    facts = replace(COW, has_metadata_table=True, metadata_compaction=at(11))
    late = completed(3, action, until=12)
    assert planned(later_layout(range(0, 14, 2), late), facts) == [at(0), at(2)]


def test_the_plan_explains_what_holds_the_next_commit() -> None:
    line = timeline(range(9), done(2, Action.SAVEPOINT))
    plan = plan_archival(line, CONFIG, COW)
    assert isinstance(plan, ArchivalPlan)
    assert plan.explain().details["held_because"] == "it is savepointed"
    assert plan.to_json_object()["held_at"] == str(at(2))


def test_a_maximum_not_above_the_minimum_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.keep\.max\.commits"):
        ArchivalConfig.from_settings(Settings({"hoodie.keep.max.commits": "20"}))


def test_settings_have_hudis_names_and_defaults() -> None:
    assert ArchivalConfig.from_settings(Settings({})) == ArchivalConfig()
    read = ArchivalConfig.from_settings(
        Settings(
            {
                "hoodie.keep.min.commits": "2",
                "hoodie.keep.max.commits": "3",
                "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
                "hoodie.archive.merge.enable": "true",
                "hoodie.archive.merge.files.batch.size": "4",
            }
        )
    )
    assert (read.commits_min, read.commits_max) == (2, 3)
    assert read.compaction_delta_commits is None
    assert (read.merge.is_enabled, read.merge.files_min) == (True, 4)
