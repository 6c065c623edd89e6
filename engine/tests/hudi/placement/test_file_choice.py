"""Which files a write looks into, adds to and appends to, from a file-system view alone."""

from __future__ import annotations

from functools import partial

import pytest

from tideline.hudi.placement.file_choice import (
    choose_targets,
    held_groups,
    live_buckets,
    live_file_ids,
    lookup_candidates,
    small_files,
)
from tideline.hudi.placement.targets import AppendTarget, CreateTarget, MergeTarget
from tideline.hudi.placement.upsert_partitioner import BucketPlan, InsertBucket, UpdateBucket
from tideline.hudi.placement.workload_profile import PartitionWorkload, WorkloadProfile
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.layout.version_6 import slices_by_name
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.config import WriteConfig

build_view = partial(FileSystemView.build, slices=slices_by_name)

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
T1, T2, PENDING = (InstantTime(f"2025010100000000{number}") for number in (1, 2, 5))
SIZING = WriteConfig.from_properties({"hoodie.parquet.small.file.limit": "100"}).sizing
TIMELINE = ActiveTimeline(
    (
        Instant(T1, Action.DELTACOMMIT, State.COMPLETED),
        Instant(T2, Action.DELTACOMMIT, State.COMPLETED),
        Instant(PENDING, Action.COMPACTION, State.REQUESTED),
    )
)


def base(group: str, size: int, instant: InstantTime = T1) -> tuple[str, int]:
    return f"{group}-0_0-0-0_{instant}.parquet", size


def log(group: str, version: int = 1, instant: InstantTime = T1) -> tuple[str, int]:
    return f".{group}-0_{instant}.log.{version}_0-0-0", 10


def view(*files: tuple[str, int], compacting: tuple[str, ...] = ()) -> FileSystemView:
    held = {FileGroupId("p", f"{group}-0"): PENDING for group in compacting}
    return build_view({"p": files}, TIMELINE, pending_compaction=held)


def inserting(partition: str = "p") -> WorkloadProfile:
    return WorkloadProfile({partition: PartitionWorkload(inserts=5)})


def test_keys_are_looked_up_in_base_files_and_in_groups_of_logs_alone() -> None:
    shown = view(base("a", 10), log("a"), log("b"))
    by_id = {
        found.file_id: found.file_slice for found in lookup_candidates(shown, MOR, is_global=False)
    }
    assert (len(by_id["a-0"].log_files), len(by_id["b-0"].log_files)) == (0, 1)
    everywhere = lookup_candidates(shown, MOR, is_global=True)
    assert [len(found.file_slice.log_files) for found in everywhere] == [1, 1]
    (alone,) = lookup_candidates(view(base("a", 10)), COW, is_global=False)
    assert alone.file_slice.base_file is not None


def test_logs_are_asked_for_deletes_where_a_key_may_have_two_places() -> None:
    def later(
        *files: tuple[str, int], separates_deleted: bool = False, **more: tuple[str, ...]
    ) -> int:
        found = lookup_candidates(
            view(*files, **more), MOR, is_global=False, separates_deleted=separates_deleted
        )
        return sum(len(candidate.later_logs) for candidate in found)

    assert later(base("a", 10), log("a")) == 0
    assert later(base("a", 10), log("a"), separates_deleted=True) == 1
    assert later(base("a", 10), log("a"), base("b", 10), log("c")) == 1
    compacted = base("a", 10), log("a"), log("a", 1, PENDING), base("b", 10)
    assert later(*compacted, compacting=("a",)) == 1


def test_keys_of_a_group_under_compaction_are_those_that_the_compaction_will_leave() -> None:
    appended = log("a", 1, PENDING)
    shown = view(base("a", 10), log("a"), appended, log("b"), compacting=("a", "b"))
    found = {
        candidate.file_id: candidate.file_slice
        for candidate in lookup_candidates(shown, MOR, is_global=False)
    }
    assert [log_file.instant for log_file in found["a-0"].log_files] == [T1]
    assert [log_file.instant for log_file in found["b-0"].log_files] == [T1]


def test_inserts_go_to_the_smallest_group_without_logs() -> None:
    shown = view(base("a", 90), base("b", 20), base("c", 10), log("c"), base("d", 200))
    assert [
        small_file.file_id for small_file in small_files(shown, inserting(), SIZING, MOR)["p"]
    ] == ["b-0"]
    several = {"hoodie.merge.small.file.group.candidates.limit": "5"}
    config = WriteConfig.from_properties({"hoodie.parquet.small.file.limit": "100", **several})
    found = small_files(shown, inserting(), config.sizing, MOR)["p"]
    assert [small_file.file_id for small_file in found] == ["b-0", "a-0"]
    assert len(small_files(view(base("a", 9), base("b", 9)), inserting(), SIZING, COW)["p"]) == 2
    assert small_files(shown, inserting("other"), SIZING, MOR) == {"other": ()}


def test_a_group_under_compaction_is_left_alone() -> None:
    shown = view(base("a", 10), compacting=("a",))
    assert small_files(shown, inserting(), SIZING, MOR) == {"p": ()}


def test_a_bucket_is_appended_rewritten_or_created() -> None:
    shown = view(base("a", 10), base("b", 10), base("c", 10), log("c"), log("d"))
    plan = BucketPlan(
        (
            UpdateBucket(0, "p", "a-0", T1, updates=1),
            UpdateBucket(1, "p", "b-0", T1, updates=1, inserts=2),
            UpdateBucket(2, "p", "c-0", T1, updates=1),
            UpdateBucket(3, "p", "d-0", T1, updates=1),
            InsertBucket(4, "p", "new", 3),
        )
    )
    targets = choose_targets(plan, shown, MOR)
    kinds = [type(targets[number]) for number in range(5)]
    assert kinds == [AppendTarget, MergeTarget, AppendTarget, AppendTarget, CreateTarget]
    assert type(choose_targets(BucketPlan(plan.buckets[:1]), shown, COW)[0]) is MergeTarget


@pytest.mark.parametrize("begun", [False, True])
def test_an_append_goes_on_top_of_a_pending_compaction(begun: bool) -> None:
    files = [base("a", 10), log("a"), *([log("a", 1, PENDING)] if begun else [])]
    shown = view(*files, compacting=("a",))
    plan = BucketPlan((UpdateBucket(0, "p", "a-0", T1, updates=1),))
    target = choose_targets(plan, shown, MOR)[0]
    assert isinstance(target, AppendTarget)
    assert target.slice_instant == PENDING
    assert target.file_slice.base_instant == T1


def test_groups_of_logs_alone_are_live() -> None:
    shown = view(base("00000001", 10), log("00000002"))
    assert sorted(live_buckets(shown, "p")) == [1, 2]
    assert live_file_ids(shown, ["p", "q"]) == {"p": ("00000001-0", "00000002-0")}


def test_a_plan_holds_its_groups() -> None:
    a, b = FileGroupId("p", "a-0"), FileGroupId("p", "b-0")
    assert held_groups({a: PENDING}, [b, a]) == {PENDING: a}
    assert held_groups({a: PENDING}, [b]) == {}
