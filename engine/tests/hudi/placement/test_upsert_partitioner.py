"""The upsert partitioner: every row has exactly one bucket, and always the same."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.placement.upsert_partitioner import (
    BucketPlan,
    InsertBucket,
    Sizing,
    SmallFile,
    UpdateBucket,
    average_record_size,
    bucket_of,
    key_hash,
    plan_buckets,
    with_room_for_inserts,
)
from tideline.hudi.placement.workload_profile import PartitionWorkload, UpdateCount, WorkloadProfile
from tideline.hudi.timeline.instant_time import InstantTime

T = InstantTime("20250101000000000")
SIZING = Sizing(small_file_limit_bytes=1000, file_size_bytes_max=1200, insert_split_records=10)

file_ids = st.sampled_from([f"f{number}-0" for number in range(6)])
updates = st.dictionaries(file_ids, st.builds(UpdateCount, st.just(T), st.integers(1, 50)))
workloads = st.builds(PartitionWorkload, st.integers(0, 400), updates)
profiles = st.builds(
    WorkloadProfile, st.dictionaries(st.sampled_from(["", "p1", "a/b"]), workloads)
)
small_files = st.dictionaries(
    st.sampled_from(["", "p1", "a/b"]),
    st.lists(
        st.builds(SmallFile, file_ids, st.just(T), st.integers(0, 1500)),
        unique_by=lambda small: small.file_id,
        max_size=4,
    ),
)
sizings = st.builds(
    Sizing,
    small_file_limit_bytes=st.sampled_from([0, 1000]),
    file_size_bytes_max=st.integers(1, 2000),
    insert_split_records=st.integers(1, 100),
    insert_auto_split=st.booleans(),
)


def planned(
    profile: WorkloadProfile,
    small: dict[str, list[SmallFile]] | None = None,
    sizing: Sizing = SIZING,
    average: int = 10,
) -> BucketPlan:
    numbers = count()
    return plan_buckets(
        profile, small or {}, sizing, lambda: f"new{next(numbers)}", average_record_bytes=average
    )


@settings(deadline=None)
@given(profiles, small_files, sizings, st.integers(1, 3000))
def test_every_insert_lands_in_one_bucket_of_its_partition(
    profile: WorkloadProfile, small: dict[str, list[SmallFile]], sizing: Sizing, average: int
) -> None:
    plan = planned(profile, small, sizing, average)
    for partition, workload in profile.partitions.items():
        if workload.inserts == 0:
            assert partition not in plan.insert_weights
            continue
        weights = plan.insert_weights[partition]
        assert [weight for weight, _ in weights] == sorted({weight for weight, _ in weights})
        assert weights[-1][0] == 1.0
        for key in ("1", "é", "key-17", "😀"):
            assert plan.buckets[bucket_of(plan, partition, key)].partition == partition
        buckets = [bucket for bucket in plan.buckets if bucket.partition == partition]
        assert sum(bucket.inserts for bucket in buckets) == workload.inserts


@settings(deadline=None)
@given(profiles, small_files, sizings, st.integers(1, 3000))
def test_there_is_one_update_bucket_per_touched_file_group(
    profile: WorkloadProfile, small: dict[str, list[SmallFile]], sizing: Sizing, average: int
) -> None:
    plan = planned(profile, small, sizing, average)
    assert [bucket.number for bucket in plan.buckets] == list(range(len(plan.buckets)))
    found = [bucket for bucket in plan.buckets if isinstance(bucket, UpdateBucket)]
    assert len(plan.update_numbers()) == len(found)
    located = {
        (partition, file_id, update.records)
        for partition, workload in profile.partitions.items()
        for file_id, update in workload.updates.items()
    }
    taken = {(bucket.partition, bucket.file_id, bucket.updates) for bucket in found}
    assert located == {entry for entry in taken if entry[2]}
    prefixes = [b.file_id_prefix for b in plan.buckets if isinstance(b, InsertBucket)]
    assert len(set(prefixes)) == len(prefixes)


@settings(deadline=None)
@given(profiles, small_files, sizings, st.integers(1, 3000))
def test_small_files_never_outgrow_the_maximum(
    profile: WorkloadProfile, small: dict[str, list[SmallFile]], sizing: Sizing, average: int
) -> None:
    plan = planned(profile, small, sizing, average)
    for bucket in plan.buckets:
        if isinstance(bucket, UpdateBucket) and bucket.inserts:
            (file,) = [f for f in small[bucket.partition] if f.file_id == bucket.file_id]
            assert file.size_bytes + bucket.inserts * average <= sizing.file_size_bytes_max
            assert sizing.small_file_limit_bytes > 0


@settings(deadline=None)
@given(profiles, small_files, sizings)
def test_a_retried_task_gets_the_same_answer(
    profile: WorkloadProfile, small: dict[str, list[SmallFile]], sizing: Sizing
) -> None:
    reordered = WorkloadProfile(dict(reversed(list(profile.partitions.items()))))
    first, second = planned(profile, small, sizing), planned(reordered, small, sizing)
    assert first == second


def test_an_insert_shares_the_bucket_of_its_file_group_s_updates() -> None:
    profile = WorkloadProfile({"p": PartitionWorkload(5, {"f0-0": UpdateCount(T, 3)})})
    plan = planned(profile, {"p": [SmallFile("f0-0", T, 900)]})
    assert plan.buckets == (UpdateBucket(0, "p", "f0-0", T, updates=3, inserts=5),)
    assert plan.insert_weights == {"p": ((1.0, 0),)}


def test_small_files_fill_in_the_given_order_before_new_ones() -> None:
    profile = WorkloadProfile({"p": PartitionWorkload(200)})
    small = {"p": [SmallFile("full", T, 1195), SmallFile("b", T, 1000), SmallFile("a", T, 900)]}
    plan = planned(profile, small)
    assert [(type(bucket).__name__, bucket.inserts) for bucket in plan.buckets] == [
        ("UpdateBucket", 20),
        ("UpdateBucket", 30),
        ("InsertBucket", 120),
        ("InsertBucket", 30),
    ]
    assert [w for w, _ in plan.insert_weights["p"]] == [0.1, 0.25, 0.85, 1.0]


def test_without_auto_split_buckets_take_the_split_size() -> None:
    sizing = Sizing(insert_auto_split=False, insert_split_records=10)
    plan = planned(WorkloadProfile({"p": PartitionWorkload(25)}), sizing=sizing)
    assert [bucket.inserts for bucket in plan.buckets] == [10, 10, 5]


def test_file_groups_of_one_id_in_two_partitions_have_their_own_buckets() -> None:
    workload = PartitionWorkload(0, {"same-0": UpdateCount(T, 1)})
    plan = planned(WorkloadProfile({"p": workload, "q": workload}))
    assert plan.update_numbers() == {("p", "same-0"): 0, ("q", "same-0"): 1}


def test_key_hash_is_hudi_s() -> None:
    assert key_hash("1") == -9069201126804239676
    assert key_hash("1") % 1000 == 324


def test_a_share_reached_exactly_belongs_to_the_bucket_it_ends() -> None:
    weights = ((0.324, 0), (1.0, 1))
    assert bucket_of(BucketPlan((), {"p": weights}, {"p": 1000}), "p", "1") == 0
    below = ((0.3239, 0), (1.0, 1))
    assert bucket_of(BucketPlan((), {"p": below}, {"p": 1000}), "p", "1") == 1


def test_keys_spread_by_the_weights() -> None:
    plan = planned(WorkloadProfile({"p": PartitionWorkload(300)}))
    found = Counter(bucket_of(plan, "p", f"key-{number}") for number in range(3000))
    assert [found[number] / 3000 for number in range(3)] == pytest.approx([0.4, 0.4, 0.2], abs=0.03)


@pytest.mark.parametrize(
    ("commits", "size"),
    [
        ([], 1024),
        ([(1000, 10)], 1024),
        ([(1001, 10)], 101),
        ([(10, 1), (5000, 0), (3000, 7), (9000, 1)], 429),
        ([(10, 1)] * 4 + [(0, 0)] * 9 + [(3000, 7)], 429),
        ([(10, 1)] * 5 + [(3000, 7)], 1024),
    ],
)
def test_the_newest_large_commit_gives_the_record_size(
    commits: list[tuple[int, int]], size: int
) -> None:
    assert average_record_size(commits, SIZING) == size


def test_commits_older_than_the_decisive_one_are_not_read() -> None:
    unread = iter([(5000, 10), (9999, 1)])
    assert average_record_size(unread, SIZING) == 500
    assert next(unread) == (9999, 1)
    unread = iter([(10, 1)] * 6)
    assert average_record_size(unread, SIZING) == 1024
    assert len(list(unread)) == 1


@given(profiles, small_files)
@settings(deadline=None)
def test_room_for_inserts_is_added_only_where_there_is_none(
    profile: WorkloadProfile, small: dict[str, list[SmallFile]]
) -> None:
    plan = planned(profile, small)
    roomy = with_room_for_inserts(plan, profile.partitions, lambda: "room")
    assert roomy.buckets[: len(plan.buckets)] == plan.buckets
    assert [bucket.number for bucket in roomy.buckets] == list(range(len(roomy.buckets)))
    for partition in profile.partitions:
        chosen = roomy.buckets[bucket_of(roomy, partition, "any key")]
        assert chosen.partition == partition
        if partition in plan.insert_weights:
            assert chosen == plan.buckets[bucket_of(plan, partition, "any key")]
        else:
            assert chosen == InsertBucket(chosen.number, partition, "room", 0)
