"""Which files a rewrite takes: candidates, groups, limits, order, and what is left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.iceberg.manifest.manifest_entry import FileContent
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import IDENTITY, PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import JobOrder, RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import RewritePlan, plan_rewrite
from tideline.services.benefit import Benefit
from tideline.testing.iceberg_values import data_file, table_metadata

SCHEMA = Schema(0, (NestedField(1, "region", Primitive("string")),))
OLD = PartitionSpec(0)
BY_REGION = PartitionSpec(1, (PartitionField(1, 1000, "region", IDENTITY),))
TABLE = table_metadata(SCHEMA, OLD, BY_REGION)
MIB = 1024 * 1024
SIZES = {"target_size_bytes": 100, "size_bytes_min": 75, "size_bytes_max": 180}


def task(
    name: str, size_bytes: int, region: str | None = "a", *, deletes: int = 0, **given: Any
) -> FileScanTask:
    placed = {"spec_id": 1, "partition": (region,), **given}
    file = data_file(name, file_size_bytes=size_bytes, **placed)
    return FileScanTask(
        file,
        1,
        tuple(
            data_file(f"{name}-{number}", content=FileContent.POSITION_DELETES)
            for number in range(deletes)
        ),
    )


def planned(*tasks: FileScanTask, **given: Any) -> RewritePlan:
    options = RewriteOptions(**{**SIZES, **given})
    return plan_rewrite(iter(tasks), TABLE, options, starting_snapshot_id=7)


def names(plan: RewritePlan) -> list[list[str]]:
    return [
        [file_scan_task.data_file.file_path for file_scan_task in group.tasks]
        for group in plan.groups
    ]


def skipped(plan: RewritePlan) -> dict[Reason, int]:
    return {candidate.reason: candidate.files for candidate in plan.skipped}


def small(count: int, region: str | None = "a") -> list[FileScanTask]:
    return [task(f"{region}{number}", 10, region) for number in range(count)]


def test_five_small_files_of_a_partition_become_one() -> None:
    plan = planned(*small(5), *small(4, "b"))
    assert names(plan) == [["a0", "a1", "a2", "a3", "a4"]]
    assert plan.groups[0].reason is Reason.ENOUGH_FILES
    assert (plan.files_before, plan.files_after) == (5, 1)
    assert (plan.bytes_before, plan.bytes_after) == (50, 50)
    assert skipped(plan) == {Reason.TOO_LITTLE: 4}
    assert plan.starting_snapshot_id == 7


def test_files_of_the_right_size_are_left() -> None:
    plan = planned(task("low", 75), task("high", 180), *small(5), input_files_min=5)
    assert skipped(plan) == {Reason.RIGHT_SIZE: 2}
    assert plan.files_before == 5


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ([70, 31], Reason.ENOUGH_BYTES),
        ([181], Reason.TOO_LARGE),
        ([70, 30], None),
        ([70], None),
    ],
)
def test_a_group_is_kept_for_its_bytes(sizes: list[int], reason: Reason | None) -> None:
    plan = planned(*(task(str(number), size) for number, size in enumerate(sizes)))
    assert [group.reason for group in plan.groups] == ([] if reason is None else [reason])


def test_a_lone_file_is_never_enough_regardless_of_the_minimum() -> None:
    assert planned(*small(1), input_files_min=1).groups == ()


def test_a_file_with_too_many_delete_files_is_taken_alone() -> None:
    plan = planned(task("many", 100, deletes=2), task("one", 100, deletes=1),
                   delete_files_threshold=2)  # fmt: skip
    assert names(plan) == [["many"]]
    assert plan.groups[0].reason is Reason.DELETE_FILES


def test_only_deletes_of_one_known_file_count_for_the_ratio_of_deleted_rows() -> None:
    def with_deletes(name: str, rows: int, **given: Any) -> FileScanTask:
        delete = data_file("d", content=FileContent.POSITION_DELETES, record_count=rows, **given)
        file = task(name, 100, record_count=10).data_file
        return FileScanTask(file, 1, (delete,))

    plan = planned(
        with_deletes("few", 2, referenced_data_file="few"),
        with_deletes("some", 3, referenced_data_file="some"),
        with_deletes("unknown", 9),
    )
    assert names(plan) == [["some"]]
    group = plan.groups[0]
    assert group.reason is Reason.DELETE_RATIO
    assert (group.rows, group.rows_deleted, group.output_bytes_expected) == (10, 3, 70)


def test_deletion_vectors_count_and_never_more_than_all_rows() -> None:
    dv = data_file(
        "dv", content=FileContent.POSITION_DELETES, file_format="PUFFIN", record_count=99,
        referenced_data_file="f",
    )  # fmt: skip
    file = task("f", 100, record_count=10).data_file
    plan = planned(FileScanTask(file, 1, deletion_vector=dv))
    assert plan.groups[0].rows_deleted == 10
    assert plan.bytes_after == 0


def test_an_empty_data_file_has_no_ratio() -> None:
    empty = task("f", 100, deletes=1, record_count=0)
    assert planned(empty).groups == ()


def test_files_of_an_older_spec_form_one_group_regardless_of_their_partition() -> None:
    old = [task(f"old{number}", 10, spec_id=0, partition=()) for number in range(5)]
    plan = planned(*old, *small(5, None), *small(5))
    assert names(plan)[0] == [f"old{number}" for number in range(5)]
    assert [(group.spec_id, group.partition) for group in plan.groups] == [
        (0, ()),
        (1, (None,)),
        (1, ("a",)),
    ]
    assert [group.needs_partitioning for group in plan.groups] == [True, False, False]
    assert {group.output_spec_id for group in plan.groups} == {1}


def test_another_output_spec_is_taken_if_the_table_has_it() -> None:
    plan = planned(*small(5), output_spec_id=0)
    assert plan.groups[0].output_spec_id == 0
    assert plan.groups[0].needs_partitioning
    with pytest.raises(ConfigError, match="there are 0, 1"):
        planned(*small(5), output_spec_id=9)


def test_rewrite_all_takes_everything() -> None:
    plan = planned(task("right", 100), *small(1, "b"), rewrite_all=True)
    assert names(plan) == [["right"], ["b0"]]
    assert {group.reason for group in plan.groups} == {Reason.REWRITE_ALL}
    assert plan.skipped == ()


def test_groups_are_bounded_by_bytes_and_files() -> None:
    by_bytes = planned(*small(10), group_size_bytes_max=50)
    assert [len(group.tasks) for group in by_bytes.groups] == [5, 5]
    by_files = planned(*small(10), group_files_max=6)
    assert [len(group.tasks) for group in by_files.groups] == [6]
    assert skipped(by_files) == {Reason.TOO_LITTLE: 4}


def test_a_limit_of_files_cuts_the_last_group_and_leaves_the_rest() -> None:
    plan = planned(*small(5), *small(5, "b"), *small(5, "c"), files_max=7)
    assert [len(group.tasks) for group in plan.groups] == [5, 2]
    assert skipped(plan) == {Reason.BEYOND_LIMIT: 8}


def test_a_limit_of_files_takes_what_saves_most_unless_an_order_is_asked_for() -> None:
    large = [task(f"l{number}", 70, "l") for number in range(5)]
    by_benefit = planned(*large, *small(5), files_max=5)
    assert names(by_benefit) == [["a0", "a1", "a2", "a3", "a4"]]
    # Cut as it was found, and then put in order.
    asked = planned(*large, *small(5), files_max=5, job_order=JobOrder.BYTES_ASC)
    assert {group.partition[0] for group in asked.groups} == {"l"}


def test_a_plan_says_what_readers_save() -> None:
    plan = planned(*small(5))
    assert plan.benefit == Benefit(files_opened=4)
    assert plan.benefit_per_core_second == plan.benefit.benefit_bytes / plan.core_seconds

    def with_deletes(name: str, **given: Any) -> FileScanTask:
        delete = data_file(
            "d", content=FileContent.POSITION_DELETES, record_count=5, file_size_bytes=7, **given
        )
        return FileScanTask(task(name, 100, record_count=10).data_file, 1, (delete,))

    alone = planned(with_deletes("x", referenced_data_file="x"))
    # Half of the rows go, and the delete file is about no other file.
    assert alone.benefit == Benefit(
        files_opened=1, bytes_scanned=50 + 7, delta_files=1, delta_bytes=7
    )
    shared = planned(with_deletes("x"), delete_files_threshold=1)
    assert shared.benefit == Benefit()


@pytest.mark.parametrize(
    ("order", "regions"),
    [
        (JobOrder.NONE, ["a", "b", "c"]),
        (JobOrder.BYTES_ASC, ["b", "a", "c"]),
        (JobOrder.BYTES_DESC, ["c", "a", "b"]),
        (JobOrder.FILES_ASC, ["c", "a", "b"]),
        (JobOrder.FILES_DESC, ["b", "a", "c"]),
    ],
)
def test_groups_come_in_the_order_asked_for(order: JobOrder, regions: list[str]) -> None:
    tasks = [*small(6, "a")]
    tasks += [task(f"b{number}", 5, "b") for number in range(7)]
    tasks += [task(f"c{number}", 20, "c") for number in range(5)]
    plan = planned(*tasks, job_order=order)
    assert [group.partition[0] for group in plan.groups] == regions
    assert [group.index for group in plan.groups] == [0, 1, 2]


sizes = st.lists(st.tuples(st.integers(0, 400), st.sampled_from("ab")), max_size=40)


@given(sizes, st.integers(1, 8), st.integers(50, 1000), st.none() | st.integers(1, 20))
def test_every_file_is_planned_once_or_skipped_for_a_reason(
    files: list[tuple[int, str]], input_files_min: int, group_bytes: int, files_max: int | None
) -> None:
    tasks = [task(str(number), size, region) for number, (size, region) in enumerate(files)]
    plan = planned(
        *tasks,
        input_files_min=input_files_min,
        group_size_bytes_max=group_bytes,
        files_max=files_max,
    )
    chosen = [name for group in names(plan) for name in group]
    assert len(chosen) == len(set(chosen))
    assert len(chosen) + sum(candidate.files for candidate in plan.skipped) == len(files)
    total = sum(candidate.size_bytes for candidate in plan.skipped) + plan.bytes_before
    assert total == sum(size for size, _ in files)
    assert files_max is None or len(chosen) <= files_max
    for group in plan.groups:
        assert len({file_scan_task.data_file.partition for file_scan_task in group.tasks}) == 1
        assert len(group.tasks) == 1 or group.input_bytes <= group_bytes


@given(st.lists(st.integers(1, 2000), max_size=40))
def test_a_rewritten_partition_is_not_planned_again(sizes_mib: list[int]) -> None:
    tasks = [task(str(number), size * MIB) for number, size in enumerate(sizes_mib)]
    first = plan_rewrite(tasks, TABLE, RewriteOptions(), starting_snapshot_id=1)
    written = [
        task(f"new{number}", size)
        for group in first.groups
        for number, size in enumerate(_cut(group.input_bytes, group.split_size_bytes))
    ]
    assert len(written) == first.files_after
    again = plan_rewrite(written, TABLE, RewriteOptions(), starting_snapshot_id=2)
    assert again.groups == ()


def _cut(input_bytes: int, split_bytes: int) -> list[int]:
    whole, rest = divmod(input_bytes, split_bytes)
    return [split_bytes] * whole + ([rest] if rest else [])
