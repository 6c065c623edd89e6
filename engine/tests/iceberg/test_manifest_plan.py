"""Which manifests are worth a rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.iceberg.manifest.manifest_entry import FieldSummary, ManifestContent, ManifestFile
from tideline.iceberg.metadata.field_type import LONG
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.single_value import encode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions, plan_manifests
from tideline.testing.iceberg_model import IcebergModel

TARGET = 1000
IDENTITY = Transform("identity")
BY_TWO = PartitionSpec(
    5, (PartitionField(1, 1000, "a", IDENTITY), PartitionField(1, 1001, "b", IDENTITY))
)


def table() -> TableMetadata:
    metadata = IcebergModel.create().metadata()
    return replace(
        metadata,
        partition_specs=(*metadata.partition_specs, BY_TWO),
        default_spec_id=BY_TWO.spec_id,
        properties={"commit.manifest.target-size-bytes": str(TARGET)},
    )


def between(lower: int | None, upper: int | None = None, *, null: bool = False) -> FieldSummary:
    low, high = (
        None if number is None else encode_value(LONG, number) for number in (lower, upper)
    )
    return FieldSummary(null or low is None, False, low, high or low)


def manifest(
    name: str,
    *summaries: FieldSummary,
    size: int = TARGET,
    spec_id: int = BY_TWO.spec_id,
    content: ManifestContent = ManifestContent.DATA,
) -> ManifestFile:
    return ManifestFile(name, size, spec_id, content, 1, 1, 1, 1, 0, 0, partitions=summaries)


def planned(*manifests: ManifestFile, **options: Any) -> list[tuple[str, int]]:
    groups = plan_manifests(manifests, table(), ManifestOptions(**options))
    return [
        ("".join(manifest_file.path for manifest_file in group.manifests), group.outputs)
        for group in groups
    ]


def test_sorted_manifests_of_the_target_size_stay() -> None:
    a = manifest("a", between(1, 3), between(1, 9))
    b = manifest("b", between(3, 5), between(1, 9))
    c = manifest("c", between(6), between(1, 4))
    d = manifest("d", between(6), between(4, 9))
    assert planned(d, b, c, a) == []


def test_manifests_that_overlap_are_sorted_again() -> None:
    a = manifest("a", between(1, 3), between(1, 9))
    b = manifest("b", between(2, 5), between(1, 9))
    c = manifest("c", between(6, 7), between(1, 9))
    assert planned(c, b, a) == [("ab", 2)]
    d = manifest("d", between(6), between(1, 4))
    e = manifest("e", between(6), between(3, 9))
    assert planned(d, e) == [("de", 2)]


def test_nulls_come_first() -> None:
    a = manifest("a", between(None), between(None))
    b = manifest("b", between(1, 2, null=True), between(1, 2))
    assert planned(a, b) == []
    c = manifest("c", between(1), between(1))
    d = manifest("d", between(3, null=True), between(1, 2))
    assert planned(c, d) == [("dc", 2)]


def test_small_neighbours_become_one() -> None:
    small = [manifest(str(at), between(at), between(1), size=300) for at in range(5)]
    big = manifest("B", between(2, 3), between(1, 9))
    assert planned(*small[:2], big, small[4], manifest("6", between(6), between(1), size=300)) == [
        ("01", 1),
        ("46", 1),
    ]


def test_two_that_would_stay_two_are_left() -> None:
    a = manifest("a", between(1), between(1), size=600)
    b = manifest("b", between(2), between(1), size=600)
    assert planned(a, b) == []
    assert planned(a) == []


def test_a_large_one_is_cut() -> None:
    assert planned(manifest("a", between(1, 9), between(1), size=5 * TARGET)) == [("a", 5)]


def test_deletes_and_data_are_separate_and_other_specs_are_left() -> None:
    small = (between(1), between(1))
    data = [manifest(name, *small, size=10) for name in "ab"]
    deletes = [manifest(n, *small, size=10, content=ManifestContent.DELETES) for n in "cd"]
    others = [manifest(name, size=10, spec_id=1) for name in "ef"]
    assert planned(*data, *deletes, *others) == [("ab", 1), ("cd", 1)]
    assert planned(*data, *others, spec_id=1) == [("ef", 1)]


def test_without_partitions_only_sizes_count() -> None:
    full = [manifest(name, spec_id=1) for name in "ab"]
    assert planned(*full, spec_id=1) == []
    assert planned(*full, manifest("c", size=10, spec_id=1), spec_id=1) == []


def test_manifests_without_summaries_may_hold_anything() -> None:
    unknown = replace(manifest("a"), partitions=None)
    assert planned(unknown, manifest("b", between(1), between(1))) == [("ab", 2)]


def test_the_fields_to_sort_by_can_be_chosen() -> None:
    a = manifest("a", between(1, 9), between(1))
    b = manifest("b", between(1, 9), between(2))
    assert planned(a, b) == [("ab", 2)]
    assert planned(a, b, sort_by=("b",)) == []
    assert planned(a, b, sort_by=("b", "a")) == []
    with pytest.raises(ConfigError, match=r"its fields: a, b.*value=c"):
        planned(a, b, sort_by=("b", "c"))
    with pytest.raises(ConfigError, match="no partition spec"):
        planned(a, spec_id=9)


def test_everything_can_be_rewritten() -> None:
    a = manifest("a", between(1, 3), between(1, 9))
    assert planned(a, rewrite_all=True) == [("a", 1)]
