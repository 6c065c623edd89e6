"""When clustering is due, which slices form groups, and the plan as Hudi writes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.avro import decode_container, encode_container
from tideline.hudi.services.clustering.config import ClusteringConfig, PartitionFilter
from tideline.hudi.services.clustering.conflict import find_update
from tideline.hudi.services.clustering.plan import (
    ClusteringPlan,
    find_due,
    partitions_to_cluster,
    plan_clustering,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.layout.version_6 import slices_by_name
from tideline.hudi.table.row_layout import RowLayout
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.testing.fixtures import fixture_table

build_view = partial(FileSystemView.build, slices=slices_by_name)

V6_MOR = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
REAL_PLAN = "20250922132203239.replacecommit.requested"
T1, T2, NOW = (InstantTime(f"2025010105{minute}00000") for minute in ("00", "10", "20"))
COMMITS = ActiveTimeline(
    (Instant(T1, Action.COMMIT, State.COMPLETED), Instant(T2, Action.COMMIT, State.COMPLETED))
)


def view(
    sizes: dict[str, list[int]], clustering: str | None = None, compacting: str | None = None
) -> FileSystemView:
    """File groups `f<n>-0` of these base sizes, by partition."""
    listing = {
        partition: [(f"f{n}-0_0-0-0_{T1}.parquet", size) for n, size in enumerate(found)]
        for partition, found in sizes.items()
    }
    pending = {FileGroupId("p", clustering): T2} if clustering else {}
    others = {FileGroupId("p", compacting): T2} if compacting else {}
    return build_view(listing, COMMITS, pending_clustering=pending, pending_compaction=others)


def groups(outcome: ClusteringPlan | NotDue) -> list[tuple[list[str], int]]:
    assert isinstance(outcome, ClusteringPlan)
    return [
        ([file_slice.group.file_id for file_slice in group.slices], group.output_groups)
        for group in outcome.groups
    ]


CONFIG = ClusteringConfig(small_file_bytes=50, group_bytes_max=100, target_file_bytes=40)


@pytest.mark.parametrize(
    ("done", "commits_max", "is_due"),
    [(frozenset(), 2, True), (frozenset({T1}), 2, False), (frozenset({T1}), 1, True)],
)
def test_it_is_due_after_so_many_commits_since_the_last_one(
    done: frozenset[InstantTime], commits_max: int, is_due: bool
) -> None:
    found = find_due(COMMITS, CONFIG, clusterings=done, commits_max=commits_max)
    assert isinstance(found, NotDue) is not is_due


def test_a_bucket_index_is_never_due() -> None:
    config = replace(CONFIG, has_bucket_index=True)
    assert isinstance(find_due(COMMITS, config, clusterings=frozenset(), commits_max=2), NotDue)


def test_slices_fill_groups_largest_first_and_large_files_stay() -> None:
    plan = plan_clustering(view({"p": [10, 45, 40, 60, 30]}), CONFIG, reason="")
    assert groups(plan) == [(["f1-0", "f2-0"], 3), (["f4-0", "f0-0"], 1)]


def test_groups_do_not_cross_partitions_and_are_limited() -> None:
    wide = view({"p": [10, 20], "q": [10, 20]})
    assert len(groups(plan_clustering(wide, CONFIG, reason=""))) == 2
    plan = plan_clustering(wide, replace(CONFIG, groups_max=1), reason="")
    assert len(groups(plan)) == 1
    assert isinstance(plan, ClusteringPlan)
    assert plan.missing_partitions == ("q",)


def test_what_is_beyond_the_limit_is_left_for_the_next_plan_to_look_at() -> None:
    deep = view({"p": [40, 40, 40, 40], "q": [40, 40, 40]})
    first = replace(CONFIG, groups_max=1)
    for limit, expected in ((1, ("p", "q")), (2, ("q",)), (3, ("q",)), (4, ())):
        plan = plan_clustering(deep, replace(first, groups_max=limit), reason="")
        assert isinstance(plan, ClusteringPlan)
        assert (len(plan.groups), plan.missing_partitions) == (limit, expected), limit
    large = view({"p": [10, 20], "q": [60]})
    plan = plan_clustering(large, first, reason="")
    assert isinstance(plan, ClusteringPlan)
    assert plan.missing_partitions == ()


def test_a_limit_takes_the_groups_that_save_most_for_their_bytes() -> None:
    # Two groups of four small files save three files each, the larger bytes of q cost more.
    uneven = view({"o": [45, 45], "p": [9, 9, 9, 9], "q": [24, 24, 24, 24]})
    two = replace(CONFIG, groups_max=2, target_file_bytes=1_000)
    plan = plan_clustering(uneven, two, reason="")
    assert isinstance(plan, ClusteringPlan)
    assert ([group.partition for group in plan.groups], plan.missing_partitions) == (
        ["p", "q"],
        ("o",),
    )
    # Of recent days the first ones are taken, as settings ask for these.
    days = replace(two, partition_filter=PartitionFilter.RECENT_DAYS)
    assert groups(plan_clustering(uneven, days, reason="")) == [
        (["f0-0", "f1-0"], 1),
        (["f0-0", "f1-0", "f2-0", "f3-0"], 1),
    ]


def test_a_single_slice_is_kept_only_where_settings_say_so() -> None:
    alone = view({"p": [10]})
    assert len(groups(plan_clustering(alone, CONFIG, reason=""))) == 1
    strict = replace(CONFIG, single_groups=False)
    assert isinstance(plan_clustering(alone, strict, reason=""), NotDue)
    assert len(groups(plan_clustering(alone, replace(strict, sort_columns=("v",)), reason=""))) == 1


def test_groups_of_a_pending_plan_are_left_alone() -> None:
    sizes = {"p": [10, 20]}
    for busy in (view(sizes, clustering="f0-0"), view(sizes, compacting="f0-0")):
        assert groups(plan_clustering(busy, CONFIG, reason="")) == [(["f1-0"], 1)]
    needed = {FileGroupId("p", "f0-0"): T2}
    plan = plan_clustering(view(sizes), CONFIG, reason="", pending_log_compaction=needed)
    assert groups(plan) == [(["f1-0"], 1)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["d1", "d2", "d3"]),
        ({"partition_filter": PartitionFilter.RECENT_DAYS}, ["d2", "d3"]),
        (
            {"partition_filter": PartitionFilter.RECENT_DAYS, "skip_latest_partitions": 1},
            ["d1", "d2"],
        ),
        (
            {
                "partition_filter": PartitionFilter.SELECTED_PARTITIONS,
                "begin_partition": "d2",
                "end_partition": "d2",
            },
            ["d2"],
        ),
        ({"partition_filter": PartitionFilter.DAY_ROLLING}, []),
        ({"partition_regex": "d[13]"}, ["d1", "d3"]),
    ],
)
def test_filters_choose_partitions(settings: dict[str, Any], expected: list[str]) -> None:
    config = replace(ClusteringConfig(), **settings)
    assert list(partitions_to_cluster(["d3", "d1", "d2"], config, NOW)) == expected


def test_settings_of_hudi_are_read() -> None:
    prefix = "hoodie.clustering.plan.strategy."
    read = Settings(
        {
            prefix + "sort.columns": "a, b",
            prefix + "class": "org.apache.hudi.x.SparkRecentDaysClusteringPlanStrategy",
            "hoodie.layout.optimize.strategy": "z-order",
        }
    )
    config = ClusteringConfig.from_settings(read)
    assert config.sort_columns == ("a", "b")
    assert config.partition_filter is PartitionFilter.RECENT_DAYS
    assert config.layout is RowLayout.ZORDER
    with pytest.raises(ConfigError):
        ClusteringConfig.from_settings(Settings({prefix + "class": "com.acme.Mine"}))


@pytest.mark.fixtures
def test_a_real_plan_is_read_and_written_as_it_was() -> None:
    path = fixture_table(V6_MOR) / ".hoodie" / REAL_PLAN
    record = decode_container(path.read_bytes(), "HoodieRequestedReplaceMetadata")
    plan = ClusteringPlan.from_avro(record, path=REAL_PLAN)
    first = record["clusteringPlan"]["inputGroups"][0]["slices"][0]
    base_uri = first["dataFilePath"].partition("/2023-01-01/")[0]
    assert plan.to_avro(base_uri) == record


@given(
    st.dictionaries(st.sampled_from(["", "p", "a=1"]), st.lists(st.integers(0, 49), max_size=6)),
    st.sampled_from(["s3a://bucket/table", "/data/table"]),
    st.sampled_from(list(RowLayout)),
)
def test_plans_survive_avro(sizes: dict[str, list[int]], uri: str, layout: RowLayout) -> None:
    config = replace(CONFIG, sort_columns=("v",), layout=layout)
    plan = plan_clustering(view(sizes), config, reason="")
    if isinstance(plan, NotDue):
        return
    record = decode_container(encode_container("HoodieRequestedReplaceMetadata", plan.to_avro(uri)))
    back = ClusteringPlan.from_avro(record, path="plan")
    assert back.to_avro(uri) == plan.to_avro(uri)
    assert back.replaced() == plan.replaced()
    assert (back.sort_columns, back.layout) == (("v",), layout)


def test_an_overwrite_is_no_clustering_plan() -> None:
    with pytest.raises(CorruptTableError):
        ClusteringPlan.from_avro({"clusteringPlan": None}, path="plan")


@pytest.mark.parametrize(
    ("path", "is_update"),
    [
        (f"p/f0-0_9-9-9_{T2}.parquet", True),
        (f"p/.f0-0_{T1}.log.1_0-0-0", True),
        (f"p/f0-0_0-0-0_{T1}.parquet", False),
        (f"p/f9-0_9-9-9_{T2}.parquet", False),
        (f"q/f0-0_9-9-9_{T2}.parquet", False),
    ],
)
def test_a_newer_file_of_a_planned_group_is_an_update(path: str, is_update: bool) -> None:
    plan = plan_clustering(view({"p": [10, 20]}), CONFIG, reason="")
    assert isinstance(plan, ClusteringPlan)
    write = Instant(T2, Action.COMMIT, State.COMPLETED)
    metadata = CommitMetadata({"p": (WriteStat(path=path),)})
    assert (find_update(plan.slices, [(write, metadata)], write.time) is not None) is is_update
