"""What a restore undoes and in which order: the plan, pure."""

from __future__ import annotations

from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.services.restore.completion import completion_times
from tideline.hudi.services.restore.plan import RestorePlan, plan_restore
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


def at(number: int) -> InstantTime:
    return InstantTime(f"20260101{number:02d}0000000")


def done(number: int, action: Action) -> Instant:
    return Instant(at(number), action, State.COMPLETED)


def planned(
    table_type: TableType,
    instants: list[Instant],
    completed: dict[int, int],
    savepoint: Instant,
    clusterings: tuple[InstantTime, ...] = (),
) -> list[int]:
    hour_ms = 3_600_000
    plan = plan_restore(
        ActiveTimeline(tuple(instants)),
        savepoint,
        table_type=table_type,
        completed_ms={at(n): at(0).epoch_ms() + hour * hour_ms for n, hour in completed.items()},
        clusterings=clusterings,
    )
    again = RestorePlan.from_avro(
        decode_container(encode_container("HoodieRestorePlan", plan.to_avro()))
    )
    assert again == plan
    return [int(str(name.time)[8:10]) for name in plan.instants]


def test_what_completed_after_the_savepointed_commit_is_undone_latest_first() -> None:
    commits = [done(number, Action.COMMIT) for number in (1, 2, 3, 4, 5)]
    # 1 completed after the savepointed 2; 3 completed last.
    completed = {1: 6, 2: 2, 3: 9, 4: 4, 5: 5}
    assert planned(COW, commits, completed, commits[1]) == [3, 1, 5, 4]


def test_equal_completion_times_are_ordered_by_the_instants() -> None:
    commits = [done(number, Action.COMMIT) for number in (1, 2, 3)]
    assert planned(COW, commits, {1: 5, 2: 5, 3: 5}, commits[1]) == [3]


def test_pending_clusterings_come_first_and_other_pending_writes_next() -> None:
    instants = [
        done(2, Action.COMMIT),
        Instant(at(1), Action.COMMIT, State.INFLIGHT),
        done(3, Action.COMMIT),
        Instant(at(4), Action.REPLACECOMMIT, State.REQUESTED),
        Instant(at(5), Action.COMMIT, State.REQUESTED),
    ]
    assert planned(COW, instants, {2: 2, 3: 3}, instants[0], (at(4),)) == [4, 5, 1, 3]


def test_a_compaction_is_placed_by_when_it_was_requested() -> None:
    savepoint = done(3, Action.DELTACOMMIT)
    instants = [
        Instant(at(1), Action.COMPACTION, State.REQUESTED),
        done(2, Action.COMMIT),
        savepoint,
        Instant(at(4), Action.COMPACTION, State.REQUESTED),
        done(5, Action.DELTACOMMIT),
    ]
    # The compaction 2 completed after the savepointed delta commit, but its slices began before.
    assert planned(MOR, instants, {2: 7, 3: 3, 5: 5}, savepoint) == [4, 5]


def test_a_copied_table_uses_its_instants() -> None:
    instants = [done(number, Action.COMMIT) for number in (1, 2, 3)]
    timeline = ActiveTimeline(tuple(instants))
    copied_ms = at(20).epoch_ms()
    copied = {instant: copied_ms - position for position, instant in enumerate(instants)}
    assert completion_times(timeline, copied) == {i.time: i.time.epoch_ms() for i in instants}
    written = {instant: instant.time.epoch_ms() + 10 for instant in instants}
    assert completion_times(timeline, written) == {i.time: ms for i, ms in written.items()}
