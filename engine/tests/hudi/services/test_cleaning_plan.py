"""What cleaning keeps and deletes, as pure functions of a timeline and listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.cleaning.plan import CleaningPlan, TableFacts, plan_cleaning
from tideline.hudi.services.cleaning.retention import Retention, is_empty_clean_due, plan_retention
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.layout.version_6 import slices_by_name
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue

VERSIONS = CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
HOURS = CleaningPolicy.KEEP_LATEST_BY_HOURS
A = "aaaaaaaa-0000-0000-0000-000000000000-0"
B = "bbbbbbbb-0000-0000-0000-000000000000-0"


def at(number: int) -> InstantTime:
    """The n-th hour of a day."""
    return InstantTime(f"20260101{number:02d}0000000")


def done(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(at(number), action, State.COMPLETED)


def pending(number: int, action: Action, state: State = State.INFLIGHT) -> Instant:
    return Instant(at(number), action, state)


def base(file_id: str, number: int) -> tuple[str, int]:
    return f"{file_id}_0-1-0_{at(number)}.parquet", 100 + number


def log(file_id: str, number: int, version: int = 1) -> tuple[str, int]:
    return f".{file_id}_{at(number)}.log.{version}_0-1-0", 10


def keep(commits: int, **settings: Any) -> CleaningConfig:
    return CleaningConfig(commits_retained=commits, **settings)


def commits(*numbers: int) -> tuple[Instant, ...]:
    return tuple(done(number) for number in numbers)


def retained(
    config: CleaningConfig,
    *instants: Instant,
    last: LastClean | None = None,
    now: int = 23,
) -> Retention | NotDue:
    return plan_retention(ActiveTimeline(instants), last, config, at(now).epoch_ms())


def earliest(outcome: Retention | NotDue) -> InstantTime | None:
    assert isinstance(outcome, Retention), outcome
    return outcome.earliest.time if outcome.earliest else None


def obsolete(
    config: CleaningConfig,
    timeline: Sequence[Instant],
    files: Mapping[str, Sequence[tuple[str, int]]],
    *,
    now: int = 23,
    is_partitioned: bool = True,
    **facts: Any,
) -> CleaningPlan:
    active = ActiveTimeline(tuple(timeline))
    retention = plan_retention(active, None, config, at(now).epoch_ms())
    assert isinstance(retention, Retention), retention
    known = TableFacts(active, is_partitioned, slices_by_name, **facts)
    return plan_cleaning(iter(files.items()), known, retention, config)


def names(plan: CleaningPlan) -> set[str]:
    return {file.path for files in plan.files.values() for file in files}


# What is retained


def test_the_newest_commits_are_retained() -> None:
    assert earliest(retained(keep(2), *commits(1, 2, 3, 4))) == at(3)


def test_nothing_is_due_while_all_commits_are_retained() -> None:
    outcome = retained(keep(3), *commits(1, 2, 3))
    assert outcome == NotDue("3 commits completed, the newest 3 are kept")


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.REPLACECOMMIT, Action.DELTACOMMIT])
def test_a_pending_instant_freezes_what_is_retained(action: Action) -> None:
    state = State.REQUESTED
    assert earliest(retained(keep(2), *commits(1, 2, 4, 5, 6), pending(3, action, state))) == at(2)


def test_a_pending_instant_newer_than_what_is_retained_changes_nothing() -> None:
    instants = (*commits(1, 2, 3, 4), pending(5, Action.COMMIT))
    assert earliest(retained(keep(2), *instants)) == at(3)


def test_commits_of_the_last_hours_are_retained_regardless_of_what_is_pending() -> None:
    config = CleaningConfig(policy=HOURS, hours_retained=3)
    instants = (*commits(1, 4, 5, 6), pending(2, Action.COMMIT))
    assert earliest(retained(config, *instants, now=7)) == at(4)


def test_a_pinned_reader_holds_back_what_is_retained() -> None:
    config = keep(1, pinned_instants=(at(2), at(3)))
    assert earliest(retained(config, *commits(1, 2, 3, 4))) == at(2)


def test_a_pinned_moment_between_commits_keeps_the_commit_it_saw() -> None:
    config = keep(1, pinned_instants=(InstantTime("20260101023000000"),))
    assert earliest(retained(config, *commits(1, 2, 3, 4))) == at(2)


def test_a_pinned_instant_before_the_timeline_keeps_everything() -> None:
    outcome = retained(keep(1, pinned_instants=(at(0),)), *commits(1, 2, 3))
    assert isinstance(outcome, NotDue)
    assert "pinned" in outcome.reason


def test_a_pinned_instant_of_the_future_holds_nothing_back() -> None:
    assert earliest(retained(keep(1, pinned_instants=(at(9),)), *commits(1, 2, 3))) == at(3)


def test_one_clean_moves_on_by_a_limited_number_of_commits() -> None:
    config = keep(1, commits_to_clean_max=2)
    instants = commits(1, 2, 3, 4, 5, 6)
    assert earliest(retained(config, *instants)) == at(3)
    last = LastClean(at(7), at(3), at(3))
    assert earliest(retained(config, *instants, last=last)) == at(5)


def test_what_is_retained_never_moves_backwards() -> None:
    last = LastClean(at(7), at(4), at(5))
    assert earliest(retained(keep(4), *commits(1, 2, 3, 4, 5, 6), last=last)) == at(4)


def test_cleaning_waits_for_enough_commits_since_the_last_one() -> None:
    config = keep(1, trigger_commits=3)
    last = LastClean(at(7), at(2), at(4))
    outcome = retained(config, *commits(1, 2, 3, 4, 5, 6), last=last)
    assert outcome == NotDue("2 of 3 commits completed since the last clean")


@pytest.mark.parametrize("action", [Action.CLEAN, Action.RESTORE])
def test_a_pending_clean_or_restore_keeps_new_cleans_from_being_planned(action: Action) -> None:
    outcome = retained(keep(1), *commits(1, 2, 3), pending(4, action))
    assert isinstance(outcome, NotDue)
    assert str(at(4)) in outcome.reason


def test_several_cleans_may_be_pending_where_the_table_says_so() -> None:
    config = keep(1, allows_several=True)
    assert earliest(retained(config, *commits(1, 2), pending(3, Action.CLEAN))) == at(2)


# Where to look


def looked_at(outcome: Retention | NotDue) -> list[InstantTime] | None:
    assert isinstance(outcome, Retention)
    return None if outcome.written is None else [instant.time for instant in outcome.written]


def test_the_first_clean_looks_everywhere_and_later_ones_where_commits_wrote() -> None:
    instants = commits(1, 2, 3, 4, 5)
    assert looked_at(retained(keep(2), *instants)) is None
    last = LastClean(at(6), at(2), at(3))
    assert looked_at(retained(keep(2), *instants, last=last)) == [at(2), at(3)]
    assert looked_at(retained(keep(2, is_incremental=False), *instants, last=last)) is None


def test_a_savepoint_given_up_since_the_last_clean_makes_it_look_everywhere() -> None:
    last = LastClean(at(6), at(2), at(3), frozenset({at(1)}))
    kept = done(1, Action.SAVEPOINT)
    assert looked_at(retained(keep(2), *commits(1, 2, 3, 4, 5), last=last)) is None
    assert looked_at(retained(keep(2), *commits(1, 2, 3, 4, 5), kept, last=last)) is not None


def test_a_last_clean_from_before_the_timeline_makes_it_look_everywhere() -> None:
    last = LastClean(at(2), at(1), at(2))
    assert looked_at(retained(keep(1), *commits(3, 4, 5), last=last)) is None


def test_an_empty_clean_is_due_only_after_its_interval() -> None:
    timeline = ActiveTimeline(commits(1, 2))
    config = CleaningConfig(empty_clean_interval_hours=5)
    last = LastClean(at(2), at(1), at(1))
    assert not is_empty_clean_due(timeline, last, config, at(6).epoch_ms())
    assert is_empty_clean_due(timeline, last, config, at(7).epoch_ms())
    assert is_empty_clean_due(timeline, None, config, at(6).epoch_ms())
    assert not is_empty_clean_due(timeline, None, CleaningConfig(), at(23).epoch_ms())


# Which slices go


def test_the_version_that_the_earliest_retained_commit_saw_stays() -> None:
    files = {"p": [base(A, 1), base(A, 2), base(A, 4), base(B, 1)]}
    plan = obsolete(keep(2), commits(1, 2, 3, 4), files)
    assert names(plan) == {f"p/{base(A, 1)[0]}"}
    assert plan.explain().bytes_deleted == 101


def test_a_slice_goes_with_all_its_log_files() -> None:
    instants = [done(n, Action.DELTACOMMIT) for n in (1, 2, 4, 5)] + [done(3)]
    files = {"p": [base(A, 1), log(A, 1, 1), log(A, 1, 2), base(A, 3), log(A, 3)]}
    plan = obsolete(keep(2), instants, files)
    assert names(plan) == {f"p/{name}" for name, _ in (base(A, 1), log(A, 1, 1), log(A, 1, 2))}


def test_a_slice_of_log_files_only_is_a_version_like_any_other() -> None:
    instants = [done(1, Action.DELTACOMMIT), *commits(2, 3, 4)]
    files = {"p": [log(A, 1), base(A, 2), base(A, 3)]}
    assert names(obsolete(keep(1), instants, files)) == {
        f"p/{log(A, 1)[0]}",
        f"p/{base(A, 2)[0]}",
    }


def test_files_of_failed_and_pending_writes_are_left_to_rollback() -> None:
    instants = (*commits(1, 2, 3), pending(4, Action.COMMIT))
    files = {"p": [base(A, 1), base(A, 2), base(A, 3), base(A, 4), base(B, 4), ("x.crc", 1)]}
    assert names(obsolete(keep(1), instants, files)) == {f"p/{base(A, 1)[0]}"}


def test_replaced_groups_go_once_their_replacement_is_old_enough() -> None:
    instants = (done(1), done(2, Action.REPLACECOMMIT), *commits(3, 4))
    files = {"p": [base(A, 1), base(B, 3)]}
    replaced = {FileGroupId("p", A): at(2)}
    assert names(obsolete(keep(2), instants, files, replaced=replaced)) == {f"p/{base(A, 1)[0]}"}
    assert names(obsolete(keep(3), instants, files, replaced=replaced)) == set()


def test_a_slice_of_which_a_savepoint_names_one_file_stays_whole() -> None:
    files = {"p": [base(A, 1), log(A, 1), base(A, 2), base(A, 3)]}
    saved = {"p": frozenset({log(A, 1)[0]})}
    plan = obsolete(keep(1), commits(1, 2, 3), files, savepointed=saved)
    assert names(plan) == set()
    assert names(obsolete(keep(1), commits(1, 2, 3), files)) != set()


def test_what_is_read_as_of_a_savepoint_stays() -> None:
    """A clustering planned before it and done after it: other files than those it names."""
    instants = (done(1), done(2, Action.REPLACECOMMIT), *commits(3, 4, 5, 6))
    files = {"p": [base(A, 1), base(B, 2), base(B, 4), base(B, 5)]}
    facts: dict[str, Any] = {
        "replaced": {FileGroupId("p", A): at(2)},
        "savepointed": {"p": frozenset({base(A, 1)[0]})},
    }
    saved = (*instants, done(3, Action.SAVEPOINT))
    assert names(obsolete(keep(1), saved, files, **facts)) == {f"p/{base(B, 4)[0]}"}
    assert f"p/{base(B, 2)[0]}" in names(obsolete(keep(1), instants, files, **facts))


def test_a_savepoint_of_other_partitions_files_protects_nothing_here() -> None:
    files = {"p": [base(A, 1), base(A, 2), base(A, 3)]}
    saved = {"q": frozenset({base(A, 1)[0]})}
    assert names(obsolete(keep(1), commits(1, 2, 3), files, savepointed=saved)) != set()


def test_replaced_groups_of_a_savepoint_stay_and_so_does_their_partition() -> None:
    instants = (done(1), done(2, Action.REPLACECOMMIT), *commits(3, 4))
    plan = obsolete(
        keep(1),
        instants,
        {"p": [base(A, 1)]},
        replaced={FileGroupId("p", A): at(2)},
        savepointed={"p": frozenset({base(A, 1)[0]})},
    )
    assert plan.is_empty


@pytest.mark.parametrize("config", [keep(1), CleaningConfig(policy=HOURS, hours_retained=1)])
def test_slices_that_a_pending_plan_reads_stay(config: CleaningConfig) -> None:
    files = {"p": [base(A, 1), base(A, 2), base(A, 3), base(A, 4)]}
    needed = {FileGroupId("p", A): at(2)}
    plan = obsolete(config, commits(1, 2, 3, 4), files, now=4, needed=needed)
    assert names(plan) == {f"p/{base(A, 1)[0]}"}


def test_the_newest_versions_of_each_file_group_stay() -> None:
    config = CleaningConfig(policy=VERSIONS, file_versions_retained=2)
    files = {"p": [base(A, 1), base(A, 2), base(A, 3), base(B, 1)]}
    plan = obsolete(config, commits(1, 2, 3), files)
    assert names(plan) == {f"p/{base(A, 1)[0]}"}
    assert plan.earliest is None


def test_under_file_versions_replaced_groups_go_at_once_and_savepoints_stay() -> None:
    config = CleaningConfig(policy=VERSIONS, file_versions_retained=1)
    instants = (*commits(1, 2), done(3, Action.REPLACECOMMIT))
    files = {"p": [base(A, 1), base(B, 1), base(B, 2)]}
    replaced = {FileGroupId("p", A): at(3)}
    saved = {"p": frozenset({base(B, 1)[0]})}
    plan = obsolete(config, instants, files, replaced=replaced, savepointed=saved)
    assert names(plan) == {f"p/{base(A, 1)[0]}"}


def test_under_file_versions_a_pending_compaction_keeps_its_input_and_one_version_less() -> None:
    config = CleaningConfig(policy=VERSIONS, file_versions_retained=2)
    group = FileGroupId("p", A)
    instants = (*commits(1, 2, 3), pending(4, Action.COMPACTION, State.REQUESTED))
    files = {"p": [base(A, 1), base(A, 2), base(A, 3), log(A, 3), log(A, 4)]}
    plan = obsolete(config, instants, files, compacting={group: at(4)}, needed={group: at(3)})
    assert names(plan) == {f"p/{base(A, 1)[0]}"}


def test_under_file_versions_a_pinned_reader_keeps_what_it_sees() -> None:
    config = CleaningConfig(policy=VERSIONS, file_versions_retained=1, pinned_instants=(at(2),))
    instants = (*commits(1, 2, 3), done(4, Action.REPLACECOMMIT))
    files = {"p": [base(A, 1), base(A, 2), base(A, 3), base(B, 1)]}
    plan = obsolete(config, instants, files, replaced={FileGroupId("p", B): at(4)})
    assert names(plan) == {f"p/{base(A, 1)[0]}"}
    assert plan.earliest is not None and plan.earliest.time == at(2)


# Partitions


def test_a_partition_of_which_nothing_remains_is_deleted() -> None:
    instants = (done(1), done(2, Action.REPLACECOMMIT), *commits(3, 4))
    replaced = {FileGroupId("p", A): at(2)}
    files = {"p": [base(A, 1), (".hoodie_partition_metadata", 90)]}
    assert obsolete(keep(2), instants, files, replaced=replaced).partitions_to_delete == ("p",)
    assert obsolete(keep(3), instants, files, replaced=replaced).partitions_to_delete == ()
    flat = obsolete(keep(2), instants, files, replaced=replaced, is_partitioned=False)
    assert flat.partitions_to_delete == ()


def test_no_partition_is_deleted_under_a_pending_write() -> None:
    instants = (done(1), done(2, Action.REPLACECOMMIT), *commits(3, 4), pending(5, Action.COMMIT))
    plan = obsolete(keep(2), instants, {"p": [base(A, 1)]}, replaced={FileGroupId("p", A): at(2)})
    assert names(plan) and plan.partitions_to_delete == ()


# Values


def test_a_plan_reads_back_what_it_wrote() -> None:
    instants = (*commits(1, 2, 3), done(2, Action.SAVEPOINT))
    plan = obsolete(keep(1), instants, {"p=1": [base(A, 1), base(A, 2)]})
    again = CleaningPlan.from_avro(plan.to_avro("s3a://bucket/table"))
    assert [file.path for file in again.files["p=1"]] == [f"p=1/{base(A, 1)[0]}"]
    assert (again.earliest, again.last_completed) == (plan.earliest, plan.last_completed)
    assert again.extra_metadata == {"savepointed_timestamps": str(at(2))}


def test_settings_have_hudis_names_old_and_new() -> None:
    def read(**settings: str) -> CleaningConfig:
        named = {f"hoodie.{name.replace('_', '.')}": value for name, value in settings.items()}
        return CleaningConfig.from_settings(Settings(named))

    assert read() == CleaningConfig()
    assert read(cleaner_commits_retained="4").commits_retained == 4
    assert read(clean_commits_retained="5", cleaner_commits_retained="4").commits_retained == 5
    assert read(cleaner_policy="KEEP_LATEST_BY_HOURS").policy is HOURS
    assert read(clean_fileversions_retained="2").policy is VERSIONS
    assert read(clean_max_commits_to_clean="7").commits_to_clean_max == 7
    assert read(write_empty_clean_interval_hours="6").empty_clean_interval_hours == 6
    pins = Settings({"tideline.clean.pinned.instants": f"{at(2)}, {at(1)}"})
    assert CleaningConfig.from_settings(pins).pinned_instants == (at(1), at(2))
    with pytest.raises(ConfigError, match="instant time"):
        CleaningConfig.from_settings(Settings({"tideline.clean.pinned.instants": "yesterday"}))


# Logs of changes that are left alone


def changes(file_id: str, number: int) -> tuple[str, int]:
    return f".{file_id}_{at(number)}.log.1_0-1-0.cdc", 7


def test_changes_go_with_the_retention_when_their_file_slice_is_gone() -> None:
    listing = [base(A, 6), *(changes(A, number) for number in (2, 3, 5, 6)), changes(B, 3)]
    plan = obsolete(keep(2), commits(2, 3, 4, 5, 6), {"p": listing})
    assert names(plan) == {f"p/{changes(file_id, n)[0]}" for file_id, n in ((A, 2), (A, 3), (B, 3))}
    assert plan.partitions_to_delete == ()
    kept = {"p": frozenset({changes(A, 2)[0]})}
    needed = {FileGroupId("p", A): at(3)}
    plan = obsolete(
        keep(2), commits(2, 3, 4, 5, 6), {"p": listing}, savepointed=kept, needed=needed
    )
    assert names(plan) == {f"p/{changes(B, 3)[0]}"}
    assert names(obsolete(keep(4), commits(2, 3, 4, 5, 6), {"p": listing})) == {
        f"p/{changes(A, 2)[0]}"
    }


def test_changes_of_what_did_not_commit_are_no_business_of_cleaning() -> None:
    listing = [base(A, 6), changes(A, 3), changes(A, 4)]
    under_way = (*commits(2, 5, 6, 7), pending(4, Action.CLUSTERING))
    assert names(obsolete(keep(1), under_way, {"p": listing})) == set()


def test_changes_older_than_all_versions_go_and_their_partition_with_them() -> None:
    config = CleaningConfig(policy=VERSIONS, file_versions_retained=1)
    listing = [base(A, 5), changes(A, 4), changes(A, 6), changes(B, 3)]
    assert names(obsolete(config, commits(2, 3, 4, 5, 6), {"p": listing})) == {
        f"p/{changes(A, 4)[0]}"
    }
    archived = ActiveTimeline(commits(4, 5, 6), has_archive=True)
    retention = plan_retention(archived, None, config, at(23).epoch_ms())
    assert isinstance(retention, Retention)
    known = TableFacts(archived, True, slices_by_name)
    plan = plan_cleaning([("p", [changes(B, 3)])], known, retention, config)
    assert names(plan) == {f"p/{changes(B, 3)[0]}"}
    assert plan.partitions_to_delete == ("p",)
