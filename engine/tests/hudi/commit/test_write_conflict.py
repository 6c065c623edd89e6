"""Conflicts between concurrent writers, file group by file group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ObjectNotFoundError
from tideline.formats.avro import encode_container
from tideline.hudi.commit.conflict import (
    Conflicted,
    TransactionStart,
    UniqueKeys,
    candidate_instants,
    find_write_conflict,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime


def time(number: int) -> InstantTime:
    return InstantTime(f"202501010000000{number:02d}")


def at(number: int, action: Action = Action.COMMIT, state: State = State.COMPLETED) -> Instant:
    return Instant(time(number), action, state)


def pending(number: int, action: Action = Action.COMMIT) -> Instant:
    return at(number, action, State.INFLIGHT)


def wrote(
    *groups: tuple[str, str],
    operation: str = "UPSERT",
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    compacted: bool = False,
    inserts: int = 0,
) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for partition, file_id in groups:
        stat = WriteStat(file_id=file_id, num_inserts=inserts)
        stats[partition] = (*stats.get(partition, ()), stat)
    return CommitMetadata(
        stats, operation, partition_to_replace_file_ids=replaced, compacted=compacted
    )


MINE = pending(50)
START = TransactionStart(frozenset({time(8), time(9), time(10)}))


def conflict(
    metadata: CommitMetadata,
    *others: tuple[Instant, CommitMetadata | bytes],
    start: TransactionStart = START,
    by_bucket: bool = False,
    unique_keys: UniqueKeys = UniqueKeys.NOWHERE,
) -> Conflicted | None:
    bodies: dict[InstantTime, Any] = {time(10): wrote()}
    bodies |= {instant.time: body for instant, body in others}

    def read_commit(instant: Instant) -> CommitMetadata:
        found = bodies[instant.time]
        assert isinstance(found, CommitMetadata)
        return found

    def read_plan(instant: Instant) -> bytes:
        assert instant.state is State.REQUESTED
        found = bodies[instant.time]
        assert isinstance(found, bytes)
        if found == b"gone":
            raise ObjectNotFoundError("rolled back", instant=instant)
        return found

    now = ActiveTimeline((at(10), MINE, *(instant for instant, _ in others)))
    return find_write_conflict(
        start,
        now,
        MINE,
        metadata,
        read_commit=read_commit,
        read_plan=read_plan,
        by_bucket=by_bucket,
        unique_keys=unique_keys,
    )


def clustering_plan(*groups: tuple[str, str]) -> bytes:
    slices = [
        {
            "dataFilePath": "x",
            "deltaFilePaths": [],
            "fileId": file_id,
            "partitionPath": partition,
            "bootstrapFilePath": "",
            "version": 1,
        }
        for partition, file_id in groups
    ]
    group = {"slices": slices, "metrics": {}, "numOutputFileGroups": 1, "version": 1}
    plan = {"inputGroups": [{**group, "extraMetadata": None}], "strategy": None, "version": 1}
    return encode_container(
        "HoodieRequestedReplaceMetadata",
        {
            "operationType": "CLUSTER",
            "clusteringPlan": {**plan, "extraMetadata": None, "preserveHoodieMetadata": True},
            "extraMetadata": None,
            "version": 1,
        },
    )


def compaction_plan(*groups: tuple[str, str]) -> bytes:
    operations: list[dict[str, Any]] = [
        {
            "baseInstantTime": str(time(5)),
            "deltaFilePaths": [],
            "dataFilePath": None,
            "fileId": file_id,
            "partitionPath": partition,
            "metrics": None,
            "bootstrapFilePath": None,
        }
        for partition, file_id in groups
    ]
    return encode_container(
        "HoodieCompactionPlan", {"operations": operations, "extraMetadata": None, "version": 2}
    )


def test_start_remembers_every_completed_and_every_pending_write() -> None:
    timeline = ActiveTimeline(
        (at(1), at(3), pending(2), pending(4, Action.COMPACTION), at(9, Action.CLEAN))
    )
    assert TransactionStart.of(timeline) == TransactionStart(
        frozenset({time(1), time(3)}), frozenset({time(2), time(4)})
    )
    assert TransactionStart.of(ActiveTimeline(())) == TransactionStart()


def test_candidates_are_what_completed_since_and_what_services_have_planned() -> None:
    start = TransactionStart(frozenset({time(8), time(10)}), frozenset({time(5), time(6)}))
    now = ActiveTimeline(
        (
            at(5),
            pending(6),
            at(8),
            at(10),
            at(11),
            at(12, Action.CLEAN),
            pending(13, Action.REPLACECOMMIT),
            pending(14, Action.COMPACTION),
            pending(51, Action.DELTACOMMIT),
            at(52, Action.DELTACOMMIT),
            pending(53, Action.COMPACTION),
            MINE,
        )
    )
    found = [int(str(instant.time)[-2:]) for instant in candidate_instants(start, now, MINE)]
    assert found == [5, 11, 13, 52, 53]


def test_writing_one_file_group_twice_conflicts() -> None:
    other = at(51)
    found = conflict(wrote(("p", "a-0"), ("p", "b-0")), (other, wrote(("p", "b-0"), ("p", "c-0"))))
    assert found == Conflicted(other, (FileGroupId("p", "b-0"),))


@pytest.mark.parametrize("theirs", [("p", "b-0"), ("q", "a-0")])
def test_other_file_groups_do_not_conflict(theirs: tuple[str, str]) -> None:
    assert conflict(wrote(("p", "a-0")), (at(51), wrote(theirs))) is None


def test_a_write_completed_before_we_began_does_not_conflict() -> None:
    assert conflict(wrote(("p", "a-0")), (at(9), wrote(("p", "a-0")))) is None


def test_an_older_write_that_was_pending_at_our_start_conflicts() -> None:
    start = TransactionStart(frozenset({time(10)}), frozenset({time(9)}))
    other = (at(9), wrote(("p", "a-0")))
    assert conflict(wrote(("p", "a-0")), other, start=start) is not None


def test_updating_what_another_replaced_conflicts() -> None:
    other = at(51, Action.REPLACECOMMIT)
    theirs = wrote(operation="DELETE_PARTITION", replaced={"p": ("a-0",)})
    assert conflict(wrote(("p", "a-0")), (other, theirs)) == Conflicted(
        other, (FileGroupId("p", "a-0"),)
    )


def test_deleting_a_partition_conflicts_with_an_update_in_it() -> None:
    mine = wrote(operation="DELETE_PARTITION", replaced={"p": ("a-0", "b-0")})
    assert conflict(mine, (at(51), wrote(("p", "b-0")))) is not None
    assert conflict(mine, (at(51), wrote(("p", "new-0"), operation="INSERT"))) is None


def test_overwriting_a_partition_conflicts_with_new_files_in_it() -> None:
    mine = wrote(("p", "new1-0"), operation="INSERT_OVERWRITE", replaced={"p": ("a-0",)})
    inserted = wrote(("p", "new2-0"), ("q", "c-0"), operation="INSERT")
    found = conflict(mine, (at(51), inserted))
    assert found == Conflicted(at(51), (FileGroupId("p", "new2-0"),))
    assert conflict(mine, (at(51), wrote(("q", "c-0"), operation="INSERT"))) is None


def test_inserting_into_a_partition_that_was_overwritten_conflicts() -> None:
    theirs = wrote(("p", "new1-0"), operation="INSERT_OVERWRITE_TABLE", replaced={"p": ("a-0",)})
    other = at(51, Action.REPLACECOMMIT)
    assert conflict(wrote(("p", "new2-0")), (other, theirs)) is not None
    assert conflict(wrote(("q", "new2-0")), (other, theirs)) is None


def test_two_new_file_groups_of_one_bucket_conflict_in_a_bucket_index() -> None:
    first, second = "00000007-aaaa-0", "00000007-bbbb-0"
    others = (at(51), wrote(("p", second)))
    assert conflict(wrote(("p", first)), others) is None
    assert conflict(wrote(("p", first)), others, by_bucket=True) is not None
    assert conflict(wrote(("q", first)), others, by_bucket=True) is None


def test_writing_under_a_pending_clustering_conflicts_whenever_it_was_planned() -> None:
    plan = clustering_plan(("p", "a-0"), ("p", "b-0"))
    for number in (20, 60):
        other = pending(number, Action.REPLACECOMMIT)
        assert conflict(wrote(("p", "b-0")), (other, plan)) is not None
        assert conflict(wrote(("p", "c-0")), (other, plan)) is None


@pytest.mark.parametrize("body", [b"", b"gone"])
def test_a_pending_overwrite_or_one_just_rolled_back_is_no_conflict(body: bytes) -> None:
    other = (pending(60, Action.REPLACECOMMIT), body)
    assert conflict(wrote(("p", "a-0")), other) is None


def test_a_compaction_planned_after_us_conflicts_one_planned_before_does_not() -> None:
    mine = wrote(("p", "a-0"))
    later = (pending(60, Action.COMPACTION), compaction_plan(("p", "a-0")))
    earlier = (pending(20, Action.COMPACTION), compaction_plan(("p", "a-0")))
    completed = (at(20), wrote(("p", "a-0"), operation="COMPACT", compacted=True))
    assert conflict(mine, later) is not None
    assert conflict(mine, earlier) is None
    assert conflict(mine, completed) is None


def test_a_pending_write_that_may_have_been_archived_unseen_conflicts() -> None:
    start = TransactionStart(START.completed, frozenset({time(3)}))
    assert conflict(wrote(("p", "a-0")), start=start) == Conflicted(at(3))


def test_a_pending_write_that_was_rolled_back_does_not_conflict() -> None:
    start = TransactionStart(START.completed, frozenset({time(20)}))
    assert conflict(wrote(("p", "a-0")), start=start) is None


@pytest.mark.parametrize("operation", ["UPSERT", "INSERT", "BULK_INSERT", "INSERT_OVERWRITE"])
def test_new_keys_of_an_upsert_may_be_those_another_inserted_concurrently(operation: str) -> None:
    mine = wrote(("p", "a-0"), ("q", "b-0"), inserts=1)
    other = (at(51), wrote(("p", "new-0"), ("r", "new-0"), operation=operation, inserts=2))
    by_partition = conflict(mine, other, unique_keys=UniqueKeys.PARTITION)
    in_table = conflict(mine, other, unique_keys=UniqueKeys.TABLE)
    assert by_partition == Conflicted(at(51), (FileGroupId("p", "new-0"),))
    assert in_table is not None
    assert len(in_table.file_groups) == 2


def test_who_promises_nothing_about_keys_inserts_next_to_others() -> None:
    mine = wrote(("p", "a-0"), operation="INSERT", inserts=1)
    other = (at(51), wrote(("p", "new-0"), inserts=1))
    assert conflict(mine, other, unique_keys=UniqueKeys.NOWHERE) is None


def test_updates_and_moved_rows_bring_no_new_keys() -> None:
    inserting, updating = wrote(("p", "a-0"), inserts=1), wrote(("p", "b-0"), inserts=0)
    clustered = wrote(("p", "c-0"), operation="CLUSTER", inserts=5)
    everywhere = UniqueKeys.TABLE
    assert conflict(inserting, (at(51), updating), unique_keys=everywhere) is None
    assert conflict(updating, (at(51), inserting), unique_keys=everywhere) is None
    assert conflict(inserting, (at(51), clustered), unique_keys=everywhere) is None


def test_a_write_of_a_writer_whose_clock_runs_behind_is_a_candidate() -> None:
    """It began after us, yet its instant is before the newest that was completed at our start."""
    assert conflict(wrote(("p", "a-0")), (at(7), wrote(("p", "a-0")))) is not None


def rollback_plan(of: int) -> bytes:
    target = {"commitTime": str(time(of)), "action": "commit"}
    record = {"instantToRollback": target, "RollbackRequests": [], "version": 1}
    return encode_container("HoodieRollbackPlan", record)


def test_a_pending_rollback_of_our_instant_is_a_conflict() -> None:
    rollback = pending(60, Action.ROLLBACK)
    assert conflict(wrote(("p", "a-0")), (rollback, rollback_plan(50))) == Conflicted(rollback)
    assert conflict(wrote(("p", "a-0")), (rollback, rollback_plan(40))) is None
    assert conflict(wrote(("p", "a-0")), (rollback, b"half a pl")) == Conflicted(rollback)


def test_what_we_started_from_being_restored_away_is_a_conflict() -> None:
    start = TransactionStart(frozenset({time(10), time(12)}))
    assert conflict(wrote(("p", "a-0")), start=start) == Conflicted(at(12))


def test_so_many_concurrent_commits_that_some_were_archived_is_a_conflict() -> None:
    start = TransactionStart(frozenset({time(3), time(4)}))
    assert conflict(wrote(("p", "a-0")), start=start) == Conflicted(at(4))


def test_a_savepoint_on_the_newest_commit_does_not_make_it_look_archived() -> None:
    start = TransactionStart(frozenset({time(10)}))
    savepoint = (at(10, Action.SAVEPOINT), b"")
    assert conflict(wrote(("p", "a-0")), savepoint, start=start) is None


def ingested(generation: int, *groups: tuple[str, str], ingest: str | None = "orders") -> Any:
    """An insert whose commit carries the checkpoint of the ingest "orders"."""
    extra = {"tideline.checkpoint.orders": json.dumps({"generation": generation})}
    if ingest is not None:
        extra["tideline.ingest"] = ingest
    return replace(wrote(*groups, operation="INSERT", inserts=1), extra_metadata=extra)


def test_two_runs_of_one_ingest_do_not_take_in_the_same_files() -> None:
    mine = ingested(4, ("p", "a-0"))
    assert conflict(mine, (at(51), ingested(4, ("q", "b-0")))) == Conflicted(at(51))
    assert conflict(mine, (at(9), ingested(3, ("q", "b-0")))) is None


def test_another_ingest_that_carries_our_checkpoint_on_is_no_conflict() -> None:
    mine = ingested(4, ("p", "a-0"))
    other = (at(51), ingested(3, ("q", "b-0"), ingest="returns"))
    assert conflict(mine, (at(9), ingested(3, ("q", "c-0"))), other) is None


def test_a_faster_run_is_found_behind_a_commit_that_carries_on_an_older_checkpoint() -> None:
    faster = (at(51), ingested(4, ("q", "b-0")))
    carrier = (at(52), ingested(3, ("r", "c-0"), ingest=None))
    assert conflict(ingested(4, ("p", "a-0")), faster, carrier) == Conflicted(at(51))


def test_a_pending_restore_is_a_conflict() -> None:
    restore = pending(60, Action.RESTORE)
    assert conflict(wrote(("p", "a-0")), (restore, b"")) == Conflicted(restore)
