"""The parts of a commit by themselves: retries, bins, summaries, sets of partitions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.iceberg.commit.file_identity import file_key, partition_key
from tideline.iceberg.commit.manifest_merge import MergePolicy
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.commit.summary import SummaryBuilder, partition_limit, with_totals
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestFile,
)
from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.single_value import encode_value
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.retry import commit_retries, status_checks
from tideline.retry import RetryPolicy
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model import IcebergModel

NAN = float("nan")


def data_file(partition: tuple[Any, ...] = (), **changes: Any) -> DataFile:
    file = DataFile(FileContent.DATA, "s3://b/f.parquet", "PARQUET", 0, partition, 10, 1000)
    return replace(file, **changes)


def manifest(length_bytes: int = 1, **changes: Any) -> ManifestFile:
    manifest_file = ManifestFile("s3://b/m.avro", length_bytes, 0, ManifestContent.DATA, 1, 1, 7)
    return replace(manifest_file, **changes)


def waits_ms(policy: RetryPolicy, *, chance: float = 0.0) -> list[int]:
    clock = FakeClock()
    moments = [clock.monotonic_s() for _ in policy.attempts(clock, lambda: chance)]
    return [round((later - sooner) * 1000) for sooner, later in itertools.pairwise(moments)]


def test_waits_double_up_to_the_most() -> None:
    assert waits_ms(RetryPolicy()) == [100, 200, 400, 800]
    assert waits_ms(RetryPolicy(retries=5, wait_ms_max=250)) == [100, 200, 250, 250, 250]
    assert waits_ms(RetryPolicy(), chance=1.0) == [110, 220, 440, 880]
    assert waits_ms(RetryPolicy(retries=0)) == []


def test_no_attempt_begins_after_the_whole_time() -> None:
    assert waits_ms(RetryPolicy(retries=10, total_ms=500)) == [100, 200, 400]


def test_a_call_is_repeated_after_that_error_alone() -> None:
    failures: list[Exception] = [ConfigError("1"), ConfigError("2"), ConfigError("3")]
    policy = RetryPolicy.at_once(2)

    def fail_or(value: int) -> int:
        if failures:
            raise failures.pop(0)
        return value

    with pytest.raises(ConfigError, match="3"):
        policy.call(lambda: fail_or(1), ConfigError)
    assert policy.call(lambda: fail_or(1), ConfigError) == 1
    failures.append(ValueError("other"))
    with pytest.raises(ValueError, match="other"):
        policy.call(lambda: fail_or(1), ConfigError)


def test_retries_are_the_tables_own() -> None:
    properties = {
        "commit.retry.num-retries": "7",
        "commit.retry.min-wait-ms": "1",
        "commit.status-check.num-retries": "2",
    }
    assert commit_retries(properties) == RetryPolicy(7, 1)
    assert status_checks(properties) == RetryPolicy(2, 1000)
    with pytest.raises(ConfigError, match=r"commit\.retry\.num-retries"):
        commit_retries({"commit.retry.num-retries": "-1"})
    with pytest.raises(ConfigError, match=r"commit\.manifest"):
        MergePolicy.of({"commit.manifest.min-count-to-merge": "many"})


def test_a_summary_counts_each_kind_of_file() -> None:
    summary = SummaryBuilder()
    deletes = FileContent.POSITION_DELETES
    vector = data_file(
        content=deletes, file_format="PUFFIN", content_offset=4, content_size_bytes=9
    )
    summary.add(data_file(), "p=1")
    summary.add(vector, "p=1")
    summary.remove(data_file(content=deletes), "p=2")
    summary.remove(data_file(content=FileContent.EQUALITY_DELETES, equality_ids=(1,)), "p=2")
    expected = {
        "added-data-files": "1",
        "added-delete-files": "1",
        "added-dvs": "1",
        "added-records": "10",
        "added-files-size": "1009",
        "added-position-deletes": "10",
        "removed-delete-files": "2",
        "removed-position-delete-files": "1",
        "removed-equality-delete-files": "1",
        "removed-position-deletes": "10",
        "removed-equality-deletes": "10",
        "removed-files-size": "2000",
        "changed-partition-count": "2",
    }
    assert summary.properties() == expected
    by_partition = summary.properties(partition_limit=2)
    assert by_partition.pop("partition-summaries-included") == "true"
    assert by_partition.pop("partitions.p=1").startswith("added-data-files=1,")
    assert "removed-delete-files=2" in by_partition.pop("partitions.p=2")
    assert by_partition == expected
    assert partition_limit({}) == 0
    with pytest.raises(ConfigError):
        partition_limit({"write.summary.partition-limit": "all"})


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({"total-records": "100"}, {"total-records": "95"}),
        ({"total-records": "3"}, {}),
        ({"total-records": "?"}, {}),
        ({}, {}),
        (None, {"total-records": "-5"}),
    ],
)
def test_totals_go_on_as_far_as_they_are_known(
    before: dict[str, str] | None, expected: dict[str, str]
) -> None:
    previous = None if before is None else Snapshot(1, None, 1, 0, "append", before, "s3://b/l")
    shown = with_totals({"added-records": "5", "deleted-records": "10"}, previous)
    if before is None:
        # Nothing cannot become less: the total stays unknown.
        assert "total-records" not in shown
        assert shown["total-data-files"] == "0"
    else:
        assert {n: v for n, v in shown.items() if n.startswith("total")} == expected


def test_the_same_file_and_the_same_partition() -> None:
    deletes = FileContent.POSITION_DELETES
    file = data_file(content=deletes, file_format="PUFFIN", content_offset=4)
    assert file_key(file) != file_key(replace(file, content_offset=44))
    assert file_key(data_file()) == file_key(data_file((1,), record_count=3))
    assert partition_key(data_file((float("nan"),))) == partition_key(data_file((NAN,)))
    assert partition_key(data_file((None,))) != partition_key(data_file((0,)))
    assert partition_key(data_file((1,))) != partition_key(data_file((1,), spec_id=1))


def metadata_of(type_name: str) -> TableMetadata:
    metadata = IcebergModel.create().metadata()
    schema = Schema(0, (NestedField(1, "value", Primitive(type_name), required=False),))
    spec = PartitionSpec(0, (PartitionField(1, 1000, "value", Transform("identity")),))
    return replace(metadata, schemas=(schema,), partition_specs=(spec,))


@pytest.mark.parametrize(
    ("type_name", "bounds", "value", "expected"),
    [
        ("long", (3, 7), 3, True),
        ("long", (3, 7), 8, False),
        ("long", (3, 7), None, False),
        ("string", ("b", "d"), "c", True),
        ("string", ("b", "d"), "da", False),
        ("double", (1.0, 2.0), NAN, False),
        ("boolean", (True, True), False, False),
        ("long", None, 3, False),
    ],
)
def test_a_manifest_is_only_read_when_its_bounds_allow(
    type_name: str, bounds: tuple[Any, Any] | None, value: Any, expected: bool
) -> None:
    metadata = metadata_of(type_name)
    lower, upper = (
        (None, None)
        if bounds is None
        else (encode_value(Primitive(type_name), bound) for bound in bounds)
    )
    summary = FieldSummary(False, False, lower, upper)
    wanted = PartitionSet.of([data_file((value,))])
    assert wanted.meets(manifest(partitions=(summary,)), metadata) is expected
    other = PartitionSet.of([data_file((value,), spec_id=5)])
    assert not other.meets(manifest(partitions=(summary,)), metadata)
    unsure = replace(summary, contains_null=True, contains_nan=None)
    if value is None or value != value:
        assert wanted.meets(manifest(partitions=(unsure,)), metadata)


def test_what_a_list_does_not_say_may_be_anything() -> None:
    wanted = PartitionSet.of([data_file((3,))])
    metadata = metadata_of("long")
    assert wanted.meets(manifest(partitions=None), metadata)
    broken = FieldSummary(False, False, b"\x01", b"\x02")
    assert wanted.meets(manifest(partitions=(broken,)), metadata)
    assert wanted.meets(manifest(partitions=()), metadata)
